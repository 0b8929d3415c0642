"""Writes small arithmetic word problems with their steps as JSON."""

from __future__ import annotations

import json

import numpy as np

NAMES = (
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Ida", "Jonas", "Karim",
    "Lena", "Maya", "Noah", "Olga", "Paul", "Rosa", "Sam", "Tara", "Umar", "Vera", "Wendy",
)  # fmt: skip
THINGS = (
    "apples", "books", "cards", "coins", "eggs", "flowers", "marbles", "oranges", "pencils",
    "shells", "stamps", "stickers", "stones", "tickets", "toys",
)  # fmt: skip

Steps = list[tuple[int, str, int, int]]


def answer_json(steps: list[str], answer: int | float) -> str:
    """Write the solution of a problem as one line of JSON."""
    return json.dumps({"steps": steps, "answer": answer}, ensure_ascii=False)


def problem_document(rng: np.random.Generator) -> str:
    """Write one problem of one or two steps with its solution.

    Args:
        rng: Chooses story, names and numbers (all results are non-negative integers).

    Returns:
        The document's text, without special tokens.
    """
    story, steps = KINDS[int(rng.integers(len(KINDS)))](rng)
    written = [f"{a}{op}{b}={c}" for a, op, b, c in steps]
    return f"Problem: {story}\nJSON: {answer_json(written, steps[-1][3])}"


def _words(rng: np.random.Generator) -> tuple[str, str, str]:
    first, second = rng.choice(len(NAMES), size=2, replace=False).tolist()
    return NAMES[first], NAMES[second], THINGS[int(rng.integers(len(THINGS)))]


def _small(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def _gain(rng: np.random.Generator) -> tuple[str, Steps]:
    name, other, thing = _words(rng)
    a, b = _small(rng, 2, 50), _small(rng, 2, 50)
    story = f"{name} has {a} {thing}. {other} gives {name} {b} more."
    story += f" How many {thing} does {name} have now?"
    return story, [(a, "+", b, a + b)]


def _loss(rng: np.random.Generator) -> tuple[str, Steps]:
    name, other, thing = _words(rng)
    b = _small(rng, 2, 40)
    a = b + _small(rng, 1, 50)
    story = f"{name} has {a} {thing} and gives {b} of them to {other}. How many {thing} are left?"
    return story, [(a, "-", b, a - b)]


def _boxes(rng: np.random.Generator) -> tuple[str, Steps]:
    name, _, thing = _words(rng)
    a, b = _small(rng, 2, 12), _small(rng, 2, 12)
    story = f"{name} fills {a} boxes with {b} {thing} each. How many {thing} are there in all?"
    return story, [(a, "*", b, a * b)]


def _share(rng: np.random.Generator) -> tuple[str, Steps]:
    name, _, thing = _words(rng)
    b, c = _small(rng, 2, 12), _small(rng, 2, 12)
    story = f"{name} shares {b * c} {thing} among {b} friends. How many {thing} does each get?"
    return story, [(b * c, "/", b, c)]


def _buy_and_pay(rng: np.random.Generator) -> tuple[str, Steps]:
    name, _, thing = _words(rng)
    a, b = _small(rng, 2, 10), _small(rng, 2, 9)
    paid = a * b + _small(rng, 1, 30)
    story = (
        f"{name} buys {a} {thing} for ${b} each and pays with ${paid}. How much change is there?"
    )
    return story, [(a, "*", b, a * b), (paid, "-", a * b, paid - a * b)]


def _two_people(rng: np.random.Generator) -> tuple[str, Steps]:
    name, other, thing = _words(rng)
    a, b = _small(rng, 2, 30), _small(rng, 2, 30)
    story = (
        f"{name} has {a} {thing}. {other} has {b} more than {name}. How many do they have together?"
    )
    return story, [(a, "+", b, a + b), (a, "+", a + b, 2 * a + b)]


def _times(rng: np.random.Generator) -> tuple[str, Steps]:
    name, other, thing = _words(rng)
    words = {2: "twice", 3: "three times", 4: "four times", 5: "five times"}
    a, k = _small(rng, 2, 20), _small(rng, 2, 5)
    story = f"{name} has {a} {thing}. {other} has {words[k]} as many. How many does {other} have?"
    return story, [(k, "*", a, k * a)]


def _week(rng: np.random.Generator) -> tuple[str, Steps]:
    name, _, thing = _words(rng)
    a, days, b = _small(rng, 2, 12), _small(rng, 2, 7), _small(rng, 1, 20)
    story = f"{name} finds {a} {thing} every day for {days} days and then {b} more."
    story += f" How many {thing} is that?"
    return story, [(a, "*", days, a * days), (a * days, "+", b, a * days + b)]


KINDS = (_gain, _loss, _boxes, _share, _buy_and_pay, _two_people, _times, _week)
