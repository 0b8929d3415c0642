"""Texts of a constraint written otherwise: a transducer reads what is written, the constraint it.

A transducer (Mohri, "Finite-state transducers in language and speech processing", 1997, section 2)
reads the symbols of a text one by one, and writes bytes of a member at some of them. A text is
allowed where what is written of it is a member. What it has read and the constraint's state
together are a *place*; where two readings are still possible both are followed, so states are sets
of places. Each step of one is thought about once; a mask is a walk of tokens along these steps,
level by level of their trie, but for those that are written as they are: they stand in the
constraint's own mask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.markers import as_symbols
from cdec.core.combine.wrapped import ForwardingSession, WrappedConstraint, mask_of
from cdec.core.constraint import Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.mask import mask_words, offsets_of
from cdec.core.session import DEAD, DONE, Session, integers, require_rows
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import first_rejected_byte

__all__ = ["Mode", "RewrittenConstraint", "Writing"]

Can = Callable[[bytes], bool]
"""Says whether a member can go on with bytes."""


class Mode(ABC):
    """What a transducer has read, as far as it matters; equal ones go on alike."""

    @property
    def may_end(self) -> bool:
        """Whether all may be read."""
        return False

    @property
    def passed(self) -> frozenset[int]:
        """Bytes that are written as they are, and behind which this mode goes on.

        Law: ``step`` yields the mode and the byte for each of them.
        """
        return frozenset()

    @abstractmethod
    def step(self, symbol: str, can: Can) -> Iterable[tuple[Mode, bytes]]:
        """Yield what it may have read after one more symbol, and what that writes of a member.

        Args:
            symbol: As of ``cdec.core.combine.markers``: a byte, or a special token.
            can: Of the member so far. What has to be looked at before it is written: everything
                else that no member goes on with is dropped.
        """


class Writing(ABC):
    """How members of a constraint are written.

    Attributes:
        special: Ids of the special tokens that texts have.
        is_sound: Whether whatever a member can go on with can be written.
    """

    special: frozenset[int] = frozenset()
    is_sound = True

    @abstractmethod
    def starts(self) -> Sequence[tuple[Mode, bytes]]:
        """Return how reading may begin, and what a member begins with."""

    @abstractmethod
    def in_texts(self) -> Writing:
        """Return this writing as it is in texts, which do not show special tokens."""

    def read(self, text: bytes) -> bytes | None:
        """Return the member that a text without special tokens stands for; None for none."""
        places: Iterable[tuple[Mode, bytes]] = self.in_texts().starts()
        for symbol in as_symbols(text):
            places = {
                (after, written + more)
                for mode, written in places
                for after, more in mode.step(symbol, lambda _: True)
            }
        return min((written for mode, written in places if mode.may_end), default=None)


class _Levels:
    """A token trie with the children of a node side by side, level by level.

    Attributes:
        byte: uint8[N] that leads to a node. roots: Nodes of the first level.
        children: int64[N + 1]: those of node i are ``children[i]`` up to ``children[i + 1]``.
        tokens: int64[N + 1] the same of ``ids``, tokens that end at a node.
        passed: Packed mask of the tokens that are left out, int32[words].
    """

    def __init__(self, trie: TokenTrie, passed: NDArray[np.int32]) -> None:
        self.passed = passed
        order = np.argsort(trie.depth, kind="stable")
        self.byte = trie.node_byte[order]
        counts = np.diff(trie.token_offsets)[order]
        self.tokens = offsets_of(counts)
        self.ids = trie.token_ids[_ranges(trie.token_offsets[:-1][order], counts)]
        depth = trie.depth[order]
        self.roots = int(np.searchsorted(depth, 2))
        children = np.zeros(len(order), np.int64)
        for level in range(2, trie.max_depth + 1):
            above, first, last = np.searchsorted(depth, [level - 1, level, level + 1])
            # In pre-order, a node's parent is the last one before it that is a level above.
            parents = np.searchsorted(order[above:first], order[first:last]) - 1
            np.add.at(children, above + parents, 1)
        self.children = self.roots + offsets_of(children)

    @classmethod
    def of(cls, vocabulary: Vocabulary, passed: frozenset[int]) -> _Levels:
        """Return those of a vocabulary, made once for it while it lives.

        Args:
            vocabulary: The tokens.
            passed: Bytes; tokens of these alone are left out.
        """
        known = _KNOWN.setdefault(vocabulary, {})
        if passed not in known:
            others = np.ones(256, np.bool_)
            others[list(passed)] = False
            counts = offsets_of(others[vocabulary.flat_bytes])[vocabulary.byte_offsets]
            kept = np.diff(counts) > 0
            ids = np.flatnonzero(~kept & (vocabulary.byte_lengths > 0))
            mask = mask_of(ids, mask_words(vocabulary.width))
            known[passed] = cls(TokenTrie.of(vocabulary).without(kept), mask)
        return known[passed]


_KNOWN: WeakKeyDictionary[Vocabulary, dict[frozenset[int], _Levels]] = WeakKeyDictionary()


def _ranges(starts: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its count, one range after another."""
    ends = np.cumsum(counts)
    offsets = np.repeat(starts - (ends - counts), counts)
    return np.asarray(offsets + np.arange(int(ends[-1]) if len(ends) else 0), np.int64)


