"""Masks equal stepping, for every token: along all workloads, and in random grammars.

Random grammars keep their masks in memory of a random size, so that they are forgotten and made
again in the middle of a text; their vocabulary is every short text over three letters.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core import Vocabulary
from cdec.core.errors import CdecError
from cdec.data.assets import embedded_model_path
from tests.benchmarks.grammars.fresh_workloads import fresh_workloads
from tests.core.grammars.engine.engine_cases import constraint_of
from tests.laws.grammar_cases import byte_vocabulary, compiled
from tests.laws.stepping import assert_masks_are_steps, assert_masks_are_steps_along

_LETTERS = {"graphql": 40, "lua": 260, "sql": 260, "python": 300, "python_blocks": 300}
"""How much of the first document is followed; names and keywords collide in all."""


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.from_tokenizer(str(embedded_model_path()))


@pytest.mark.parametrize("name", _LETTERS)
def test_masks_are_steps_along_documents(name: str, vocabulary: Vocabulary, tmp_path: Path) -> None:
    load, rng = fresh_workloads()[name], np.random.default_rng(11)
    options = {"lexer": load["lexer"], "indenter": load.get("indenter")}
    session = compiled(load["lark"], tmp_path, vocabulary, **options).session("cpu")
    document = vocabulary.encode([load["docs"][0][: _LETTERS[name]]])[0]
    assert_masks_are_steps_along(session, [document], vocabulary, rng, detours=8)


def every_short_text(letters: str, longest: int) -> Vocabulary:
    """Return all bytes and all texts of two letters and more."""
    texts = [itertools.product(letters, repeat=length) for length in range(2, longest + 1)]
    return byte_vocabulary(["".join(text) for group in texts for text in group])


_TERMINALS = ("/[ab]+/", "/[a-c]+/", "/a+b?/", "/(ab|c)*a/", "/a{1,3}/", "/b|c/", "/a/", "/abc?/")


def overlapping_grammar(rng: np.random.Generator) -> str:
    """Return a random grammar whose terminals share texts, or are one and the same."""
    count = int(rng.integers(2, 5))
    lines = [f"T{i}: {rng.choice(_TERMINALS)}" for i in range(count)]
    rules = ["start", "x", "y"][: int(rng.integers(1, 4))]
    symbols = [f"T{i}" for i in range(count)] * 2 + ['"a"', '"bc"', '"ca"'] + rules
    for rule in rules:
        alternatives = [
            " ".join(
                f"{rng.choice(symbols)}{rng.choice(['', '', '', '?', '*', '+'])}"
                for _ in range(int(rng.integers(1, 4)))
            )
            for _ in range(int(rng.integers(1, 4)))
        ]
        lines.append(f"{rule}: {' | '.join(alternatives)}")
    if rng.random() < 0.3:
        lines.append('%ignore "c"')
    return "\n".join(lines) + "\n"


def walked(session: Any, rng: np.random.Generator, steps: int) -> np.ndarray:
    """Return the states along one walk over uniformly drawn tokens that do not end the text."""
    states = [session.start(1)]
    for _ in range(steps):
        _, ids = session.allowed(states[-1])
        after = session.advance(np.repeat(states[-1], len(ids)), ids)
        going = after[after >= 0]
        if not len(going):
            break
        states.append(rng.choice(going, 1))
    return np.concatenate(states)


@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
def test_masks_are_steps_in_random_grammars(lexer: str) -> None:
    vocabulary, compared = every_short_text("abc", 4), 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 5])
        source = overlapping_grammar(rng)
        held = int(rng.choice([1, 1 << 14, 1 << 18, 1 << 28]))
        try:
            constraint = constraint_of(source, vocabulary, lexer, memo_bytes=held)
        except CdecError:
            continue
        session = constraint.session()
        # Where texts have many readings, a long text has very many.
        for steps in (6, 6, 12 if lexer == "dynamic" else 150):
            states = walked(session, rng, steps)
            states = states[np.unique(np.append(rng.integers(0, len(states), 7), len(states) - 1))]
            assert_masks_are_steps(session, states, vocabulary)
            compared += len(states)
    assert compared > 100
