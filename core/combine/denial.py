"""Denial: any constraint without some of its texts, and without dead ends.

Along the beginnings of denied texts a state is a pair of the inner state and a place in the trie
of denied texts; a text that steps off the trie goes on with the inner state as it is.

The end event is refused after a denied text, whatever its tokens. A token is refused where all that
could follow it is denied: the inner constraint allows nothing but tokens that stay in the trie, and
all of them are refused in turn. The trie is finite, so this is decided exactly, and once for each
text: what may follow a text depends on its bytes alone, not on the tokens that spelled it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.combine.wrapped import ForwardingSession, PairTable, WrappedConstraint
from cdec.core.constraint import Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.errors import EmptySetError, UsageError
from cdec.core.mask import count_bits
from cdec.core.session import DEAD, DONE, Session, integers
from cdec.core.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

ROOT = 0
OFF = -1
"""Stands for every text that is not the beginning of a denied one."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps by tokens that stay in the trie.

    Attributes:
        tokens: int64[k] ascending.
        nodes: int64[k] the node after each.
    """

    tokens: NDArray[np.int64]
    nodes: NDArray[np.int64]


class DeniedTexts:
    """Distinct texts in the order of their bytes; a node is the range of those with one beginning.

    One serves all constraints over its vocabulary.

    Args:
        texts: Denied byte strings.
        vocabulary: Whose tokens walk; sorting it takes 0.1 s for 131,072 tokens.
    """

    def __init__(self, texts: Iterable[bytes], vocabulary: Vocabulary) -> None:
        self.texts = sorted(set(texts))
        self.token_bytes: Sequence[bytes] = vocabulary.token_bytes
        self._tokens = SortedTokens(vocabulary)
        self._lock = Lock()
        self._numbers: dict[bytes, int] = {b"": ROOT}
        # Per node: its beginning, and the range of texts that have it.
        self._nodes: list[tuple[bytes, int, int]] = [(b"", 0, len(self.texts))]
        self._steps: dict[int, Steps] = {}

    def follow(self, node: int, added: bytes) -> int:
        """Return the node after further bytes, OFF where no denied text begins so."""
        if node == OFF or not added:
            return node
        begun, low, high = self._nodes[node]
        text = begun + added
        number = self._numbers.get(text)
        if number is not None:
            return number
        size = len(text)
        low = bisect_left(self.texts, text, low, high)
        high = bisect_right(self.texts, text, low, high, key=lambda denied: denied[:size])
        if low == high:
            return OFF
        with self._lock:
            if text not in self._numbers:
                self._nodes.append((text, low, high))
                self._numbers[text] = len(self._nodes) - 1
        return self._numbers[text]

    def is_denied(self, node: int) -> bool:
        """Say whether the text that leads to a node is denied."""
        if node == OFF:
            return False
        begun, low, _ = self._nodes[node]
        # subtle: of the texts with one beginning, the beginning itself is the first.
        return low < len(self.texts) and self.texts[low] == begun

    def depth(self, node: int) -> int:
        """Return how many bytes lead to a node."""
        return len(self._nodes[node][0])

    def steps(self, node: int) -> Steps:
        """Return the tokens that stay in the trie.

        Cost: once a node, a microsecond for each byte of its texts, or for each token of the
        vocabulary if they are fewer.
        """
        if node not in self._steps:
            begun, low, high = self._nodes[node]
            found = (
                self._by_text(len(begun), low, high)
                if (high - low) * 8 < len(self._tokens.ids)
                else self._by_token(begun, low, high)
            )
            ids = sorted(found)
            nodes = [self.follow(node, self.token_bytes[token]) for token in ids]
            self._steps[node] = Steps(np.array(ids, np.int64), np.array(nodes, np.int64))
        return self._steps[node]

    def _by_text(self, depth: int, low: int, high: int) -> set[int]:
        return {
            token
            for text in self.texts[low:high]
            for _, ids in self._tokens.beginnings(text[depth:])
            for token in ids
        }

    def _by_token(self, begun: bytes, low: int, high: int) -> set[int]:
        found = set()
        for token, added in zip(self._tokens.ids, self._tokens.texts, strict=True):
            text = begun + added
            at = bisect_left(self.texts, text, low, high)
            if at < high and self.texts[at].startswith(text):
                found.add(token)
        return found


_FIRST = 1 << 61
"""The first state in the trie; those of grammars and conjunctions are far smaller."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts of a constraint at nodes of the trie; shared by its sessions.

    Attributes:
        is_stuck: Whether all that could follow is denied.
        blocked: Tokens that the inner constraint allows and that are refused, int32[...] ascending.
    """

    is_stuck: dict[int, bool] = field(default_factory=dict)
    blocked: dict[int, NDArray[np.int32]] = field(default_factory=dict)


class DeniedSession(ForwardingSession):
    """A decoding run: states in the trie of denied texts, and the inner session's.

    Args:
        inner: Session on the CPU whose texts take an end id, and of which a text's bytes decide
            what may follow.
        denied: The texts.
        verdicts: Of the constraint.
        vocabulary: Of both.
    """

    def __init__(
        self, inner: Session, denied: DeniedTexts, verdicts: Verdicts, vocabulary: Vocabulary
    ) -> None:
        super().__init__(inner, vocabulary)
        self._denied = denied
        self._pairs = PairTable()
        single = [token for token, text in enumerate(denied.token_bytes) if len(text) == 1]
        self._witnesses = np.array(single, np.int64)
        self._verdicts = verdicts

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the first token, int64[n]."""
        return self._numbered(self._inside.start(n), np.full(n, ROOT, np.int64))

    def within(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the states of the session within, int64[n]."""
        return self._halves(states)[1]

    def refused(self, states: NDArray[np.int64]) -> Iterable[tuple[int, NDArray[np.int32]]]:
        """Yield the rows in the trie and the tokens that only the inner session allows there."""
        rows, inside, nodes = self._halves(states)
        pairs = zip(rows.tolist(), nodes.tolist(), strict=True)
        return ((row, self._blocked(node, int(inside[row]))) for row, node in pairs)

    def advance_within(
        self, states: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]."""
        rows, inside, nodes = self._halves(states)
        table = self._denied.token_bytes
        added = [
            table[token] if 0 <= token < len(table) else b"" for token in tokens[rows].tolist()
        ]
        return self._land(rows, nodes, added, self._inside.advance(inside, tokens))

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, one text a state, int64[n]."""
        rows, inside, nodes = self._halves(integers(states, 1, "states"))
        after: NDArray[np.int64] = self._inside.advance_bytes(inside, texts)
        return self._land(rows, nodes, [texts[row] for row in rows.tolist()], after)

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is a member (or DONE), bool[n]."""
        rows, inside, nodes = self._halves(integers(states, 1, "states"))
        complete: NDArray[np.bool_] = self._inside.is_complete(inside)
        complete[rows] &= ~self._are_denied(nodes)
        return complete

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds, those of the inner session included."""
        return {"states": len(self._pairs) + self._inside.statistics()["states"]}

    def is_empty(self) -> bool:
        """Say whether every text is denied."""
        return self._is_stuck(ROOT, int(self._inside.start(1)[0]))

    def _numbered(self, inside: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._pairs.intern(inside, nodes) + _FIRST

    def _halves(
        self, states: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows in the trie int64[k], all inner states int64[n], the rows' nodes."""
        rows = np.flatnonzero((states >= _FIRST) & (states < _FIRST + len(self._pairs)))
        if not rows.size:
            return rows, states, rows
        inside = states.copy()
        inside[rows], nodes = self._pairs.pairs(states[rows] - _FIRST)
        return rows, inside, nodes

    def _are_denied(self, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.array([self._denied.is_denied(node) for node in nodes.tolist()], np.bool_)

    def _land(
        self,
        rows: NDArray[np.int64],
        nodes: NDArray[np.int64],
        added: Sequence[bytes],
        after: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Write into the inner states ``after`` int64[n] where the rows in the trie have come."""
        for row, node, text in zip(rows.tolist(), nodes.tolist(), added, strict=True):
            if after[row] == DONE and self._denied.is_denied(node):
                after[row] = DEAD
            if after[row] < 0:
                continue
            ahead = self._denied.follow(node, text)
            if ahead == OFF:
                continue
            if self._is_stuck(ahead, int(after[row])):
                after[row] = DEAD
            else:
                after[row] = self._numbered(after[row : row + 1], np.array([ahead]))[0]
        return after

    def _blocked(self, node: int, inside: int) -> NDArray[np.int32]:
        """Return the tokens that the inner session allows and this one does not, int32[...]."""
        known = self._verdicts.blocked.get(node)
        if known is None:
            tokens, ahead = self._ahead(node, inside)
            self._resolve(dict(ahead))
            is_stuck = self._verdicts.is_stuck
            refused = [t for t, (to, _) in zip(tokens, ahead, strict=True) if is_stuck[to]]
            if self._denied.is_denied(node) and self._inside.is_complete(np.array([inside]))[0]:
                refused += self._end_ids.tolist()
            known = self._verdicts.blocked[node] = np.array(sorted(refused), np.int32)
        return known

    def _is_stuck(self, node: int, inside: int) -> bool:
        if node not in self._verdicts.is_stuck:
            self._resolve({node: inside})
        return self._verdicts.is_stuck[node]

    def _ahead(self, node: int, inside: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the tokens that lead on within the trie; nodes and inner states after them."""
        steps = self._denied.steps(node)
        is_allowed = self._inside.check(np.array([inside]), steps.tokens[None])[0]
        tokens = steps.tokens[is_allowed]
        after = self._inside.advance(np.full(len(tokens), inside), tokens).tolist()
        return tokens.tolist(), list(zip(steps.nodes[is_allowed].tolist(), after, strict=True))

    def _resolve(self, fresh: Mapping[int, int]) -> None:
        """Find out which nodes are stuck, given with their inner states: no text ends from them.

        Only nodes from where no other way is left are followed, level by level; the answer is then
        read backwards, from the longest beginnings.
        """
        is_stuck = self._verdicts.is_stuck
        closed: dict[int, list[int]] = {}
        while fresh := {n: s for n, s in fresh.items() if n not in is_stuck and n not in closed}:
            ways = self._only_ways(np.array([*fresh]), np.array([*fresh.values()]))
            closed.update((node, [to for to, _ in way]) for node, way in ways.items())
            fresh = {to: inside for way in ways.values() for to, inside in way}
        for node in sorted(closed, key=self._denied.depth, reverse=True):
            is_stuck[node] = all(is_stuck[ahead] for ahead in closed[node])

    def _only_ways(
        self, nodes: NDArray[np.int64], inside: NDArray[np.int64]
    ) -> dict[int, list[tuple[int, int]]]:
        """Return the ways on from those nodes (int64[n]) from which every way stays in the trie.

        The others are noted as not stuck: their text may end, or a token leads off the trie. Tokens
        of one byte are asked first, since a mask may cost a thousand times as much.
        """
        complete = self._inside.is_complete(inside)
        is_open = complete & ~self._are_denied(nodes)
        rows = np.flatnonzero(~is_open)
        asked = np.tile(self._witnesses, (len(rows), 1))
        leads_off = self._inside.check(inside[rows], asked)
        for i, node in enumerate(nodes[rows].tolist()):
            leads_off[i] &= ~np.isin(self._witnesses, self._denied.steps(node).tokens)
        is_open[rows] = leads_off.any(axis=1)
        ways = {}
        for row in np.flatnonzero(~is_open).tolist():
            tokens, ahead = self._ahead(int(nodes[row]), int(inside[row]))
            mask = np.empty((1, self.words), np.int32)
            self._inside.fill_mask(inside[row : row + 1], mask)
            ends = len(self._end_ids) if complete[row] else 0
            if count_bits(mask)[0] > len(tokens) + ends:
                is_open[row] = True
            else:
                ways[int(nodes[row])] = ahead
        self._verdicts.is_stuck.update((node, False) for node in nodes[is_open].tolist())
        return ways


_BATCH = 1 << 12
"""Denied texts that are looked up together."""


def deny(
    constraint: Constraint, texts: Sequence[bytes], *, denied: DeniedTexts | None = None
) -> Constraint:
    """Return a constraint without some of its texts, whatever tokens would spell them.

    Args:
        constraint: Any kind.
        texts: As ``member_text`` gives them; those that are no members have no effect. Sets
            normalise them as their members, grammars take the bytes as they are.
        denied: The same texts over the constraint's vocabulary, where several constraints lose
            them; None makes them where they are needed.

    Returns:
        A set keeps its kind and drops rows; a grammar becomes a ``DeniedConstraint``. Its
        ``facts.denied_unknown`` counts the texts that are no members.

    Raises:
        EmptySetError: Nothing is left.
    """
    if not texts:
        return constraint
    smaller = constraint.deny_texts(texts)
    if smaller is None:
        smaller = _refusing(constraint, denied or DeniedTexts(texts, constraint.vocabulary))
    return smaller


def _refusing(inner: Constraint, denied: DeniedTexts) -> DeniedConstraint:
    smaller = DeniedConstraint(inner, denied)
    if smaller.denied_session().is_empty():
        raise EmptySetError(
            f"every text of the {inner.facts.kind} is denied", hint="Deny fewer texts."
        )
    return smaller


class DeniedConstraint(WrappedConstraint):
    """A constraint without some of its texts.

    Sound where the inner constraint is: a token after which every text is denied is not allowed.

    Args:
        inner: The constraint; its texts take an end id, and what may follow a text depends on its
            bytes alone.
        denied: The texts, over the constraint's vocabulary.

    Raises:
        UsageError: Texts of the constraint end themselves, or were held to a number of tokens.
    """

    def __init__(self, inner: Constraint, denied: DeniedTexts) -> None:
        if inner.facts.ends_itself:
            raise UsageError(
                "texts of this constraint end themselves, so there is no end event to refuse",
                hint="Deny them in the set before it is combined.",
            )
        if inner.facts.fit is not None:
            raise UsageError(
                "what may follow a text of this constraint depends on its number of tokens, and "
                "denial goes by bytes",
                hint="Deny the texts first, and fit what is left.",
            )
        super().__init__(inner)
        self.texts = frozenset(denied.texts)
        self._denied = denied
        self._verdicts = Verdicts()

    @cached_property
    def facts(self) -> Facts:
        """Facts of the inner constraint; of it alone, how many texts it lacks."""
        return self._facts_within(denied_unknown=self._unknown())

    def _unknown(self) -> int:
        """Return how many of the texts the inner constraint does not hold."""
        texts = self._denied.texts
        if not self.inner.facts.takes_bytes:
            return sum(self.inner.accepts(text) is False for text in texts)
        session = self.inner.session("cpu")
        known = 0
        for first in range(0, len(texts), _BATCH):
            part = texts[first : first + _BATCH]
            after = session.advance_bytes(session.start(len(part)), part)
            known += int(np.count_nonzero(session.is_complete(after)))
        return len(texts) - known

    def with_lookahead(self, lookahead: int | None) -> DeniedConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return DeniedConstraint(self.inner.with_lookahead(lookahead), self._denied)

    def deny_texts(self, texts: Sequence[bytes]) -> DeniedConstraint:
        """Return this constraint without some more of its texts.

        Raises:
            EmptySetError: Nothing is left.
        """
        return _refusing(self.inner, DeniedTexts([*self.texts, *texts], self.vocabulary))

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(self.denied_session(), device)

    def denied_session(self) -> DeniedSession:
        """Start a decoding run on the host."""
        return DeniedSession(
            self.inner.session("cpu"),
            self._denied,
            self._verdicts,
            self.vocabulary,
        )

    def accepts(self, text: bytes) -> bool | None:
        """Check a text by the inner constraint's independent path, and that it is not denied."""
        return False if text in self.texts else self.inner.accepts(text)
