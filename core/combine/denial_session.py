"""DeniedSession: a decoding run that leaves some texts of a constraint out, without dead ends.

Along the beginnings of denied texts a state is a pair of the inner state and a place in the trie
of denied texts; a text that steps off the trie goes on with the inner state as it is.

The end event is refused after a denied text, whatever its tokens. A token is refused where all that
could follow it is denied: the inner constraint allows nothing but tokens that stay in the trie, and
all of them are refused in turn. The trie is finite, so this is decided exactly, and once for each
text: what may follow a text depends on its bytes alone, not on the tokens that spelled it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.conjunction.session import clear_tokens
from cdec.core.combine.denial_trie import OFF, ROOT, DeniedTexts
from cdec.core.combine.pair_table import PairTable
from cdec.core.mask import allowed_of_masks, count_bits, forced_of_masks, mask_words
from cdec.core.session import DEAD, DONE, Session
from cdec.core.session_arguments import integers, require_rows

_FIRST = 1 << 61
"""The first state in the trie; those of grammars and conjunctions are far smaller."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What is known of a constraint at nodes of the trie; shared by its sessions.

    Attributes:
        is_stuck: Whether all that could follow is denied.
        blocked: Tokens that the inner constraint allows and that are refused, int32[...] ascending.
    """

    is_stuck: dict[int, bool] = field(default_factory=dict)
    blocked: dict[int, NDArray[np.int32]] = field(default_factory=dict)


class DeniedSession(Session):
    """A decoding run: states in the trie of denied texts, and the inner session's.

    Args:
        inner: Session on the CPU whose texts take an end id, and of which a text's bytes decide
            what may follow.
        denied: The texts.
        verdicts: Of the constraint.
        width: Logits width.
        end_ids: End-of-sequence ids, ascending.
    """

    device = "cpu"

    def __init__(
        self,
        inner: Session,
        denied: DeniedTexts,
        verdicts: Verdicts,
        *,
        width: int,
        end_ids: Sequence[int],
    ) -> None:
        self._inner = inner
        self._denied = denied
        self.words = mask_words(width)
        self._end_ids = np.array(end_ids, np.int64)
        self._pairs = PairTable()
        single = [token for token, text in enumerate(denied.token_bytes) if len(text) == 1]
        self._witnesses = np.array(single, np.int64)
        self._verdicts = verdicts

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the first token, int64[n]."""
        return self._numbered(self._inner.start(n), np.full(n, ROOT, np.int64))

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n].

        Args:
            states: int64[n].
            token_ids: int[n].
        """
        at, tokens = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
        require_rows(len(at), len(tokens), "token ids")
        rows, inside, nodes = self._halves(at)
        after: NDArray[np.int64] = self._inner.advance(inside, tokens)
        table = self._denied.token_bytes
        added = [
            table[token] if 0 <= token < len(table) else b"" for token in tokens[rows].tolist()
        ]
        return self._land(rows, nodes, added, after)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, one text a state, int64[n]."""
        rows, inside, nodes = self._halves(integers(states, 1, "states"))
        after: NDArray[np.int64] = self._inner.advance_bytes(inside, texts)
        return self._land(rows, nodes, [texts[row] for row in rows.tolist()], after)

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""
        at = integers(states, 1, "states")
        rows, inside, nodes = self._halves(at)
        self._inner.fill_mask(inside, mask)
        for row, node in zip(rows.tolist(), nodes.tolist(), strict=True):
            clear_tokens(mask[row], self._blocked(node, int(inside[row])))

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        at, tokens = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
        rows, inside, nodes = self._halves(at)
        result: NDArray[np.bool_] = self._inner.check(inside, tokens)
        for row, node in zip(rows.tolist(), nodes.tolist(), strict=True):
            result[row] &= ~np.isin(tokens[row], self._blocked(node, int(inside[row])))
        return result

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        at = integers(states, 1, "states")
        rows, inside, nodes = self._halves(at)
        if self._blocks_any(nodes, inside[rows]):
            return allowed_of_masks(self.fill_mask, at, self.words)
        lists: tuple[NDArray[np.int64], NDArray[np.int32]] = self._inner.allowed(inside)
        return lists

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is a member (or DONE), bool[n]."""
        rows, inside, nodes = self._halves(integers(states, 1, "states"))
        complete: NDArray[np.bool_] = self._inner.is_complete(inside)
        complete[rows] &= ~self._are_denied(nodes)
        return complete

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        at = integers(states, 1, "states")
        rows, inside, nodes = self._halves(at)
        if self._blocks_any(nodes, inside[rows]):
            return forced_of_masks(self.fill_mask, at, self.words, self._end_ids)
        lists: tuple[NDArray[np.int64], NDArray[np.int32]] = self._inner.forced(inside)
        return lists

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return what a next token may be learnt for, int64[n]: the inner session's keys."""
        _, inside, _ = self._halves(integers(states, 1, "states"))
        keys: NDArray[np.int64] = self._inner.speculation_keys(inside)
        return keys

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds, those of the inner session included."""
        return {"states": len(self._pairs) + self._inner.statistics()["states"]}

    def is_empty(self) -> bool:
        """Say whether every text is denied."""
        return self._is_stuck(ROOT, int(self._inner.start(1)[0]))

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

    def _blocks_any(self, nodes: NDArray[np.int64], inside: NDArray[np.int64]) -> bool:
        pairs = zip(nodes.tolist(), inside.tolist(), strict=True)
        return any(len(self._blocked(node, state)) for node, state in pairs)

    def _blocked(self, node: int, inside: int) -> NDArray[np.int32]:
        """Return the tokens that the inner session allows and this one does not, int32[...]."""
        known = self._verdicts.blocked.get(node)
        if known is None:
            tokens, ahead = self._ahead(node, inside)
            self._resolve(dict(ahead))
            is_stuck = self._verdicts.is_stuck
            refused = [t for t, (to, _) in zip(tokens, ahead, strict=True) if is_stuck[to]]
            if self._denied.is_denied(node) and self._inner.is_complete(np.array([inside]))[0]:
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
        is_allowed = self._inner.check(np.array([inside]), steps.tokens[None])[0]
        tokens = steps.tokens[is_allowed]
        after = self._inner.advance(np.full(len(tokens), inside), tokens).tolist()
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
        complete = self._inner.is_complete(inside)
        is_open = complete & ~self._are_denied(nodes)
        rows = np.flatnonzero(~is_open)
        asked = np.tile(self._witnesses, (len(rows), 1))
        leads_off = self._inner.check(inside[rows], asked)
        for i, node in enumerate(nodes[rows].tolist()):
            leads_off[i] &= ~np.isin(self._witnesses, self._denied.steps(node).tokens)
        is_open[rows] = leads_off.any(axis=1)
        ways = {}
        for row in np.flatnonzero(~is_open).tolist():
            tokens, ahead = self._ahead(int(nodes[row]), int(inside[row]))
            mask = np.empty((1, self.words), np.int32)
            self._inner.fill_mask(inside[row : row + 1], mask)
            ends = len(self._end_ids) if complete[row] else 0
            if count_bits(mask)[0] > len(tokens) + ends:
                is_open[row] = True
            else:
                ways[int(nodes[row])] = ahead
        self._verdicts.is_stuck.update((node, False) for node in nodes[is_open].tolist())
        return ways
