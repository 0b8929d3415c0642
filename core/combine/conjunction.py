"""Conjunctions: the token sequences that two constraints both accept.

With a set the result is a smaller set; else both constraints are walked side by side, and states
are pairs of states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.wrapped import KeptSession, PairTable
from cdec.core.constraint import Constraint, Facts, Listed, all_accept, candidates_of
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, TokenizerMismatchError
from cdec.core.mask import count_bits, list_bits, mask_words
from cdec.core.session import DEAD, DONE, Session, integers
from cdec.core.tokens.vocabulary import Vocabulary

MOST = 64
"""States that one search looks at, and tokens that a state may allow to be looked at."""


_NO_TOKENS = np.empty(0, np.int32)


class StuckStates:
    """Proves states stuck: no text ends from them.

    A state is stuck if all states that can be reached from it are few, and none of them may end or
    allows many tokens. Each search starts afresh, so that its answer depends on the state alone and
    never on what was asked before.

    Args:
        successors: Gives the states after a state, or None where a text may end, or where there are
            more tokens than ``MOST``.
    """

    def __init__(self, successors: Callable[[int], Sequence[int] | None]) -> None:
        self._successors = successors
        self._ahead: dict[int, Sequence[int] | None] = {}
        self._verdicts: dict[int, bool] = {}

    def know(self, verdicts: Mapping[int, bool]) -> None:
        """Take what is known of states from elsewhere."""
        self._verdicts.update(verdicts)

    def is_stuck(self, state: int) -> bool:
        """Say whether a state is proved to be stuck; at most ``MOST`` states are looked at once."""
        if state not in self._verdicts:
            self._verdicts[state] = self._search(state)
        return self._verdicts[state]

    def _search(self, state: int) -> bool:
        seen = {state}
        open_states = [state]
        while open_states:
            at = open_states.pop()
            if at not in self._ahead:
                self._ahead[at] = self._successors(at)
            ahead = self._ahead[at]
            if ahead is None:
                return False
            new = [after for after in ahead if after not in seen]
            seen.update(new)
            if len(seen) > MOST:
                return False
            open_states += new
        return True


class ConjunctionSession(KeptSession):
    """A decoding run: a token is allowed where both sessions allow it.

    A state has no way on where every token is refused by one of the two: law 2 is not promised.
    Where few tokens are allowed, those to proved dead ends are refused (``StuckStates``).

    Where one side has ended a text itself (DONE without an end id), the text is a member if the
    other may end there or has ended too; so tokens that end one side alone, in the middle of what
    the other reads, are not allowed.

    Args:
        first, second: Sessions on the CPU.
        vocabulary: Of both.
        ends_itself: Whether texts may end themselves in the first, in the second.
        looks_ahead: Whether to look for dead ends; not worth it where texts are known beforehand.
        keyed: The side whose speculation keys are those of the pairs, 0 or 1.
    """

    def __init__(
        self,
        first: Session,
        second: Session,
        vocabulary: Vocabulary,
        *,
        ends_itself: tuple[bool, bool],
        looks_ahead: bool = True,
        keyed: int = 0,
    ) -> None:
        super().__init__(first, vocabulary, (first, second))
        self._sides = (first, second)
        self._keyed = keyed
        self._refuses = looks_ahead or any(ends_itself)
        self._ends_itself = any(ends_itself)
        self._stuck = StuckStates(self._successors) if looks_ahead else None
        self._pairs = PairTable()
        self._most_ways = MOST
        # Tokens that both sides allow and that are refused, by state.
        self._refused: dict[int, NDArray[np.int32]] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return self._pairs.intern(self._sides[0].start(n), self._sides[1].start(n))

    def advance_within(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DEAD where one side refuses it."""
        after = self._numbered(self._advance_sides(states, tokens))
        if self._stuck is not None:
            for row in np.flatnonzero(after >= 0).tolist():
                if tokens[row] in self._refused_at(int(states[row])):
                    after[row] = DEAD
        return after

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, one text a state, int64[n]; of grammars."""
        halves = self._halves(integers(states, 1, "states"))
        both = [
            side.advance_bytes(half, texts) for side, half in zip(self._sides, halves, strict=True)
        ]
        after = self._numbered((both[0], both[1]))
        if self._stuck is not None:
            for row in np.flatnonzero(after >= 0).tolist():
                if self._stuck.is_stuck(int(after[row])):
                    after[row] = DEAD
        return after

    def refused(self, states: NDArray[np.int64]) -> Iterable[tuple[int, NDArray[np.int32]]]:
        """Yield the rows and the tokens that both sides allow and this session does not."""
        rows = enumerate(states.tolist()) if self._refuses else ()
        return ((row, self._refused_at(state)) for row, state in rows)

    def fill_within(self, states: NDArray[np.int64], mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` with both sides' masks, and."""
        left, right = self._halves(states)
        second = np.empty(mask.shape, np.int32)
        self._sides[0].fill_mask(left, mask)
        self._sides[1].fill_mask(right, second)
        np.bitwise_and(mask, second, out=mask)
        self._note_wide(states, mask)

    def _note_wide(self, states: NDArray[np.int64], mask: NDArray[np.int32]) -> None:
        """Note the states that allow so many tokens that none is refused."""
        if self._stuck is not None and not self._ends_itself:
            for row in np.flatnonzero(count_bits(mask) > self._most_ways).tolist():
                self._refused.setdefault(int(states[row]), _NO_TOKENS)

    def check_within(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Say of tokens int64[n, M] whether both sides allow each, bool[n, M]."""
        left, right = self._halves(states)
        return np.asarray(self._sides[0].check(left, tokens) & self._sides[1].check(right, tokens))

    def is_forwarded(self, states: NDArray[np.int64]) -> bool:
        """Return False: neither side allows what both do."""
        return False

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is a member (or DONE), bool[n]."""
        at = integers(states, 1, "states")
        left, right = self._halves(at)
        complete = self._sides[0].is_complete(left) & self._sides[1].is_complete(right)
        return np.asarray(complete | (at == DONE))

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for, int64[n]: the keys of one side."""
        half = self._halves(integers(states, 1, "states"))[self._keyed]
        keys: NDArray[np.int64] = self._sides[self._keyed].speculation_keys(half)
        return keys

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds, those of its sides included, and its memo."""
        held = sum(side.statistics()["states"] for side in self._sides)
        return {"states": len(self._pairs) + held, "memo_bytes": self.memo_bytes}

    def _halves(self, states: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return both sides' states; DEAD for what is no pair."""
        is_pair = (states >= 0) & (states < len(self._pairs))
        if is_pair.all():
            return self._pairs.pairs(states)
        left, right = np.full(len(states), DEAD, np.int64), np.full(len(states), DEAD, np.int64)
        left[is_pair], right[is_pair] = self._pairs.pairs(states[is_pair])
        return left, right

    def _advance_sides(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        left, right = self._halves(states)
        return self._sides[0].advance(left, tokens), self._sides[1].advance(right, tokens)

    def _ends(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return DEAD, DONE, or 0 for pairs of states that go on, int64[n]."""
        ends = np.zeros(len(left), np.int64)
        for one, (mine, others) in enumerate(((left, right), (right, left))):
            rows = np.flatnonzero((mine == DONE) & (others != DONE))
            if rows.size:
                may_end = self._sides[1 - one].is_complete(others[rows])
                ends[rows] = np.where(may_end, DONE, DEAD)
        ends[(left == DONE) & (right == DONE)] = DONE
        ends[(left == DEAD) | (right == DEAD)] = DEAD
        return ends

    def _numbered(self, both: tuple[NDArray[np.int64], NDArray[np.int64]]) -> NDArray[np.int64]:
        left, right = both
        if min(left.min(initial=0), right.min(initial=0)) >= 0:
            return self._pairs.intern(left, right)
        ends = self._ends(left, right)
        rows = np.flatnonzero(ends == 0)
        ends[rows] = self._pairs.intern(left[rows], right[rows])
        return ends

    def _refused_at(self, state: int) -> NDArray[np.int32]:
        """Return the tokens that both sides allow and this session does not, int32[...].

        They end one side alone where the other cannot end, or lead to a proved dead end.
        """
        known = self._refused.get(state)
        if known is None:
            ids, ends, after = self._ways(state)
            refused = ends == DEAD
            if after is not None and self._stuck is not None:
                rows = np.flatnonzero(ends == 0).tolist()
                stuck = [
                    row for row, to in zip(rows, after, strict=True) if self._stuck.is_stuck(to)
                ]
                refused[stuck] = True
            known = self._refused[state] = ids[refused]
        return known

    def _successors(self, state: int) -> list[int] | None:
        """Return the states after one, for ``StuckStates``."""
        _, ends, after = self._ways(state)
        return None if after is None or (ends == DONE).any() else sorted(set(after))

    def _ways(self, state: int) -> tuple[NDArray[np.int32], NDArray[np.int64], list[int] | None]:
        """Return the tokens that both sides allow, how they end (``_ends``) and what they lead to.

        The last is the states of those that go on; None where the tokens are too many, and then,
        unless texts end themselves, the others are not looked at and empty.
        """
        mask = np.empty((1, self.words), np.int32)
        self.fill_within(np.array([state]), mask)
        is_wide = count_bits(mask)[0] > self._most_ways
        if is_wide and not self._ends_itself:
            return np.empty(0, np.int32), np.empty(0, np.int64), None
        _, ids = list_bits(mask)
        left, right = self._advance_sides(np.full(len(ids), state), ids.astype(np.int64))
        ends = self._ends(left, right)
        on = ends == 0
        return ids, ends, None if is_wide else self._pairs.intern(left[on], right[on]).tolist()


MAX_STEPS = 1 << 27
"""Most steps, tokens of a set's rows, for which a set is restricted row by row: seconds."""
MAX_STATES = 1 << 21
"""Most states that the other constraint may come to hold by it: about a gigabyte of a grammar's."""


def conjoin(
    first: Constraint,
    second: Constraint,
    *,
    max_steps: int = MAX_STEPS,
    max_states: int = MAX_STATES,
) -> Constraint:
    """Return the constraint of the token sequences that both accept.

    A token sequence is judged whole: forced prefixes and suffixes of sets are part of it. A text
    that one side ends itself (a set compiled with a suffix) ends there for both, without an end
    event, if the other side may end there.

    Args:
        first: Its texts and annotations are the result's; those of the second where only that one
            is a set.
        second: Opened for the same vocabulary.
        max_steps: Most steps for which a set is restricted row by row.
        max_states: Most states of the other's session for which it is.

    Returns:
        Where one side is a set, the set of its rows that the other accepts: sound, and as fast as
        the set. Where neither is, and where a set would need more, a walk over both at once
        (``ConjunctionConstraint``), which may run into dead ends. Cost: as
        ``SetConstraint.restricted_to``.

    Raises:
        EmptySetError: A set of which nothing is left, or two constraints of which a short search
            shows that they have no text in common. (Of two grammars it is undecidable.)
        TokenizerMismatchError: They were opened for different vocabularies.
    """
    _require_same_vocabulary(first, second)
    sides = [(first, second), (second, first)]
    # subtle: a set whose rows end themselves comes first: then the rows' ends are those of both.
    sides.sort(key=lambda side: not side[0].facts.ends_itself)
    for side, other in sides:
        if side.listed is None:
            continue
        restricted = side.listed.restricted_to(other, max_steps=max_steps, max_states=max_states)
        if restricted is not None:
            return restricted
    product = ConjunctionConstraint(first, second)
    _require_beginning(product)
    return product


class ConjunctionConstraint(Constraint, Listed):
    """The token sequences that two constraints both accept, walked side by side.

    Args:
        first, second: Opened for the same vocabulary.
    """

    def __init__(self, first: Constraint, second: Constraint) -> None:
        self.first = first
        self.second = second
        self.vocabulary = first.vocabulary
        sides = (first, second)
        # Texts are shown as the members of a list, where one side is one.
        swap = second.listed is not None and first.listed is None
        self._shown, self._other = (second, first) if swap else sides
        # Counts are kept by the states of the first side that has keys; those of a list, places in
        # its trie, serve where there is no other.
        keyed = [side for side in sides if side.facts.has_speculation_keys]
        keyed += [side for side in sides if side.listed is not None]
        self._keyed = sides.index(keyed[0]) if keyed else None

    @cached_property
    def facts(self) -> Facts:
        """Facts of both, of texts by the side that shows them."""
        sides = [self.first.facts, self.second.facts]
        looks = [side.lookahead for side in sides if side.lookahead is not None]
        return Facts(
            kind=self._shown.facts.kind,
            ends_itself=any(side.ends_itself for side in sides),
            has_terminals=all(side.has_terminals for side in sides),
            takes_bytes=all(side.takes_bytes for side in sides),
            has_speculation_keys=self._keyed is not None,
            lookahead=min(looks, default=None),
            metadata=sides[self._keyed or 0].metadata,
            frames=self._shown.facts.frames,
            spelling=next((side.spelling for side in sides if side.spelling), None),
            # "conservative" comes before "exact".
            budgets=min((side.budgets for side in sides if side.budgets), default=None),
            denied_unknown=self._shown.facts.denied_unknown,
            unenforced=(*sides[0].unenforced, *sides[1].unenforced),
            reasons=self._shown.facts.reasons,
            reader=self._shown.facts.reader,
        )

    @property
    def listed(self) -> Listed | None:
        """Itself, where the side that shows texts is listed."""
        return None if self._shown.listed is None else self

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens that no member exceeds, end event not counted; None where unbounded."""
        limits = [self.first.max_tokens, self.second.max_tokens]
        return min((limit for limit in limits if limit is not None), default=None)

    def with_lookahead(self, lookahead: int | None) -> ConjunctionConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further.

        Raises:
            UsageError: Texts of one side are not read as terminals.
        """
        return ConjunctionConstraint(
            self.first.with_lookahead(lookahead), self.second.with_lookahead(lookahead)
        )

    def candidates(self, texts_or_ids: Sequence[str]) -> Constraint:
        """Return what both sides accept of these members alone.

        Raises:
            FieldError: The members are no list, or some of these are not among them.
            EmptySetError: The other side accepts none of them.
        """
        return conjoin(candidates_of(self._shown, texts_or_ids), self._other)

    def deny_texts(self, texts: Sequence[bytes]) -> ConjunctionConstraint | None:
        """Return this constraint without some members, if a list can leave them out; else None."""
        smaller = self._shown.deny_texts(texts)
        return None if smaller is None else ConjunctionConstraint(smaller, self._other)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; both sides run on the host."""
        return on_device(self._walk(looks_ahead=True), device)

    def session_for_texts(self) -> ConjunctionSession:
        """Start a run on the host that does not look for dead ends."""
        return self._walk(looks_ahead=False)

    def _walk(self, *, looks_ahead: bool) -> ConjunctionSession:
        return ConjunctionSession(
            self.first.session("cpu"),
            self.second.session("cpu"),
            self.vocabulary,
            ends_itself=(self.first.facts.ends_itself, self.second.facts.ends_itself),
            looks_ahead=looks_ahead,
            keyed=self._keyed or 0,
        )

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone, without the list's forced parts where one side is one."""
        return self._shown.member_text(token_ids)

    def text_of_token(self, token_id: int) -> bytes | None:
        """Return what a token adds to a member, by the side that shows texts."""
        return self._shown.text_of_token(token_id)

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without forced parts; None where it lacks those of one side."""
        if self._other.content(text) is None:
            return None
        return self._shown.content(text)

    def text_of(self, text: bytes) -> bytes:
        """Return the text that ``text`` stands for, by the side that shows texts."""
        return self._shown.text_of(text)

    def whole_texts(self, text: bytes, *, any_text: bool = False) -> list[bytes]:
        """Return what a member's tokens spell, forced parts included."""
        wholes = self._shown.whole_texts(text)
        return (wholes[:1] or [text]) if any_text else wholes

    def accepts(self, text: bytes) -> bool | None:
        """Check a finished member by both sides' independent paths; None if out of time."""
        own = self._shown.accepts(text)
        if own is False:
            return False
        verdict = all_accept([self._other], self._shown.whole_texts(text))
        return own if verdict else verdict

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return the fields that samples of this text carry, of the side that shows them.

        ``members`` are those of both sides: those of the other side stand in the whole text.
        """
        own = self._shown.annotations(text)
        whole = next(iter(self._shown.whole_texts(text)), text)
        beside = self._other.annotations(whole).get("members")
        if not isinstance(beside, list):
            return own
        shown = own.get("members", [])
        assert isinstance(shown, list)
        return {**own, "members": shown + [member for member in beside if member not in shown]}


def _require_beginning(product: ConjunctionConstraint) -> None:
    session = product.session("cpu")
    mask = np.empty((1, mask_words(product.vocabulary.width)), np.int32)
    session.fill_mask(session.start(1), mask)
    if not mask.any():
        raise EmptySetError(
            "the two constraints have no text in common",
            hint="Leave one of them out.",
        )


def _require_same_vocabulary(first: Constraint, second: Constraint) -> None:
    ours, theirs = first.vocabulary, second.vocabulary
    if ours is theirs:
        return
    same = ours.vocabulary_hash == theirs.vocabulary_hash and ours.width == theirs.width
    if not same or ours.eos_token_ids != theirs.eos_token_ids:
        raise TokenizerMismatchError(
            f"the two constraints were opened for different vocabularies (widths {ours.width} and "
            f"{theirs.width}, end ids {list(ours.eos_token_ids)} and "
            f"{list(theirs.eos_token_ids)})",
            hint="Open both with the vocabulary of one model.",
        )