_UNKNOWN = -3
_Places = tuple[tuple[Mode, int], ...]
"""Modes, each with the state of the constraint."""


class RewrittenSession(ForwardingSession):
    """Follows texts through the readings that are possible.

    Args:
        inner: Of the members, on the host; it takes bytes.
        vocabulary: Of the model.
        writing: Of members.
    """

    def __init__(self, inner: Session, vocabulary: Vocabulary, writing: Writing) -> None:
        super().__init__(None, vocabulary)
        self._members = inner
        self._writing = writing
        self._lock = RLock()
        self._numbers: dict[_Places, int] = {}
        self._places: list[_Places] = []
        self._masks: dict[int, NDArray[np.int32]] = {}
        self._special: dict[tuple[int, int], int] = {}
        self._steps = np.full((64, 256), _UNKNOWN, np.int32)
        first = int(inner.start(1)[0])
        places = [(mode, self._after(first, begun)) for mode, begun in writing.starts()]
        self._first = self._number(places)

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.full(n, self._first, np.int64)

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which states are sets of places, bool[n]."""
        return (states >= 0) & (states < len(self._places))

    def own_mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of a state, int32[words]. Cost: a walk, the first time."""
        with self._lock:
            if state not in self._masks:
                passed = frozenset.intersection(*(mode.passed for mode, _ in self._places[state]))
                levels = _Levels.of(self._vocabulary, passed)
                mask = mask_of(self._allowed(state, levels), self.words)
                self._masks[state] = mask | (self._passing(state) & levels.passed)
            return self._masks[state]

    def own_after(self, state: int, token: int) -> int:
        """Return the state after a token; DONE where the text ends with it."""
        if not 0 <= token < self._vocabulary.size:
            return DEAD
        if token in self._vocabulary.eos_token_ids:
            return DONE if self.own_end(state) else DEAD
        with self._lock:
            if token in self._writing.special:
                return self._after_special(state, token)
            piece = self._vocabulary.token_bytes[token]
            return self._follow(state, piece) if piece else DEAD

    def own_end(self, state: int) -> bool:
        """Say whether what is written is a member."""
        ends = [at for mode, at in self._places[state] if mode.may_end]
        return bool(ends) and bool(self._members.is_complete(np.array(ends, np.int64)).any())

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, one text a state, int64[n]."""
        at = integers(states, 1, "states")
        require_rows(len(at), len(texts), "texts")
        with self._lock:
            pairs = zip(at.tolist(), texts, strict=True)
            return np.array([self._follow(state, text) for state, text in pairs], np.int64)

    def statistics(self) -> Mapping[str, int]:
        """Return how many states the session holds, those of the session within included."""
        return {"states": len(self._places) + self._members.statistics()["states"]}

    def _follow(self, state: int, text: bytes) -> int:
        if state == DONE:
            return DEAD if text else DONE
        for byte in text:
            if not 0 <= state < len(self._places):
                return DEAD
            after = int(self._steps[state, byte])
            state = self._step(state, byte) if after == _UNKNOWN else after
        return state

    def _step(self, state: int, byte: int) -> int:
        after = self._stepped(state, chr(byte))
        self._steps[state, byte] = after
        return after

    def _after_special(self, state: int, token: int) -> int:
        key = (state, token)
        if key not in self._special:
            self._special[key] = self._stepped(state, chr(256 + token))
        return self._special[key]

    def _stepped(self, state: int, symbol: str) -> int:
        """Return the state after a symbol, by the transducer and the constraint."""
        reached = []
        for mode, at in self._places[state]:

            def can(more: bytes, at: int = at) -> bool:
                return self._after(at, more) != DEAD

            for after, written in mode.step(symbol, can):
                reached.append((after, self._after(at, written) if written else at))
        return self._number(reached)

    def _after(self, at: int, text: bytes) -> int:
        return int(self._members.advance_bytes(np.array([at], np.int64), [text])[0])

    def _number(self, places: Iterable[tuple[Mode, int]]) -> int:
        alive = tuple(dict.fromkeys(place for place in places if place[1] != DEAD))
        if not alive:
            return DEAD
        with self._lock:
            number = self._numbers.setdefault(alive, len(self._places))
            if number == len(self._places):
                self._places.append(alive)
                if number == len(self._steps):
                    self._steps = np.append(self._steps, np.full_like(self._steps, _UNKNOWN), 0)
        return number

    def _passing(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of what members may go on with, int32[words]."""
        at = np.array([at for _, at in self._places[state]], np.int64)
        masks = np.zeros((len(at), self.words), np.int32)
        self._members.fill_mask(at, masks)
        return np.asarray(np.bitwise_or.reduce(masks, axis=0), np.int32)

    def _allowed(self, state: int, levels: _Levels) -> NDArray[np.int64]:
        """Return the tokens of a trie that may follow; special ones and ends included."""
        special = [token for token in self._writing.special if self._takes(state, token)]
        found: list[NDArray[Any]] = [np.array(special, np.int64)]
        if self.own_end(state):
            found.append(self._end_ids)
        nodes = np.arange(levels.roots)
        states = np.full(len(nodes), state, np.int64)
        while nodes.size:
            states = self._stepped_all(states, levels.byte[nodes])
            nodes, states = nodes[states >= 0], states[states >= 0]
            first = levels.tokens[nodes]
            found.append(levels.ids[_ranges(first, levels.tokens[nodes + 1] - first)])
            first = levels.children[nodes]
            counts = levels.children[nodes + 1] - first
            nodes, states = _ranges(first, counts), np.repeat(states, counts)
        return np.concatenate(found)

    def _takes(self, state: int, token: int) -> bool:
        return self._after_special(state, token) != DEAD

    def _stepped_all(
        self, states: NDArray[np.int64], bytes_: NDArray[np.uint8]
    ) -> NDArray[np.int64]:
        """Return the states after one byte each, int64[n]."""
        after = self._steps[states, bytes_]
        if (after == _UNKNOWN).any():
            keys = np.unique(states[after == _UNKNOWN] << 8 | bytes_[after == _UNKNOWN])
            for key in keys.tolist():
                self._step(key >> 8, key & 255)
            after = self._steps[states, bytes_]
        return after.astype(np.int64)


