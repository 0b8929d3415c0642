"""Texts whose fixed parts are spelled apart, as decoding with templates spells them.

    narrow = templated(open_artifact("person.arrow"))

A byte of a text is fixed where the constraint allows that byte alone, and no end. A fixed part is a
longest run of fixed bytes, as far as they are whole characters. Programs that fill templates
(guidance, LMQL; DOMINO, arXiv 2403.06988, section 2) tokenize such parts by themselves and have the
model write what stands between them. S becomes the token sequences that are cut so: no token
crosses the border of a fixed part, each part has the tokens that the tokenizer writes for it alone,
and all between them is spelled freely. Where the parts lie is a function of the text.

Where the tokenizer changes a part (composes characters, say), or the vocabulary has none, a part
has the longest tokens from the left. Nothing gets stuck that did not before, if each byte has a
token of its own; if not, ``is_sound`` is False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.wrapped import WrappedConstraint, most_kept
from cdec.core.constraint import TEMPLATED, Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, UntokenizableError, UsageError
from cdec.core.mask import allowed_of_masks, forced_of_masks, mask_words
from cdec.core.native import library
from cdec.core.session import DEAD, DONE, HostSession, Session, integers
from cdec.core.tokens.token_trie import TokenTrie, longest_tokens
from cdec.core.tokens.vocabulary import Vocabulary

_MOST_HELD = 1 << 17
"""States of a session that is shared."""
_MOST_WANTED = 1 << 12
"""States that are told at once."""
_ROWS = 0
"""Of what the library may need (``cdec_pieces_settings``): rows, or else a part."""
_EVERY = np.arange(256)
_TEXTS = [bytes([byte]) for byte in range(256)]
_OF_UTF_8 = frozenset(range(0xF5)) - {0xC0, 0xC1}


@dataclass(frozen=True)
class ByteSteps:
    """Steps of a session by single bytes.

    Attributes:
        session: On the host.
        has_byte_tokens: Whether its tokens are the bytes; if not, it takes bytes.
    """

    session: Session
    has_byte_tokens: bool = False

    @classmethod
    def of(cls, constraint: Constraint) -> ByteSteps:
        """Return the steps of a constraint's whole texts.

        Cost: of a list a sort of its texts, some 2 seconds for a million.

        Raises:
            UsageError: They are walked by tokens alone.
        """
        listed = None if constraint.listed is None else constraint.listed.byte_session()
        if listed is not None:
            return cls(listed, has_byte_tokens=True)
        if constraint.facts.takes_bytes:
            return cls(constraint.session("cpu"))
        raise UsageError(
            f"texts of this {constraint.facts.kind} are walked by tokens alone, and which of their "
            "bytes are fixed is not known",
            hint="leave `templated` out, or what stands beside it",
        )

    def after(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the states behind each byte, int64[n, 256]."""
        each = np.repeat(states, 256)
        if self.has_byte_tokens:
            found = self.session.advance(each, np.tile(_EVERY, len(states)))
        else:
            found = self.session.advance_bytes(each, _TEXTS * len(states))
        return np.asarray(found, np.int64).reshape(-1, 256)


class _Settings(NamedTuple):
    """What the library reads beside the vocabulary's trie (``cdec_pieces_settings``)."""

    end_ids: NDArray[np.int64]
    byte_offsets: NDArray[np.int64]
    flat_bytes: NDArray[np.uint8]
    words: int
    most_masks: int


