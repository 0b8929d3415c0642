"""Worlds small enough to enumerate: a model given by a table, and a set of token sequences.

The toys of the papers, and families whose laws are known in closed form. A world is enumerated by
``enumeration`` and ``adaptive``, which share no code with the samplers that draw from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.sets.members import SetMembers
from cdec.core.sets.rows import SetRows
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.trie import build_trie
from cdec.core.tokens.vocabulary import Vocabulary

Row = tuple[int, ...]
Probabilities = Callable[[Row], NDArray[np.float64]]


@dataclass(frozen=True)
class TextTable:
    """Member texts and their rows, as a dictionary: no code shared with the text index."""

    texts: Mapping[bytes, NDArray[np.int64]]
    heads: tuple[bytes, ...] = (b"",)
    tail: bytes = b""
    prefix: bytes | None = None

    @property
    def empty_head(self) -> bytes:
        """Return what precedes the empty member."""
        return self.heads[0] if self.prefix is None else self.prefix

    def lookup(self, text: bytes) -> NDArray[np.int64]:
        """Return the rows of ``text``."""
        return self.texts.get(text, np.zeros(0, np.int64))


def toy_set(
    rows: Iterable[Sequence[int]],
    vocabulary: Vocabulary,
    *,
    ends_itself: bool = False,
    head: bytes = b"",
    tail: bytes = b"",
    prefix: bytes | None = None,
) -> SetConstraint:
    """Return the set of these token rows (forced prefix and suffix included).

    ``prefix``: ``head`` without the set's own leading space; None where it has none.
    """
    ordered = sorted({tuple(row) for row in rows})
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in ordered])])
    texts: dict[bytes, list[int]] = {}
    for number, row in enumerate(ordered):
        text = vocabulary.decode(row).removeprefix(head).removesuffix(tail)
        texts.setdefault(text, []).append(number)
    table: Any = TextTable({t: np.array(n) for t, n in texts.items()}, (head,), tail, prefix)
    columns = {
        "source_offsets": np.arange(len(ordered) + 1),
        "source_lines": np.arange(1, len(ordered) + 1),
        "id_offsets": np.zeros(0, np.int64),
        "id_bytes": np.zeros(0, np.uint8),
    }
    members = SetMembers.from_mapping(columns, table, "none")
    flat = np.array([token for row in ordered for token in row], np.int32)
    arrays = build_trie(flat, offsets, vocabulary.size)
    return SetConstraint(SetRows(arrays, vocabulary, members), ends_itself=ends_itself)


@dataclass(frozen=True)
class Toy:
    """A tabular model and a set of rows.

    Attributes:
        members: The rows of S, in the order of the design's tables.
    """

    vocabulary: Vocabulary
    probabilities: Probabilities
    members: list[Row]
    ends_itself: bool = False

    @cached_property
    def constraint(self) -> SetConstraint:
        """The set of the members: compiled where it is asked for, as enumerations ask for none."""
        return toy_set(self.members, self.vocabulary, ends_itself=self.ends_itself)

    def model(self) -> TabularModel:
        """Return a fresh model."""
        return TabularModel(self.probabilities, self.vocabulary)


_BINARY = Vocabulary([b"0", b"1", b""], eos_token_ids=[2], special_token_ids=[2])
_BRACKETS = Vocabulary([b"(", b")", b""], eos_token_ids=[2], special_token_ids=[2])
_LETTERS = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3], special_token_ids=[3])


def toy_a() -> Toy:
    """ASAp's Example 1: binary strings of length 5, {00000} and all that begin with 1."""

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        if len(prefix) < 5:
            return np.array([0.45, 0.55, 0.0])
        end = 1.0 if prefix[-1] == 1 else 1e-8
        return np.array([0.45 * (1 - end), 0.55 * (1 - end), end])

    ones = [(1, *rest) for rest in itertools.product((0, 1), repeat=4)]
    return Toy(_BINARY, probabilities, [(0, 0, 0, 0, 0), *ones])


def toy_b() -> Toy:
    """Six strings over a, b, c, of which some are prefixes of others."""

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        h = 0
        for token in prefix:
            h = (5 * h + token + 1) % 23
        weights = np.array([1.0 + ((h * (t + 2) + 3 * t) % 7) for t in range(4)])
        law: NDArray[np.float64] = weights / weights.sum()
        return law

    members = ["a", "ab", "abc", "bac", "cb", "cbb"]
    return Toy(
        _LETTERS, probabilities, [tuple(b"abc".index(c) for c in m.encode()) for m in members]
    )


def soccer_shoes() -> Toy:
    """The first figure of DISC's paper: what to recommend to someone who asks for soccer shoes.

    Tokens: soccer, used, shoes, gloves, balls and the end. "soccer shoes" and "used soccer gloves"
    are not on the list; what follows "used" beside "soccer" is not in the figure, and is one text.
    """
    pieces = [b"soccer ", b"used ", b"shoes", b"gloves", b"balls"]
    vocabulary = Vocabulary([*pieces, b""], eos_token_ids=[5], special_token_ids=[5])
    laws = {
        (): [0.6, 0.4, 0.0, 0.0, 0.0, 0.0],
        (0,): [0.0, 0.0, 0.9, 0.1, 0.0, 0.0],
        (1,): [0.9, 0.0, 0.0, 0.0, 0.1, 0.0],
        (1, 0): [0.0, 0.0, 0.9, 0.1, 0.0, 0.0],
    }

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        return np.array(laws.get(prefix, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))

    return Toy(vocabulary, probabilities, [(0, 3), (1, 0, 2), (1, 4)])


def lured(mass: float, share: float) -> Toy:
    """Two members: one begins likely and ends hardly ever, the other has nearly all of Q.

    Args:
        mass: P(S). share: Q of the member that begins likely.
    """
    rare = mass * (1 - share)

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        if not prefix:
            return np.array([1 - rare, rare, 0.0, 0.0])
        if prefix == (0,):
            ends = mass * share / (1 - rare)
            return np.array([0.0, ends, 1 - ends, 0.0])
        return np.array([0.0, 0.0, 0.0, 1.0])

    return Toy(_LETTERS, probabilities, [(0, 1), (1,)])


def dyck(opens: float, closes: float, pairs: int) -> Toy:
    """Balanced brackets, up to some pairs, under a model that opens, closes and ends at any time.

    Args:
        opens: Probability of an opening bracket at every step. closes: of a closing one.
        pairs: Most pairs of brackets.
    """
    law = np.array([opens, closes, 1 - opens - closes])

    def balanced(most: int) -> list[Row]:
        """Return the balanced rows of exactly ``most`` pairs."""
        if most == 0:
            return [()]
        splits = [(balanced(n), balanced(most - 1 - n)) for n in range(most)]
        return [(0, *a, 1, *b) for inner, after in splits for a in inner for b in after]

    members = [row for n in range(1, pairs + 1) for row in balanced(n)]
    return Toy(_BRACKETS, lambda prefix: law, members)
