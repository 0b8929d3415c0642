"""Sets of characters as ranges of code points, and characters as bytes of UTF-8.

Classes, categories and case are as ``re`` has them. Automata over classes of characters become
automata over bytes.
"""

from __future__ import annotations

import functools
import re

# The parser of ``re`` is the definition of the syntax; it has no public name.
import re._constants as sre  # type: ignore[import-not-found]
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states import allowed

Ranges = tuple[tuple[int, int], ...]
"""Inclusive ranges of code points: sorted, disjoint, not adjacent."""

MAX_CODE_POINT = sys.maxunicode
EVERYTHING: Ranges = ((0, MAX_CODE_POINT),)
_BLOCK = 256
_CLASS_ESCAPES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_NONE = -1
_SURROGATES = (0xD800, 0xDFFF)
# (first code point, last, bits below the first byte, first byte's marker)
_LENGTHS = ((0, 0x7F, 0, 0), (0x80, 0x7FF, 6, 0xC0), (0x800, 0xFFFF, 12, 0xE0),
            (0x10000, 0x10FFFF, 18, 0xF0))  # fmt: skip
Run = tuple[int, int, int]
"""First code point, last code point, atom."""


def normalised(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return ``ranges`` sorted, overlaps and neighbours joined."""
    joined: list[tuple[int, int]] = []
    for pair in sorted(ranges):
        low, high = pair
        if joined and low <= joined[-1][1] + 1:
            if high > joined[-1][1]:
                joined[-1] = (joined[-1][0], high)
        else:
            joined.append(pair)  # not a copy: thousands of classes may hold a category's ranges
    return tuple(joined)


def complement(ranges: Ranges) -> Ranges:
    """Return all code points outside ``ranges``."""
    gaps: list[tuple[int, int]] = []
    at = 0
    for low, high in ranges:
        if at < low:
            gaps.append((at, low - 1))
        at = high + 1
    if at <= MAX_CODE_POINT:
        gaps.append((at, MAX_CODE_POINT))
    return tuple(gaps)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """Return the code points in both; linear in the number of ranges."""
    common: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            common.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


@functools.lru_cache(maxsize=4096)
def charset(items: tuple[Any, ...], flags: int) -> Ranges:
    """Return the characters that one item of a parsed pattern matches.

    Args:
        items: ``(op, argument)`` pairs of ``re``'s parser: LITERAL, NOT_LITERAL or ANY alone, or
            the members of a class, NEGATE first where it is negated.
        flags: ``re.I``, ``re.S`` and ``re.A`` as they hold at the item.

    Returns:
        The exact set, lone surrogates included (no UTF-8 text holds them). Cost: microseconds;
        some 20 ms for the first use of a Unicode category or of case folding.
    """
    if items[0][0] is sre.ANY:
        return EVERYTHING if flags & re.S else complement(((10, 10),))
    plain = _without_case(items, flags)
    if not flags & re.I:
        return plain
    # Characters without case match as they do without the flag; the few others are asked of ``re``
    # itself, whose folding has exceptions of its own.
    cased_text, cased, uncased = _cased_characters()
    asked = re.compile(_class_text(items), flags & (re.I | re.A))
    matched = [(ord(c), ord(c)) for c in asked.findall(cased_text)]
    return normalised((*intersection(plain, uncased), *intersection(normalised(matched), cased)))


def _without_case(items: tuple[Any, ...], flags: int) -> Ranges:
    op, argument = items[0]
    if op is sre.LITERAL and len(items) == 1:
        return ((argument, argument),)
    if op is sre.NOT_LITERAL:
        return complement(((argument, argument),))
    ranges: list[tuple[int, int]] = []
    for kind, value in items:
        if kind is sre.LITERAL:
            ranges.append((value, value))
        elif kind is sre.RANGE:
            ranges.append((value[0], value[1]))
        elif kind is sre.CATEGORY:
            ranges.extend(_category(_CLASS_ESCAPES[value], bool(flags & re.A)))
    found = normalised(ranges)
    return complement(found) if op is sre.NEGATE else found


@functools.cache
def _category(escape: str, ascii_only: bool) -> Ranges:
    if escape.isupper():
        return complement(_category(escape.lower(), ascii_only))
    runs = re.compile(f"{escape}+", re.A if ascii_only else 0)
    text = _all_characters()[:128] if ascii_only else _all_characters()
    return tuple((run.start(), run.end() - 1) for run in runs.finditer(text))


@functools.cache
def _all_characters() -> str:
    code_points = np.arange(MAX_CODE_POINT + 1, dtype="<u4")
    return code_points.tobytes().decode("utf-32-le", "surrogatepass")


@functools.cache
def _cased_characters() -> tuple[str, Ranges, Ranges]:
    """Return all characters that have, or are, another case of something, and their complement."""
    everything = _all_characters()
    found: set[str] = set()
    for start in range(0, len(everything), _BLOCK):
        block = everything[start : start + _BLOCK]
        if block == block.lower() == block.upper():
            continue
        for character in block:
            other_cases = character.lower() + character.upper()
            if other_cases != character + character:
                found.update(character, other_cases)
    cased = normalised((ord(c), ord(c)) for c in found)
    return "".join(sorted(found)), cased, complement(cased)


def _class_text(items: Sequence[tuple[Any, Any]]) -> str:
    """Write ``items`` as a pattern again."""
    op, argument = items[0]
    if op is sre.LITERAL and len(items) == 1:
        return _escaped(argument)
    if op is sre.NOT_LITERAL:
        return f"[^{_escaped(argument)}]"
    parts = []
    for kind, value in items:
        if kind is sre.NEGATE:
            parts.append("^")
        elif kind is sre.LITERAL:
            parts.append(_escaped(value))
        elif kind is sre.RANGE:
            parts.append(f"{_escaped(value[0])}-{_escaped(value[1])}")
        else:
            parts.append(_CLASS_ESCAPES[value])
    return f"[{''.join(parts)}]"


def _escaped(code_point: int) -> str:
    return f"\\U{code_point:08x}"


class Atoms(NamedTuple):
    """The coarsest partition of the characters that respects every charset.

    runs: Which code points belong to which atom, ascending; others belong to none.
    offsets, members: The atoms of every charset, int64[charsets + 1] and int32.
    """

    runs: tuple[Run, ...]
    number: int
    offsets: NDArray[np.int64]
    members: NDArray[np.int32]


def partition(charsets: Sequence[Ranges]) -> Atoms:
    """Split the characters into atoms; O(ranges log ranges)."""
    bounds = np.unique(
        [edge for ranges in charsets for low, high in ranges for edge in (low, high + 1)]
    )
    # An interval's signature is the sum of random weights of the sets it lies in: equal for equal
    # memberships, and different ones collide with probability 2^-64 a pair.
    weights = np.random.default_rng(0).integers(1, 2**63, len(charsets), np.uint64)
    steps = np.zeros(len(bounds) + 1, np.uint64)
    spans = []
    for weight, ranges in zip(weights, charsets, strict=True):
        edges = np.array(ranges, np.int64).reshape(-1, 2)
        begins = np.searchsorted(bounds, edges[:, 0])
        ends = np.searchsorted(bounds, edges[:, 1] + 1)
        steps[begins] += weight
        steps[ends] -= weight
        spans.append((begins, ends))
    signatures = np.cumsum(steps)[: len(bounds)]
    values, atom_of = np.unique(signatures, return_inverse=True)
    if len(values) and values[0] == 0:
        atom_of = atom_of - 1
        values = values[1:]
    members, offsets = [], np.zeros(len(charsets) + 1, np.int64)
    for i, (begins, ends) in enumerate(spans):
        parts = [atom_of[a:b] for a, b in zip(begins, ends, strict=True)]
        atoms = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        members.append(atoms)
        offsets[i + 1] = offsets[i] + len(atoms)
    runs = tuple(
        (int(bounds[i]), int(bounds[i + 1]) - 1, int(atom_of[i]))
        for i in range(len(bounds) - 1)
        if atom_of[i] >= 0
    )
    joined = np.concatenate(members) if members else np.empty(0, np.int64)
    return Atoms(runs, len(values), offsets, joined.astype(np.int32))


class ByteTree(NamedTuple):
    """Tree of the bytes that lead to each character's atom; node 0 is before the first byte.

    children: int32[nodes, 256]: a node, ``-2 - atom`` after the last byte, -1 where no character of
    an atom continues. atoms: For every node the atoms below it.
    """

    children: NDArray[np.int32]
    atoms: tuple[tuple[int, ...], ...]


@functools.lru_cache(maxsize=256)
def byte_tree(runs: tuple[Run, ...]) -> ByteTree:
    """Return the tree of ``runs``, equal subtrees once; lone surrogates are left out."""
    builder = _TreeBuilder()
    root: list[Run] = []
    bounds = [edge for first, last, _, _ in _LENGTHS for edge in (first, last + 1)]
    pieces = _cut(runs, [*bounds, _SURROGATES[0], _SURROGATES[1] + 1])
    at = 0
    for first, last, shift, marker in _LENGTHS:
        part = []
        while at < len(pieces) and pieces[at][0] <= last:
            if pieces[at][0] >= first:
                part.append(pieces[at])
            at += 1
        root.extend(
            (low | marker, high | marker, child) for low, high, child in builder.split(part, shift)
        )
    return builder.finish(root)


def _cut(runs: Sequence[Run], bounds: Sequence[int]) -> list[Run]:
    """Cut runs at some code points; leave out lone surrogates and what is beyond Unicode."""
    cuts, at, kept = sorted(set(bounds)), 0, []
    for low, high, atom in runs:
        while cuts[at] <= low and at + 1 < len(cuts):
            at += 1
        while low < cuts[at] <= high:
            kept.append((low, cuts[at] - 1, atom))
            low = cuts[at]
            if at + 1 == len(cuts):
                break
            at += 1
        kept.append((low, high, atom))
    first, last = _SURROGATES
    return [run for run in kept if not first <= run[0] <= last]


class _TreeBuilder:
    def __init__(self) -> None:
        self._numbers: dict[tuple[Run, ...], int] = {}

    def split(self, runs: Sequence[Run], shift: int) -> list[Run]:
        """Return the children of a node as ranges of the next byte's payload.

        Args:
            runs: Code points relative to the node's first one, ascending.
            shift: Bits that the bytes after the next one hold.
        """
        children: list[Run] = []
        parts: list[Run] = []
        at = -1
        for low, high, atom in runs:
            first, last = low >> shift, high >> shift
            if first != at:
                self._close(children, parts, at, shift)
                parts, at = [], first
            if first == last:
                parts.append((low, high, atom))
                continue
            parts.append((low, (first + 1 << shift) - 1, atom))
            self._close(children, parts, first, shift)
            if first + 1 < last:
                self._add(children, first + 1, last - 1, self._whole(atom, shift))
            parts, at = [(last << shift, high, atom)], last
        self._close(children, parts, at, shift)
        return children

    def _close(self, children: list[Run], parts: list[Run], at: int, shift: int) -> None:
        if not parts:
            return
        if shift == 0:
            child = -2 - parts[0][2]
        else:
            base = at << shift
            relative = [(low - base, high - base, atom) for low, high, atom in parts]
            child = self._number(self.split(relative, shift - 6))
        self._add(children, at, at, child)

    def _whole(self, atom: int, shift: int) -> int:
        if shift == 0:
            return -2 - atom
        return self._number([(0, 63, self._whole(atom, shift - 6))])

    @staticmethod
    def _add(children: list[Run], low: int, high: int, child: int) -> None:
        if children and children[-1][1] + 1 == low and children[-1][2] == child:
            children[-1] = (children[-1][0], high, child)
        else:
            children.append((low, high, child))

    def _number(self, children: list[Run]) -> int:
        """Return the node with these children; 0 is kept for the root."""
        return self._numbers.setdefault(tuple(children), len(self._numbers) + 1)

    def finish(self, root: list[Run]) -> ByteTree:
        nodes = [(tuple(root), 0), *((key, 0x80) for key in self._numbers)]
        children = np.full((len(nodes), 256), _NONE, np.int32)
        atoms: list[tuple[int, ...]] = [()] * len(nodes)
        # A node is numbered after its children, so theirs are known; the root comes last.
        for number in (*range(1, len(nodes)), 0):
            below: set[int] = set()
            runs, marker = nodes[number]
            for low, high, child in runs:
                children[number, low | marker : (high | marker) + 1] = child
                below.update(atoms[child] if child >= 0 else (-2 - child,))
            atoms[number] = tuple(sorted(below))
        return ByteTree(children, tuple(atoms))


class TooManyStatesError(Exception):
    """The automaton over bytes would have more states than are allowed; nothing of it was made."""


def expand(
    delta: NDArray[np.int32], tree: ByteTree, most: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the automaton over bytes of an automaton over atoms.

    States 0 <= s < n are those of ``delta`` (between characters); the others are inside one: a node
    of the tree with the states that its atoms lead to. They are counted before they are made.

    Args:
        delta: int32[n, A] over atoms, -1 dead.
        most: States that are allowed.

    Returns:
        (byte_class int32[256], rows int32[m, K]), -1 dead.

    Raises:
        TooManyStatesError: There are more than ``most`` of them, or as much to look up for each.
    """
    byte_class, representatives = _byte_classes(tree.children)
    kinds = {key: kind for kind, key in enumerate(dict.fromkeys(tree.atoms[1:]))}
    kind_of = [kinds[key] for key in tree.atoms[1:]]
    lands, states_of = _landing(delta, kinds, Counter(kind_of), most)
    states = [np.arange(len(delta), dtype=np.int32), *(states_of[kind] for kind in kind_of)]
    begins = np.cumsum([0, *map(len, states)])
    children = tree.children[:, representatives]
    is_node = children >= 0
    # subtle: no character leads to the root, so what stands for its kind is never looked at.
    columns = np.where(is_node, np.array([0, *kind_of])[np.maximum(children, 0)], -1)
    columns = np.where(children <= -2, len(kinds) - 2 - children, columns)
    bases = np.where(is_node, begins[np.maximum(children, 0)], 0).astype(np.int32)
    rows = np.empty((int(begins[-1]), len(representatives)), np.int32)
    for node, own in enumerate(states):
        found = lands[own[:, None], columns[node]]
        rows[begins[node] : begins[node + 1]] = np.where(found >= 0, found + bases[node], -1)
    return byte_class, rows


def _landing(
    delta: NDArray[np.int32],
    kinds: Mapping[tuple[int, ...], int],
    nodes: Mapping[int, int],
    most: int,
) -> tuple[NDArray[np.int32], list[NDArray[np.int32]]]:
    """Number the states within characters, of each kind of node anew.

    Args:
        kinds: Sets of atoms that lie below a node, numbered.
        nodes: Number of nodes of each kind.

    Returns:
        int32[n, kinds + A + 1]: where a state between characters comes to, -1 nowhere: in a node of
        a kind, by an atom, and by nothing; and of each kind, a state for each that it numbers.
    """
    total, width = len(delta), len(kinds) + delta.shape[1] + 1
    if total * width > allowed(most).cells:
        raise TooManyStatesError
    lands = np.full((total, width), -1, np.int32)
    lands[:, len(kinds) : -1] = delta
    states: list[NDArray[np.int32]] = []
    for key, kind in kinds.items():
        lands[:, kind], firsts = _distinct(delta[:, key])
        states.append(firsts.astype(np.int32))
        total += nodes[kind] * len(firsts)
        if total > most:
            raise TooManyStatesError
    return lands, states


def _distinct(targets: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the distinct rows of ``targets``; rows of -1 alone get -1. Also: a state for each."""
    keys = targets[:, 0].astype(np.int64)
    for column in range(1, targets.shape[1]):
        keys = np.unique(keys, return_inverse=True)[1] * (len(targets) + 1) + targets[:, column] + 1
    dead = (targets < 0).all(axis=1)
    numbers = np.full(len(targets), -1, np.int32)
    living = np.flatnonzero(~dead)
    _, firsts, inverse = np.unique(keys[living], return_index=True, return_inverse=True)
    numbers[living] = inverse
    return numbers, living[firsts]


def _byte_classes(children: NDArray[np.int32]) -> tuple[NDArray[np.int32], list[int]]:
    """Return (class of each byte, a byte of each class): bytes that lead to the same everywhere."""
    numbers: dict[bytes, int] = {}
    representatives: list[int] = []
    byte_class = np.zeros(256, np.int32)
    for byte, column in enumerate(np.ascontiguousarray(children.T)):
        number = numbers.setdefault(column.tobytes(), len(numbers))
        if number == len(representatives):
            representatives.append(byte)
        byte_class[byte] = number
    return byte_class, representatives