class RewrittenConstraint(WrappedConstraint):
    """The members of a constraint, written otherwise.

    Args:
        inner: Of a kind that takes bytes.
        writing: Of its members.
    """

    def __init__(self, inner: Constraint, writing: Writing) -> None:
        super().__init__(inner)
        self.writing = writing

    @cached_property
    def facts(self) -> Facts:
        """What is known of members; how many tokens their texts have is not."""
        within = self._facts_within(has_speculation_keys=False, has_terminals=False, lookahead=None)
        reader = within.reader and self._reader
        return replace(within, reader=reader, is_sound=within.is_sound and self.writing.is_sound)

    @cached_property
    def max_tokens(self) -> int | None:
        """Return None: texts may be longer than members are."""
        return None

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(self._session(self.writing), device)

    def accepts(self, text: bytes) -> bool | None:
        """Check the member that a text stands for by the path of the constraint within."""
        member = self.writing.read(text)
        return False if member is None else self.inner.accepts(member)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the text, which shows no special tokens."""
        return self.vocabulary.decode(token_ids)

    def text_of_token(self, token_id: int) -> bytes:
        """Return the token's bytes."""
        return self.vocabulary.decode((token_id,))

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return None: the member's tokens are not those of the text."""
        return None

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return the fields of the member that a text stands for."""
        member = self.writing.read(text)
        return {} if member is None else self.inner.annotations(member)

    def content(self, text: bytes) -> bytes | None:
        """Return the text: what the constraint within puts around members is part of none."""
        return text

    def _refusal(self, session: Session, text: bytes, shown: int) -> dict[str, Any] | None:
        """Return where a text without special tokens is refused.

        Of a member with other white space or escapes ``written`` is false, as masks never write it.
        """
        read = self._session(self.writing.in_texts())
        where = first_rejected_byte(read, self.vocabulary, text, self.facts.frames)
        if where.byte == len(text) and where.may_end:
            return super()._refusal(read, text, shown)
        if not self.accepts(text):
            return where.to_json(shown)
        reason = "its call is valid, and is written with other white space or escapes here"
        return where.to_json(shown) | {"valid": True, "written": False, "reason": reason}

    def _session(self, writing: Writing) -> RewrittenSession:
        return RewrittenSession(self.inner.session("cpu"), self.vocabulary, writing)

    def _reader(self, text: str) -> Any:
        member = self.writing.read(text.encode())
        reader = self.inner.facts.reader
        return None if member is None or reader is None else reader(member.decode())
