"""Markers: the first of some texts to end in a text that comes piece by piece.

A marker is a string of *symbols*: the character of a byte's number for each byte, and of 256 and
the id for each special token that the tokenizer calls by such words. So ``<|channel|>final`` is
six symbols where ``<|channel|>`` is a special token, and is found by that token's id. Special
tokens that stand in no marker are passed over, as they are in texts.

Aho and Corasick, "Efficient string matching", 1975: a state is the longest end of the text so far
that begins a marker, so that "aab" is found in "aaab", and markers may overlap. Their failure
links are followed beforehand, level by level: a step is one look into a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.free_text import FreeText, shown
from cdec.core.errors import UntokenizableError, UsageError
from cdec.core.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Found:
    """A marker that ended.

    Attributes:
        marker: Its number; of several that end together the first.
        end: Bytes of the piece up to its end.
    """

    marker: int
    end: int


class Markers:
    """An automaton that finds the first marker to end.

    States are 0 to ``count - 1``, of which 0 is that before any text. Cost: a state for each symbol
    of the markers, each with 4 bytes for every distinct one of them.

    Args:
        texts: Bytes, or symbols; at least one, none of them empty.

    Attributes:
        texts: Symbols of each.
        count: How many states there are.
        special: Ids of the special tokens that stand in them, ascending.
    """

    def __init__(self, texts: Sequence[bytes | str]) -> None:
        self.texts = tuple(map(as_symbols, texts))
        alphabet = sorted(set().union(*self.texts))
        # Class 0 is that of all symbols that stand in no marker.
        self._kinds = {symbol: number for number, symbol in enumerate(alphabet, 1)}
        self._classes = np.array([self._kinds.get(chr(byte), 0) for byte in range(256)], np.int32)
        self.special = [ord(symbol) - 256 for symbol in alphabet if ord(symbol) > 255]
        trie = _Trie(self.texts)
        self.count = len(trie.depths)
        self._depths = np.array(trie.depths, np.int32)
        self._owners = trie.owners
        # int32[count, classes]: the state one byte on, or -1 - m where marker m ends with it.
        self._steps = self._automaton(trie, len(alphabet) + 1)

    def beginning(self, state: int) -> bytes:
        """Return the bytes of the beginning of a marker that the text so far ends with."""
        return plain(self.texts[self._owners[state]][: self._depths[state]])

    def piece(self, vocabulary: Vocabulary, token: int) -> bytes | str:
        """Return what a token adds to a text in which markers are looked for."""
        return chr(256 + token) if token in self.special else vocabulary.token_bytes[token]

    def follow(self, state: int, piece: bytes | str) -> int | Found:
        """Return the state after a piece of text, or the first marker that ends within it."""
        if isinstance(piece, str):
            kinds = [self._kinds.get(symbol, 0) for symbol in piece]
        else:
            kinds = self._classes[np.frombuffer(piece, np.uint8)].tolist()
        for at, kind in enumerate(kinds, 1):
            state = int(self._steps[state, kind])
            if state < 0:
                return Found(-1 - state, at)
        return state

    def first_ends(
        self, state: int, data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[Any]
    ) -> NDArray[np.int32]:
        """Return where the first marker ends in each of n pieces that follow a state.

        Cost: one pass over the pieces' bytes; from another state than 0 over those that go on with
        a marker begun before.

        Args:
            state: Where they follow.
            data: uint8, the bytes of all pieces.
            starts: int64[n] where each begins. lengths: int[n] bytes of each.

        Returns:
            Bytes of the piece up to the marker's end, int32[n], 0 where none ends; from another
            state than 0 for the markers that were begun before the piece alone, if it goes on with
            them: from there on it is read as from state 0.
        """
        ends = np.zeros(len(starts), np.int32)
        rows = np.arange(len(starts))
        at = np.full(len(starts), state, np.int32)
        for place in range(int(lengths.max(initial=0))):
            left = lengths[rows] > place
            rows, at = rows[left], at[left]
            if not rows.size:
                break
            at = self._steps[at, self._classes[data[starts[rows] + place]]]
            ends[rows[at < 0]] = place + 1
            goes_on = at >= 0
            if state:
                goes_on &= self._depths[at] > place + 1
            rows, at = rows[goes_on], at[goes_on]
        return ends

    def owed(self, state: int) -> tuple[int, int]:
        """Return the marker that the text stands within, and how many of its symbols are there.

        Of several the first; where it stands within none, none of the first marker.
        """
        return self._owners[state], int(self._depths[state])

    def _automaton(self, trie: _Trie, classes: int) -> NDArray[np.int32]:
        """Return the table of steps, filled from the shortest beginnings to the longest."""
        steps = np.zeros((self.count, classes), np.int32)
        suffixes = np.zeros(self.count, np.int32)
        none = len(self.texts)
        ending = np.array([none if m is None else m for m in trie.whole], np.int64)
        parents = np.array(trie.parents, np.int32)
        kinds = np.array([0, *(self._kinds[symbol] for symbol in trie.symbols[1:])], np.int32)
        order = np.argsort(self._depths, kind="stable")
        bounds = np.searchsorted(self._depths[order], np.arange(self._depths.max() + 2))
        for depth in range(1, len(bounds) - 1):
            nodes = order[bounds[depth] : bounds[depth + 1]]
            above, kind = parents[nodes], kinds[nodes]
            if depth > 1:
                suffixes[nodes] = steps[suffixes[above], kind]
            steps[above, kind] = nodes
            # subtle: a shorter state's row is whole by now, children included; these are the next.
            steps[nodes] = steps[suffixes[nodes]]
            ending[nodes] = np.minimum(ending[nodes], ending[suffixes[nodes]])
        ends = ending[steps] < none
        steps[ends] = -1 - ending[steps[ends]]
        return steps


class _Trie:
    """The beginnings of markers as nodes, 0 for the empty one.

    Attributes:
        parents: The node one symbol before each. symbols: The one that leads to it.
        depths: Symbols that lead to it. owners: The first marker that begins so.
        whole: The first marker that it is; None where it is none.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.parents, self.depths, self.owners = [0], [0], [0]
        self.symbols = [""]
        self.whole: list[int | None] = [None]
        children: dict[tuple[int, str], int] = {}
        for number, text in enumerate(texts):
            node = 0
            for symbol in text:
                after = children.setdefault((node, symbol), len(self.depths))
                if after == len(self.depths):
                    self.parents.append(node)
                    self.symbols.append(symbol)
                    self.depths.append(self.depths[node] + 1)
                    self.owners.append(number)
                    self.whole.append(None)
                node = after
            if self.whole[node] is None:
                self.whole[node] = number


