"""Constraints and sessions made of others: what they forward, but for what a kind changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import Constraint, Facts
from cdec.core.mask import allowed_of_masks, forced_of_masks, mask_words
from cdec.core.native import library
from cdec.core.session import DEAD, DONE, Session, integers, require_mask, require_rows
from cdec.core.shown import line
from cdec.core.tokens.vocabulary import Vocabulary

_FIRST_SIZE = 64


class PairTable:
    """Numbers 0, 1, 2, ... for pairs of int64, in the order in which they are first seen.

    Cost: 16 bytes a pair and 16 to 64 bytes of table; some 20 nanoseconds a look-up. Threads take
    turns.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._used = 0
        self._table = np.full(_FIRST_SIZE, -1, np.int64)
        self._lefts = np.empty(_FIRST_SIZE, np.int64)
        self._rights = np.empty(_FIRST_SIZE, np.int64)

    def __len__(self) -> int:
        return self._used

    def intern(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of pairs, int64[n] each; new pairs get new numbers."""
        out = np.empty(len(left), np.int64)
        with self._lock:
            self._make_room(len(left))
            table, used = self._table, self._used
            self._used = library.intern_pairs(
                left, right, table, self._lefts, self._rights, used, out
            )
        return out

    def pairs(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the left and right halves of pairs, int64[n] each.

        Raises:
            IndexError: A number that no pair has.
        """
        return self._lefts[: self._used][numbers], self._rights[: self._used][numbers]

    def _make_room(self, n: int) -> None:
        """Grow by doubling, so that ``n`` further pairs fill at most half of the table."""
        needed = self._used + n
        if needed > len(self._lefts):
            more = max(needed, 2 * len(self._lefts)) - self._used
            self._lefts = np.append(self._lefts[: self._used], np.empty(more, np.int64))
            self._rights = np.append(self._rights[: self._used], np.empty(more, np.int64))
        if 2 * needed > len(self._table):
            self._table = np.full(1 << (4 * needed - 1).bit_length(), -1, np.int64)
            library.fill_pairs(self._table, self._lefts, self._rights, self._used)


def mask_of(token_ids: Iterable[int], words: int) -> NDArray[np.int32]:
    """Return the packed mask of some tokens, int32[words]. Cost: no pass over the vocabulary."""
    ids = np.fromiter(token_ids, np.int64)
    bits = np.zeros(words, np.uint32)
    np.bitwise_or.at(bits, ids >> 5, np.uint32(1) << (ids & 31).astype(np.uint32))
    return bits.view(np.int32)


class ForwardingSession(Session):
    """A decoding run over the states of another one on the host, and over states of its own.

    What is asked of an own state (``is_own``) is answered by ``own_mask``, ``own_after`` and
    ``own_end``. All others are those of the session within, as ``within`` maps them: what that
    allows is allowed, but for the tokens ``refused``. A kind overrides where it differs.

    Args:
        inner: The session within, or None where all states that live are this one's own.
        vocabulary: Of the model.
    """

    device = "cpu"

    def __init__(self, inner: Session | None, vocabulary: Vocabulary) -> None:
        self._inner = inner
        self._vocabulary = vocabulary
        self._end_ids = np.array(vocabulary.eos_token_ids, np.int64)
        self.words = mask_words(vocabulary.width)

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which states int64[n] are no states of the session within, bool[n]."""
        return np.zeros(len(states), np.bool_)

    def own_mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of an own state, int32[words]; nothing is allowed there."""
        return np.zeros(self.words, np.int32)

    def own_after(self, state: int, token: int) -> int:
        """Return the state after a token from an own state; none."""
        return DEAD

    def own_end(self, state: int) -> bool:
        """Say whether the text may end at an own state."""
        return False

    def within(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the states of the session within, int64[n]."""
        return states

    def refused(self, states: NDArray[np.int64]) -> Iterable[tuple[int, NDArray[np.int32]]]:
        """Yield rows of states int64[n] and the tokens that are allowed within, and not here."""
        return ()

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.asarray(self._inside.start(n))

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DEAD where it is not allowed, DONE after an end."""
        at, tokens = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
        require_rows(len(at), len(tokens), "token ids")
        own, others = self._split(at)
        after = np.full(len(at), DEAD, np.int64)
        if others.size and self._inner is not None:
            after[others] = self.advance_within(at[others], tokens[others])
        for row in own.tolist():
            after[row] = self.own_after(int(at[row]), int(tokens[row]))
        return after

    def advance_within(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Follow tokens int64[n] from states int64[n] that are none of the own ones."""
        return np.asarray(self._inside.advance(self.within(states), tokens))

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> Any:
        """Follow bytes that need not be tokens, one text a state, int64[n]."""
        if self._inner is None:
            return super().advance_bytes(states, texts)
        return self._inner.advance_bytes(self.within(integers(states, 1, "states")), texts)

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""
        at = integers(states, 1, "states")
        require_mask(mask, len(at), self.words)
        own, others = self._split(at)
        if self._inner is None:
            mask[others] = 0
        elif not own.size:
            self.fill_within(at, mask)
        elif others.size:
            part = np.empty((len(others), self.words), np.int32)
            self.fill_within(at[others], part)
            mask[others] = part
        for row in own.tolist():
            mask[row] = self.own_mask(int(at[row]))
        for row, tokens in self.refused(at):
            if len(tokens):
                bits = ~(np.uint32(1) << (tokens & 31).astype(np.uint32))
                np.bitwise_and.at(mask[row].view(np.uint32), tokens >> 5, bits)

    def fill_within(self, states: NDArray[np.int64], mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` with what is allowed within, at none of the own states."""
        self._inside.fill_mask(self.within(states), mask)

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        at, tokens = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
        require_rows(len(at), len(tokens), "rows of token ids")
        own, others = self._split(at)
        result = np.zeros(tokens.shape, np.bool_)
        if others.size and self._inner is not None:
            result[others] = self.check_within(at[others], tokens[others])
        for row in own.tolist():
            mask = self.own_mask(int(at[row]))
            known = (tokens[row] >= 0) & (tokens[row] < self._vocabulary.width)
            ids = tokens[row, known]
            result[row, known] = mask[ids >> 5] >> (ids & 31).astype(np.int32) & 1
        for row, refused in self.refused(at):
            result[row] &= ~np.isin(tokens[row], refused)
        return result

    def check_within(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Say of tokens int64[n, M] whether each is allowed within, bool[n, M]."""
        return np.asarray(self._inside.check(self.within(states), tokens))

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        at = integers(states, 1, "states")
        if not self.is_forwarded(at):
            return allowed_of_masks(self.fill_mask, at, self.words)
        lists: tuple[NDArray[np.int64], NDArray[np.int32]] = self._inside.allowed(self.within(at))
        return lists

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        at = integers(states, 1, "states")
        if not self.is_forwarded(at):
            return forced_of_masks(self.fill_mask, at, self.words, self._end_ids)
        lists: tuple[NDArray[np.int64], NDArray[np.int32]] = self._inside.forced(self.within(at))
        return lists

    def is_forwarded(self, states: NDArray[np.int64]) -> bool:
        """Say whether all that is allowed at states int64[n] is what is allowed within."""
        if self._inner is None or self.is_own(states).any():
            return False
        return not any(len(tokens) for _, tokens in self.refused(states))

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is a member (or DONE), bool[n]."""
        at = integers(states, 1, "states")
        own, others = self._split(at)
        complete: NDArray[np.bool_] = at == DONE
        if others.size and self._inner is not None:
            complete[others] = self._inner.is_complete(self.within(at[others]))
        complete[own] = [self.own_end(state) for state in at[own].tolist()]
        return complete

    def speculation_keys(self, states: Any) -> Any:
        """Return what a next token may be learnt for, int64[n]: the keys of the session within."""
        return self._inside.speculation_keys(self.within(integers(states, 1, "states")))

    def statistics(self) -> Mapping[str, int]:
        """Return counts of what the session within holds."""
        return {"states": 0} if self._inner is None else self._inner.statistics()

    @property
    def _inside(self) -> Session:
        if self._inner is None:
            raise RuntimeError("a session without another one within forwards nothing")
        return self._inner

    def _split(self, states: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of own states, and all others."""
        own = self.is_own(states)
        return np.flatnonzero(own), np.flatnonzero(~own)


_KEPT_BYTES, _KEPT_STEPS = 64 << 20, 1 << 18
"""Of masks, and steps, that a session keeps."""
_INT64 = np.dtype(np.int64)
_NONE = np.empty(0, _INT64)
_empty, _fill_kept, _step_kept = np.empty, library.memo_fill_mask, library.memo_advance


def filled_at_once(call: Callable[..., int], kept: Any, states: Any, mask: Any) -> bool:
    """Let the library fill the masks of states in one call; False where it needs more than that."""
    try:
        return call(kept, states, mask, _NONE) == len(states)
    except (TypeError, ValueError, AttributeError):
        return False


def stepped_at_once(
    call: Callable[..., int], kept: Any, states: Any, token_ids: Any
) -> NDArray[np.int64] | None:
    """Let the library follow one token a state in one call; None where it needs more than that."""
    try:
        out: NDArray[np.int64] = _empty(len(states), _INT64)
        if token_ids.dtype is not _INT64:
            token_ids = token_ids.astype(_INT64, casting="safe")
        return out if call(kept, states, token_ids, out, _NONE) == len(out) else None
    except (TypeError, ValueError, AttributeError):
        return None


def most_kept(words: int, sides: Iterable[Session | None]) -> tuple[int, int]:
    """Return how many masks of so many words, and steps, a session of others keeps at most.

    What its sides may keep for each other bounds it, too.
    """
    limits = [side.memo_budget for side in sides if side is not None]
    most = min([_KEPT_BYTES, *(limit for limit in limits if limit is not None)])
    return max(most // (4 * words), 1), max(min(_KEPT_STEPS, most // 64), 1)


class KeptSession(ForwardingSession):
    """A forwarding session that keeps its masks and steps: those that are known cost one call.

    For kinds whose answers take longer than a look-up and depend on the state alone. Kept are masks
    up to 64 MiB, the newest, and up to 2**18 steps, 8 MiB; less where a session within, or one of
    ``sides``, may keep less.

    Args:
        inner: As in ``ForwardingSession``.
        vocabulary: Of the model.
        sides: All sessions that are asked.
    """

    def __init__(
        self, inner: Session | None, vocabulary: Vocabulary, sides: Sequence[Session] = ()
    ) -> None:
        super().__init__(inner, vocabulary)
        most = most_kept(self.words, sides or [inner])
        self._memo = library.memo_make(self.words, *most)

    @property
    def memo_bytes(self) -> int:
        """Bytes of masks and steps that are kept."""
        return int(library.memo_bytes(self._memo))

    @abstractmethod
    def __len__(self) -> int:
        """Return how many states there are: the numbers from 0 on."""

    def forget(self) -> None:
        """Forget what is kept, where from now on other tokens are refused."""
        library.memo_drop(self._memo)

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""
        if filled_at_once(_fill_kept, self._memo, states, mask):
            return
        at = integers(states, 1, "states")
        shape = require_mask(mask, len(at), self.words)
        is_plain = mask.flags.c_contiguous and mask.flags.writeable
        packed, missing = mask if is_plain else _empty(shape, np.int32), _empty(len(at), _INT64)
        found = _fill_kept(self._memo, at, packed, missing)
        if found < len(at):
            self._fill_missing(at, missing[: len(at) - found], packed)
        if not is_plain:
            mask[:] = packed

    def _fill_missing(
        self, at: NDArray[np.int64], rows: NDArray[np.int64], packed: NDArray[np.int32]
    ) -> None:
        """Make the masks of some rows, once a state, and keep them."""
        states = at[rows]
        fresh = np.array(sorted(set(states.tolist())), np.int64)
        given = int(np.searchsorted(fresh, len(self)))
        made = _empty((len(fresh), self.words), np.int32)
        super().fill_mask(fresh, made)
        # subtle: a number that was none before is left out, whatever it has become meanwhile.
        library.memo_keep_masks(self._memo, fresh[:given], made[:given])
        packed[rows] = made[np.searchsorted(fresh, states)]

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DEAD where it is not allowed, DONE after an end."""
        stepped = stepped_at_once(_step_kept, self._memo, states, token_ids)
        if stepped is not None:
            return stepped
        at, tokens = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
        require_rows(len(at), len(tokens), "token ids")
        out, missing = _empty(len(at), _INT64), _empty(len(at), _INT64)
        found = _step_kept(self._memo, at, tokens, out, missing)
        if found < len(at):
            rows = missing[: len(at) - found]
            out[rows] = self._step_missing(at[rows], tokens[rows])
        return out

    def _step_missing(self, at: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the states after tokens int64[n], each pair followed once, and keep the steps."""
        numbers: dict[tuple[int, int], int] = {}
        pairs = zip(at.tolist(), tokens.tolist(), strict=True)
        back = [numbers.setdefault(pair, len(numbers)) for pair in pairs]
        states, steps = np.array(list(numbers), np.int64).T.copy()
        given = states < len(self)
        after = super().advance(states, steps)
        if given.all():
            library.memo_keep_steps(self._memo, states, steps, after)
        return after[back]


class WrappedConstraint(Constraint):
    """Answers as the constraint within does; a subclass overrides what it changes.

    Smaller constraints (``listed``, ``deny_texts``, ``with_lookahead``) are not made of the one
    within, which would lose the change: a subclass defines those it has.

    Of a kind whose texts are ``begun``, what is begun is left out of what is drawn.

    Args:
        inner: The constraint within.
    """

    begun: bytes = b""

    def __init__(self, inner: Constraint) -> None:
        self.inner = inner
        self.vocabulary = inner.vocabulary

    def __repr__(self) -> str:
        return line(type(self).__name__, repr(self.inner))

    @cached_property
    def facts(self) -> Facts:
        """Facts of the constraint within, but for what is changed."""
        return self._facts_within()

    def _facts_within(self, **changed: Any) -> Facts:
        """Return what is declared of the constraint within, with changes."""
        own = {"begun": self.begun, "prefill": None, "reach": None, "takes_pieces": False}
        return replace(self.inner.facts, **{**own, **changed})

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens that no member exceeds, end event not counted; None where unbounded."""
        return self.inner.max_tokens

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run of the constraint within."""
        return self.inner.session(device)

    def accepts(self, text: bytes) -> bool | None:
        """Check a member by the path of the constraint within."""
        return self.inner.accepts(text)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone."""
        return self.inner.member_text(token_ids)

    def text_of_token(self, token_id: int) -> bytes | None:
        """Return what a token adds to a member; None if that differs."""
        return self.inner.text_of_token(token_id)

    def content(self, text: bytes) -> bytes | None:
        """Return the member that the drawn ``text`` ends, without forced parts; else None."""
        return self.inner.content(self.begun + text)

    def text_of(self, text: bytes) -> bytes:
        """Return the text that ``text`` stands for, with forced parts or without."""
        return self.inner.text_of(text)

    def whole_texts(self, text: bytes, *, any_text: bool = False) -> list[bytes]:
        """Return what a member's tokens spell behind ``begun``, forced parts included."""
        wholes = self.inner.whole_texts(text, any_text=any_text)
        return [w.removeprefix(self.begun) for w in wholes if any_text or w.startswith(self.begun)]

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokens of a member that has only one tokenisation."""
        return self.inner.token_ids_of(text)

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return the fields that samples of a text carry."""
        return self.inner.annotations(text)