class TemplatedSession(HostSession):
    """A decoding run in the library; states are numbers from 0 on.

    Which bytes may follow a state of the constraint the library is told once, some tenth of a
    millisecond a state; masks are then read off the vocabulary's trie and kept up to 64 MiB.

    Args:
        steps: Of the constraint.
        vocabulary: Of the model.
    """

    counts_states = True

    def __init__(self, steps: ByteSteps, vocabulary: Vocabulary) -> None:
        self._steps, self._vocabulary = steps, vocabulary
        self.words = mask_words(vocabulary.width)
        self._end_ids = np.array(vocabulary.eos_token_ids, np.int64)
        most_masks, _ = most_kept(self.words, [steps.session])
        settings = _Settings(
            self._end_ids,
            vocabulary.byte_offsets,
            vocabulary.flat_bytes,
            self.words,
            most_masks,
        )
        trie = library.hold_token_trie(TokenTrie.of(vocabulary).arrays())
        self._pieces = library.pieces_make(trie, library.hold_pieces_settings(settings))
        self._start = int(library.pieces_number(self._pieces, int(steps.session.start(1)[0])))

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return allowed_of_masks(self.fill_mask, integers(states, 1, "states"), self.words)

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        at = integers(states, 1, "states")
        return forced_of_masks(self.fill_mask, at, self.words, self._end_ids)

    def speculation_keys(self, states: Any) -> Any:
        """Return what a next token may be learnt for, int64[n]: the keys of the constraint."""
        at = integers(states, 1, "states")
        return self._steps.session.speculation_keys(self._inner(at))

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds, those of the constraint included, and bytes."""
        found = np.zeros(2, np.int64)
        library.pieces_statistics(self._pieces, found)
        held = self._steps.session.statistics()["states"]
        return {"states": int(found[0]) + held, "memo_bytes": int(found[1])}

    def cut(self, text: bytes) -> Iterator[bytes] | None:
        """Return the fixed parts of a whole text and what stands between them; None for no text.

        No piece is empty. Cost: some 10 microseconds a byte.
        """
        state, at, borders = self._start, 0, [0]
        while at < len(text) or not self._is_complete(state):
            size = 1
            if self._flag(library.pieces_begins, state):
                size = len(part := self.part(state))
                if text[at : at + size] != part:
                    return None
                borders += [at, at + size]
            for byte in text[at : at + size]:
                state = self._follow(state, byte)
            at += size
            if state == DEAD or at > len(text):
                return None
        return (text[a:b] for a, b in pairwise([*borders, len(text)]) if a < b)

    def part(self, state: int) -> bytes:
        """Return the fixed part that begins at a state; nothing where none does."""
        out, needed = np.empty(64, np.uint8), np.empty(2 + _MOST_WANTED, np.int64)
        while True:
            size = library.pieces_part(self._pieces, state, out, needed)
            if size < 0:
                self._tell(needed)
            elif size > len(out):
                out = np.empty(size, np.uint8)
            else:
                return out[:size].tobytes()

    def _follow(self, state: int, byte: int) -> int:
        out = np.empty(1, np.int64)
        self._told_all(library.pieces_follow, np.array([state]), np.array([byte], np.uint8), out)
        return int(out[0])

    def _is_complete(self, state: int) -> bool:
        return state == DONE or self._flag(library.pieces_complete, state)

    def _flag(self, call: Callable[..., int], state: int) -> bool:
        out = np.empty(1, np.bool_)
        self._told_all(call, np.array([state]), out)
        return bool(out[0])

    def _told_all(self, call: Callable[..., int], *rows: NDArray[Any]) -> None:
        """Call a function of the library over rows, and tell it in between what it needs."""
        needed, done = np.empty(2 + _MOST_WANTED, np.int64), 0
        while (now := call(self._pieces, *(row[done:] for row in rows), needed)) < (
            len(rows[0]) - done
        ):
            done += now
            self._tell(needed)

    def _tell(self, needed: NDArray[np.int64]) -> None:
        states = needed[2 : 2 + int(needed[1])].copy()
        if needed[0] == _ROWS:
            inner = self._inner(states)
            may_end = np.asarray(self._steps.session.is_complete(inner), np.bool_)
            library.pieces_tell_rows(self._pieces, states, self._steps.after(inner), may_end)
        else:
            state = int(states[0])
            tokens = np.array(tokens_of(self.part(state), self._vocabulary), np.int32)
            library.pieces_tell_part(self._pieces, state, tokens)

    def _inner(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the states of the constraint, int64[n]; within a part, that where it begins."""
        inner = np.empty(len(states), np.int64)
        library.pieces_read(self._pieces, states, inner)
        return inner

    def _advance_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.int64]
    ) -> None:
        self._told_all(library.pieces_advance, at, tokens, out)

    def _fill_rows(self, at: NDArray[np.int64], packed: NDArray[np.int32]) -> None:
        self._told_all(library.pieces_fill_mask, at, packed)

    def _check_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.bool_]
    ) -> None:
        after = np.empty(tokens.size, np.int64)
        self._advance_rows(np.repeat(at, tokens.shape[1]), tokens.reshape(-1), after)
        out[:] = (after != DEAD).reshape(tokens.shape)

    def _complete_rows(self, at: NDArray[np.int64], out: NDArray[np.bool_]) -> None:
        self._told_all(library.pieces_complete, at, out)


