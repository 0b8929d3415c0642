"""Constituency trees of sentences, in the spelling of ASAp's paper: grammars, brackets, rows.

The paper's grammar is too large to be printed there; it lets every word of the sentence stand in
its order, in well-formed brackets. So does this one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.sygus import Task
from cdec.integrations.findings.tasks import tree_is_held_out, tree_prompt

TREES = "constituency/gum_trees.jsonl.xz"
_WORDS, _LONGEST = range(4, 7), 96
"""Words of the sentences that are drawn for, and most tokens of their trees."""
_BRACKET = re.compile(r"\( (\S+) (?=(\(?))")


@dataclass(frozen=True)
class Labels:
    """Labels of trees.

    Attributes:
        phrases: Those of phrases, by their names. tags: Those of words, likewise.
    """

    phrases: tuple[str, ...]
    tags: tuple[str, ...]

    @classmethod
    def of(cls, trees: Iterable[str]) -> Self:
        """Return the labels of some trees. Cost: their characters."""
        found: dict[bool, set[str]] = {True: set(), False: set()}
        for tree in trees:
            for label, opened in _BRACKET.findall(tree):
                found[bool(opened)].add(label)
        return cls(tuple(sorted(found[True])), tuple(sorted(found[False])))


def grammar_of(words: Sequence[str], labels: Labels) -> str:
    """Return the grammar of a sentence's trees, in EBNF: each text begins with a space.

    No more than two phrases have the same words, one within the other: so every sentence has a
    finite number of trees, each with one derivation.

    Args:
        words: Of the sentence, at least one. labels: Any of them may stand at any bracket.

    Returns:
        As many rules as the sentence has spans, times three; each has an alternative a word.
    """
    return "\n".join(_rules(words, labels)) + "\n"


def _rules(words: Sequence[str], labels: Labels) -> Iterator[str]:
    count = len(words)
    yield f'root ::= " " phrase-0-{count}'
    yield f"label ::= {_choice(labels.phrases)}"
    yield f"tag ::= {_choice(labels.tags)}"
    for begin in range(count):
        yield f'leaf-{begin} ::= "( " tag {_quoted(f" {words[begin]} )")}'
        for end in range(begin + 1, count + 1):
            span = f"{begin}-{end}"
            yield f'phrase-{span} ::= "( " label " " (parts-{span} | inner-{span}) " )"'
            yield f'inner-{span} ::= "( " label " " parts-{span} " )"'
            yield f"parts-{span} ::= {' | '.join(_parts(begin, end))}"


def _parts(begin: int, end: int) -> Iterator[str]:
    """Yield the ways in which a phrase is one word, or its first part and what follows."""
    if end == begin + 1:
        yield f"leaf-{begin}"
    for middle in range(begin + 1, end):
        first = [f"phrase-{begin}-{middle}", *([f"leaf-{begin}"] if middle == begin + 1 else [])]
        rest = [f"phrase-{middle}-{end}", f"parts-{middle}-{end}"]
        yield f'({" | ".join(first)}) " " ({" | ".join(rest)})'


def _choice(labels: Iterable[str]) -> str:
    return " | ".join(map(_quoted, labels))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True, order=True)
class Phrase:
    """A phrase of a tree: its label, and its words from ``begin`` to before ``end``."""

    label: str
    begin: int
    end: int


def phrases_of(tree: str) -> list[tuple[Phrase, str]]:
    """Return the phrases of a tree, the innermost first, each with its text.

    Words are no phrases. What is no tree has none: a bracket that is not closed is left out.

    Args:
        tree: Brackets, labels and words with a space between any two of them.
    """
    parts = tree.split()
    found: list[tuple[Phrase, str]] = []
    opened: list[tuple[int, int]] = []
    words = 0
    for i, part in enumerate(parts):
        if part == "(":
            opened.append((i, words))
        elif part == ")":
            if not opened:
                return []
            first, begin = opened.pop()
            if "(" in parts[first + 1 : i]:
                text = " ".join(parts[first : i + 1])
                found.append((Phrase(parts[first + 1], begin, words), text))
        elif parts[i - 1] != "(":
            words += 1
    return found


def shared_brackets(tree: str, right: str) -> tuple[int, int, int]:
    """Return how many labelled brackets two trees have in common, and how many each has."""
    own, other = (Counter(phrase for phrase, _ in phrases_of(each)) for each in (tree, right))
    return (own & other).total(), own.total(), other.total()


def words_of(tree: str) -> list[str]:
    """Return the words of a tree, in order."""
    parts = tree.split()
    return [
        part
        for before, part in zip(["(", *parts], parts, strict=False)
        if before != "(" and part not in ("(", ")")
    ]


def tree_tasks(laboratory: Laboratory, count: int) -> list[Task]:
    """Return sentences of documents that ``constituency`` was not trained on, far apart.

    Args:
        laboratory: Its data. count: Tasks.
    """
    rows = list(laboratory.rows(TREES))
    labels = Labels.of(row["tree"] for row in rows)
    held_out = [
        row for row in rows if tree_is_held_out(document_of(row)) and len(row["words"]) in _WORDS
    ]
    step = len(held_out) // count
    return [
        Task(
            name=row["id"],
            family="CP",
            in_paper=False,
            grammar=grammar_of(row["words"], labels),
            prompt=tree_prompt(row["words"]),
            max_new_tokens=_LONGEST,
        )
        for row in held_out[step // 2 :: step][:count]
    ]


def document_of(row: Mapping[str, Any]) -> str:
    """Return the name of the document that a row's sentence is of."""
    return str(row["id"]).rpartition("-")[0]
