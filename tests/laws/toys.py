"""Toy models and sets with known laws: the design's toys A and B, and sets given by token rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
    table = TextTable({t: np.array(n) for t, n in texts.items()}, (head,), tail, prefix)
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
    constraint: SetConstraint = field(init=False)

    def __post_init__(self) -> None:
        made = toy_set(self.members, self.vocabulary, ends_itself=self.ends_itself)
        object.__setattr__(self, "constraint", made)

    def model(self) -> TabularModel:
        """Return a fresh model."""
        return TabularModel(self.probabilities, self.vocabulary)


_BINARY = Vocabulary([b"0", b"1", b""], eos_token_ids=[2], special_token_ids=[2])
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
        return weights / weights.sum()

    members = ["a", "ab", "abc", "bac", "cb", "cbb"]
    return Toy(
        _LETTERS, probabilities, [tuple(b"abc".index(c) for c in m.encode()) for m in members]
    )


def random_toy(seed: int, *, ends_itself: bool = False) -> Toy:
    """A random set of up to 8 rows over 4 tokens and a random model with two end ids."""
    rng = np.random.default_rng(seed)
    size = 6
    vocabulary = Vocabulary(
        [bytes([97 + t]) for t in range(4)] + [b"", b""], eos_token_ids=[4, 5], width=size + 1
    )
    rows: set[Row] = set()
    while len(rows) < int(rng.integers(1, 9)):
        rows.add(tuple(rng.integers(0, 4, size=int(rng.integers(1, 5))).tolist()))
    members = sorted(rows)
    if ends_itself:  # No row may be a prefix of another: each gets an end of its own.
        members = sorted({(*(t % 3 for t in row), 3) for row in members})

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        own = np.random.default_rng([seed, 7, *prefix])
        weights = own.exponential(size=size + 1) ** 2 + 1e-3
        weights[own.random(size + 1) < 0.1] = 0.0
        weights[4] += 1e-3
        return weights / weights.sum()

    return Toy(vocabulary, probabilities, members, ends_itself)