def tokens_of(piece: bytes, vocabulary: Vocabulary) -> list[int]:
    """Return the tokens of a piece by itself: the tokenizer's own, or else the longest.

    None of them where no tokens spell it.
    """
    if vocabulary.tokenization is not None:
        try:
            (row,) = vocabulary.encode([piece.decode()])
        except UnicodeDecodeError:
            row = []
        if vocabulary.decode(row) == piece:
            return list(row)
    try:
        return longest_tokens(vocabulary, piece)
    except UntokenizableError:
        return []


class TemplatedConstraint(WrappedConstraint):
    """The texts of a constraint whose fixed parts are spelled apart.

    Args:
        inner: A list, or a constraint that takes bytes.

    Raises:
        EmptySetError: No tokens spell a text so.
        UsageError: Its texts are walked by tokens alone, or held to a lookahead or spelling.
    """

    def __init__(self, inner: Constraint) -> None:
        super().__init__(inner)
        facts = inner.facts
        beside = "lookahead" if facts.lookahead is not None else facts.spelling
        if beside is not None:
            raise UsageError(
                f"`templated` says how all texts are spelled, and so does `{beside}`",
                hint=f"leave `templated` or `{beside}` out",
            )
        self._steps = ByteSteps.of(inner)
        self._session = TemplatedSession(self._steps, self.vocabulary)
        single = np.flatnonzero(self.vocabulary.byte_lengths == 1)
        alone = self.vocabulary.flat_bytes[self.vocabulary.byte_offsets[single]]
        self._spells_bytes = set(alone.tolist()) >= _OF_UTF_8
        first = self._session.start(1)
        if self._spells_bytes or self._session.is_complete(first)[0]:
            return
        if not len(self._session.allowed(first)[1]):
            raise EmptySetError(
                f"of the {facts.kind} no tokens spell a text that is cut where fixed parts begin",
                hint="leave `templated` out",
            )

    @cached_property
    def facts(self) -> Facts:
        """Facts of the inner constraint; it is walked by tokens."""
        inner = self.inner.facts
        return self._facts_within(
            is_sound=inner.is_sound and self._spells_bytes,
            takes_bytes=False,
            has_terminals=False,
            has_speculation_keys=inner.has_speculation_keys and not self._steps.has_byte_tokens,
            spelling=TEMPLATED,
            begun=inner.begun,
            prefill=inner.prefill,
        )

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens that no member exceeds, end event not counted; None where unbounded."""
        listed = self.inner.listed
        rows = None if listed is None else listed.member_rows()
        if rows is None:
            return self.inner.max_tokens
        tokens, offsets = rows
        ends = np.append(0, np.cumsum(self.vocabulary.byte_lengths[tokens]))[offsets]
        return int(np.diff(ends).max())

    def session(self, device: str = "cpu") -> Session:
        """Return a decoding run on ``cpu`` or a torch device; it runs on the host.

        Runs share a session until it holds many states.
        """
        if self._session.statistics()["states"] > _MOST_HELD:
            if not self._steps.has_byte_tokens:
                self._steps = ByteSteps.of(self.inner)
            self._session = TemplatedSession(self._steps, self.vocabulary)
        return on_device(self._session, device)

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokens of a member: those of each piece by itself; None for another text."""
        for whole in self.whole_texts(text):
            pieces = self._session.cut(whole)
            if pieces is not None:
                rows = [tokens_of(piece, self.vocabulary) for piece in pieces]
                return [token for row in rows for token in row] if all(rows) else None
        return None


def templated(constraint: Constraint) -> Constraint:
    """Return the token sequences of a constraint in which fixed parts are spelled apart.

    Args:
        constraint: A list, or one that takes bytes: grammars, regular expressions, schemas, spans.

    Raises:
        EmptySetError: No tokens spell a text so.
        UsageError: Its texts are walked by tokens alone, or held to a lookahead or spelling.
    """
    return TemplatedConstraint(constraint)