def as_symbols(text: bytes | str) -> str:
    """Return bytes as symbols; symbols as they are."""
    return text if isinstance(text, str) else text.decode("latin-1")


def plain(symbols: str) -> bytes:
    """Return the bytes among symbols."""
    return "".join(symbol for symbol in symbols if symbol <= "\xff").encode("latin-1")


def plain_run(symbols: str, start: int, stop: int) -> bytes:
    """Return the bytes from a place on, up to the first special token or to another place."""
    part = symbols[start:stop]
    length = next((n for n, symbol in enumerate(part) if symbol > "\xff"), len(part))
    return part[:length].encode("latin-1")


def _parts(marker: str, vocabulary: Vocabulary) -> list[str]:
    """Return a marker cut at the words of special tokens, which are every second part."""
    words = sorted(filter(marker.__contains__, vocabulary.special_tokens), key=len, reverse=True)
    return re.split(f"({'|'.join(map(re.escape, words))})", marker) if words else [marker]


def symbols_of(marker: str, vocabulary: Vocabulary) -> str:
    """Return a marker as symbols; words of special tokens stand for these, the longest first."""
    ids = vocabulary.special_tokens
    return "".join(
        chr(256 + ids[part]) if number % 2 else as_symbols(part.encode())
        for number, part in enumerate(_parts(marker, vocabulary))
    )


def ids_of(symbols: str, vocabulary: Vocabulary) -> list[int]:
    """Return the tokenizer's tokens of symbols, run by run between special tokens.

    Raises:
        UsageError: The vocabulary has no tokenizer.
        UntokenizableError: The tokenizer changes a run.
    """
    ids: list[int] = []
    for special, run in re.findall("([^\x00-\xff])|([\x00-\xff]+)", symbols):
        if special:
            ids.append(ord(special) - 256)
            continue
        data = plain(run)
        own = vocabulary.encode([data.decode("utf-8", "surrogateescape")])[0]
        if vocabulary.decode(own) != data:
            raise UntokenizableError(
                "the tokenizer changes the text: its tokens spell another one",
                hint="normalise the text as the tokenizer does, or give its token ids",
            )
        ids += own
    return ids


def require_spelt(free: FreeText, vocabulary: Vocabulary) -> None:
    """Refuse a marker that would never appear.

    Raises:
        UsageError: No token of the vocabulary has some byte of it, or one of its special tokens
            ends texts.
    """
    spelt = vocabulary.spelt_bytes
    for marker in free.texts:
        parts = _parts(marker, vocabulary)
        for word in parts[1::2]:
            if vocabulary.special_tokens[word] in vocabulary.eos_token_ids:
                raise UsageError(
                    f"the marker {shown(marker)} can never appear within a text: {word!r} ends it",
                    hint="give what stands before it, or another marker",
                )
        for character in "".join(parts[::2]):
            if not spelt.issuperset(character.encode()):
                raise UsageError(
                    f"the marker {shown(marker)} can never appear: no token of the model's "
                    f"vocabulary spells {character!r}",
                    hint="give a marker that the model can write",
                )
