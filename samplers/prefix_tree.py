"""Prefix trees: every prefix a run visited, per record; what it cost and what it certifies.

Each node has an upper bound c of the mass of its valid completions: 1 where nobody was, 0 where
nothing can follow, else the sum of P * c over what may come next (ASAp, arXiv 2405.21047, equation
3; design, ALGORITHMS section 3). So c(root) bounds P(S) from above, and the sum of P over the texts
seen bounds it from below (``Bracket``). Samplers that forget (``masked``, ``disc``) only write
here; those that remember (``asap``, ``exact``) walk down it too (``learning.descent``).

A node is a context of the model's tree, which interns prefixes already: columns are indexed by it.
Children are a list: ``first_child`` of the parent, then ``next_sibling``; -1 ends it. Masses are
natural logs, sums are of positive terms only: nothing is ever computed as 1 minus a mass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library

if TYPE_CHECKING:
    from typing import Self

    from cdec.core.models.language_model import ContextColumns

NIL = -1
"""No node, no vector."""
VISITED, EVALUATED, IN_RUN, EXACT, TERMINAL, MARK = 1, 2, 4, 8, 16, 32
"""Flags of a node. EXACT: its mass leaves the visited children out. TERMINAL: a text ended here.
MARK is scratch."""


class Nodes(NamedTuple):
    """Columns of a tree by context: record, owning draw, log P of its token, masses, links."""

    request: NDArray[np.int32]
    draw: NDArray[np.int32]
    edge: NDArray[np.float64]
    mass: NDArray[np.float64]
    bound: NDArray[np.float64]
    flags: NDArray[np.uint8]
    first_child: NDArray[np.int32]
    next_sibling: NDArray[np.int32]


class Arrivals(NamedTuple):
    """The n prefixes of a visit: contexts, those before (-1 at the root), and what is known."""

    context: NDArray[np.int64]
    parent: NDArray[np.int64]
    request: NDArray[np.int64]
    draw: NDArray[np.int64]
    log_edge: NDArray[np.float64]
    log_mass: NDArray[np.float64]
    flags: NDArray[np.uint8]


class Shares(NamedTuple):
    """Own masses of the n prefixes of a visit, [0] for none, and the totals of R records.

    ``depth`` is int32 by context; the last three are written.
    """

    log_prefix: NDArray[np.float64]
    log_end: NDArray[np.float64]
    log_truncated: NDArray[np.float64]
    depth: NDArray[np.int32]
    log_found: NDArray[np.float64]
    log_cut: NDArray[np.float64]
    deepest: NDArray[np.int64]


_NONE = np.zeros(0)
ROUNDING = 1e-9
"""Nats: logs nearer to each other are one number."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """Bounds of P(S) of one record; natural logs, -inf for no mass.

    What a model says of a prefix differs a little from one batch, device or processor to the next,
    so what is certified is ``lowest`` and ``highest``: the bounds by the scores at hand, widened by
    the rounding of all events.

    Attributes:
        log_lower: The texts seen, by the scores at hand.
        log_upper: What is not excluded, by the same.
        log_most: No masked candidate weighs more than this: log Z at the prompt.
        noise: Nats by which log P of a text may be off: an event's rounding times the events.
    """

    log_lower: float = -math.inf
    log_upper: float = 0.0
    log_most: float = 0.0
    noise: float = 0.0

    @property
    def lowest(self) -> float:
        """Certified: log P(S) is not below this."""
        return self.log_lower - self.noise

    @property
    def highest(self) -> float:
        """Certified: log P(S) is not above this."""
        return min(0.0, self.log_upper + self.noise)

    @property
    def log_unseen(self) -> float:
        """Log of upper minus lower: the mass that may be there and was not seen."""
        if not self.width:
            return -math.inf
        return self.log_upper + math.log(-math.expm1(-self.width))

    @property
    def width(self) -> float:
        """Distance of the bounds, in nats: 0 where there is no mass, inf for no lower one.

        What they are widened by does not count: nothing that was not seen is there.
        """
        return 0.0 if self.log_lower >= self.log_upper else self.log_upper - self.log_lower

    def fields(self) -> dict[str, float | None]:
        """Return ``log_mass_lower`` and ``log_mass_upper``; None stands for no mass."""
        bounds = {"log_mass_lower": self.lowest, "log_mass_upper": self.highest}
        if self.log_upper == -math.inf:
            return dict.fromkeys(bounds)
        return {name: log if log > -math.inf else None for name, log in bounds.items()}

    def probability_of(
        self, log_p: float | None, log_unseen: float = -math.inf
    ) -> dict[str, float | None]:
        """Return Q(w) = P(w) / P(S) of a member, as far as it is known, and what bounds it.

        Args:
            log_p: log P(w), natural; None where the text is no member, and nothing is returned of
                its probability.
            log_unseen: log of the mass that may belong to the member and was not seen: of a text,
                all that may be further tokenisations, which then count in P(S) as well.

        Returns:
            ``probability``, None unless its bounds by the scores at hand are one number
            (``ROUNDING``); ``probability_lower`` and ``probability_upper``, certified: P(w) and
            P(S) may both be off. All between 0 and 1; too small for a number is 0.
        """
        if log_p is None or self.log_upper == -math.inf:
            return dict.fromkeys(("probability", "probability_lower", "probability_upper"))
        # P(w) is part of P(S), so P(S) is no less.
        whole = float(np.logaddexp(max(log_p, self.log_lower), log_unseen))
        least = min(0.0, log_p - self.log_upper)
        most = max(least, min(0.0, float(np.logaddexp(log_p, log_unseen)) - whole))
        lower = log_p - self.noise - self.highest
        return {
            "probability": math.exp(most) if most - least <= ROUNDING else None,
            "probability_lower": math.exp(min(0.0, lower)),
            "probability_upper": math.exp(min(0.0, most + 2 * self.noise)),
        }


_COLUMNS: dict[str, tuple[Any, float]] = {
    "request": (np.int32, NIL),
    "draw": (np.int32, 0),
    "edge": (np.float64, 0.0),
    "mass": (np.float64, 0.0),
    "bound": (np.float64, 0.0),
    "flags": (np.uint8, 0),
    "first_child": (np.int32, NIL),
    "next_sibling": (np.int32, NIL),
}
"""Columns of a node with their dtypes and the value of unused rows: 41 bytes."""
NOBODY = np.iinfo(np.int32).max
"""``draw`` of a prefix that an earlier run visited, and this one has not paid for yet."""


class Prefixes(Protocol):
    """Prefixes that are visited together, W of them: the columns of a frontier that count here."""

    @property
    def request(self) -> NDArray[np.int64]:
        """int64[W] number of each one's record."""

    @property
    def draw(self) -> NDArray[np.int64]:
        """int64[W] position of the draw in its record."""

    @property
    def context(self) -> NDArray[np.int64]:
        """int64[W] nodes of the model's tree."""

    @property
    def parent(self) -> NDArray[np.int64]:
        """int64[W] the nodes before, -1 at the root."""

    @property
    def token(self) -> NDArray[np.int64]:
        """int64[W] the last tokens, -1 at the root."""

    @property
    def log_edge(self) -> NDArray[np.float64]:
        """float64[W] log P of the last token."""

    @property
    def log_prefix(self) -> NDArray[np.float64]:
        """float64[W] log P of all tokens."""

    @property
    def in_run(self) -> NDArray[np.bool_]:
        """bool[W] whether the pass of a prefix above evaluated this one."""

    def host_states(self) -> NDArray[np.int64]:
        """Return the constraint states, int64[W]."""

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return some of the prefixes, in the given order."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit of a frontier's W prefixes.

    Attributes:
        log_mass: float64[W] log of the allowed mass there, -inf if none.
        log_end: float64[W] log P(end | prefix), -inf where the text may not end; None for none.
        log_truncated: float64[W] log of the mass after the prefix that the length limit cuts off.
        evaluated: Whether the model was asked.
        exact: Whether ``log_mass`` leaves out the tokens that were drawn there.
        terminal: Whether the prefixes are texts that ended themselves.
    """

    log_mass: NDArray[np.float64]
    log_end: NDArray[np.float64] | None = None
    log_truncated: NDArray[np.float64] | None = None
    evaluated: bool = True
    exact: bool = False
    terminal: bool = False

    def take(self, rows: NDArray[np.int64]) -> Visit:
        """Return what is known of some of the prefixes."""
        shares = ("log_mass", "log_end", "log_truncated")
        known = {name: getattr(self, name) for name in shares}
        return replace(self, **{k: v[rows] for k, v in known.items() if v is not None})


class PrefixTree:
    """The visited prefixes of all records of a batch.

    Args:
        requests: Number of records.
        contexts: The model's tree, which knows each node's parent, token and depth.
        rounding: The model's bound of the relative error of a sum of probabilities.
        noise: Nats by which log P of one event may be off, its rounding at its temperature.

    Attributes:
        columns: Arrays by name; of unvisited contexts they mean nothing.
        log_found: float64[R] log of the summed probability of the texts seen, a lower bound of the
            mass: every visited prefix that may end counts with its end event.
        log_truncated: float64[R] log of the summed mass of what the length limit cut off.
    """

    def __init__(
        self, requests: int, contexts: ContextColumns, rounding: float = 0.0, noise: float = 0.0
    ) -> None:
        self._rounding = rounding
        self._noise = noise
        self._deepest = np.zeros(requests, np.int64)
        self._contexts = contexts
        self.columns: dict[str, NDArray[Any]] = {}
        self._nodes: Nodes | None = None
        self._grow(1024)
        self.log_found = np.full(requests, -np.inf)
        self.log_truncated = np.full(requests, -np.inf)
        self._stale: list[NDArray[np.int64]] = []
        self._linked: list[NDArray[np.int64]] | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self.columns.get(name)
        return self._contexts.columns[name] if column is None else column

    @property
    def nodes(self) -> Nodes:
        """The columns as kernels take them, until the tree grows."""
        if self._nodes is None:
            self._nodes = Nodes(*(self.columns[name] for name in Nodes._fields))
        return self._nodes

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, those of the model's tree left out."""
        return sum(column.nbytes for column in self.columns.values())

    def visit(self, nodes: Prefixes, seen: Visit) -> None:
        """Record the prefixes of ``nodes``; the lowest draw that comes to a prefix owns its cost.

        Cost: O(W), one compiled pass; a sort before it where the tree is walked again.
        """
        if "state" in self.columns:
            # subtle: draws that walk down the children find them as they were linked, so a record's
            # must be linked in an order of its own. Ids have none: they are used again once freed.
            order = np.lexsort((nodes.draw, nodes.token))
            nodes, seen = nodes.take(order), seen.take(order)
        if self._linked is not None:
            self._linked.append(self._links(nodes))
        base = VISITED | EVALUATED * seen.evaluated | EXACT * seen.exact | TERMINAL * seen.terminal
        flags = nodes.in_run * np.uint8(IN_RUN) | np.uint8(base)
        where = nodes.context, nodes.parent, nodes.request, nodes.draw
        ends = np.zeros(len(flags)) if seen.terminal else seen.log_end
        self.enter(
            Arrivals(*where, nodes.log_edge, seen.log_mass, flags),
            nodes.log_prefix,
            _NONE if ends is None else ends,
            _NONE if seen.log_truncated is None else seen.log_truncated,
        )
        if "state" in self.columns:
            self["state"][nodes.context] = nodes.host_states()

    @contextmanager
    def linked_in_order(self) -> Iterator[None]:
        """Link what is visited meanwhile as walks in lockstep would have, whenever they came there.

        Children are found by those that walk down as they were linked: texts that end themselves,
        then those that are given up, then all others, by token each, and the last ones first.
        """
        self._linked = []
        yield
        links = np.concatenate([np.zeros((0, 3), np.int64), *self._linked])
        self._linked = None
        if not len(links):
            return
        _, first = np.unique(links[:, 1], return_index=True)
        before = links[first, 2]
        node, parent, _ = links[np.unique(links[:, 0], return_index=True)[1]].T
        flags, tokens = self["flags"][node], self["token"][node]
        kind = np.where(flags & TERMINAL > 0, 0, np.where(flags & EVALUATED > 0, 2, 1))
        order = np.lexsort((tokens, kind, parent))
        node, parent = node[order], parent[order]
        begins = np.append(True, parent[1:] != parent[:-1])
        behind = np.append(NIL, node[:-1])
        # What was there before stays behind them: it is never among them.
        behind[begins] = before
        self["next_sibling"][node] = behind
        last = np.append(begins[1:], True)
        self["first_child"][parent[last]] = node[last]

    def _links(self, nodes: Prefixes) -> NDArray[np.int64]:
        """Return each new prefix, its parent, and the first child that this has, int64[n, 3]."""
        self.reserve(int(nodes.context.max(initial=-1)) + 1)
        is_new = (self["flags"][nodes.context] & VISITED == 0) & (nodes.parent >= 0)
        node, parent = nodes.context[is_new], nodes.parent[is_new]
        return np.stack([node, parent, self["first_child"][parent]], 1).astype(np.int64)

    def enter(
        self,
        arrivals: Arrivals,
        log_prefix: NDArray[np.float64] = _NONE,
        log_end: NDArray[np.float64] = _NONE,
        log_truncated: NDArray[np.float64] = _NONE,
    ) -> None:
        """Record n prefixes by their columns, as ``visit`` does; ``[0]`` stands for no masses."""
        self.reserve(int(arrivals.context.max(initial=-1)) + 1)
        totals = self.log_found, self.log_truncated, self._deepest
        shares = Shares(log_prefix, log_end, log_truncated, self["depth"], *totals)
        library.tree_visit(arrivals, self.nodes, shares)
        self.touch(arrivals.context)

    def touch(self, nodes: NDArray[np.int64]) -> None:
        """Say that the masses of ``nodes`` (int64[n]), all visited, changed."""
        self._stale.append(nodes)

    def update(self) -> None:
        """Carry what changed since the last call upwards, to the bounds of all ancestors."""
        if not self._stale:
            return
        changed = np.concatenate(self._stale)
        self._stale = []
        nodes = self._with_ancestors(changed)
        order = nodes[np.argsort(-self["depth"][nodes], kind="stable")]
        library.tree_update(order, self.nodes, self._rounding)

    def _with_ancestors(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return nodes (int64[n]) and all nodes above them, each once."""
        parent, flags = self["parent"], self["flags"]
        found = np.empty(max(16, 2 * len(nodes)), np.int64)
        while (count := library.tree_with_ancestors(nodes, parent, flags, found)) > len(found):
            found = np.empty(count, np.int64)
        return found[:count]

    def log_upper(self, root: int) -> float:
        """Return log c(root), an upper bound of the mass of the record at context ``root``."""
        self.update()
        visited = root < len(self["flags"]) and self["flags"][root] & VISITED
        return float(self["bound"][root]) if visited else 0.0

    def bounds(self, request: int, root: int) -> Bracket:
        """Return what is certified of P(S) of a record with its prompt at context ``root``."""
        lower, upper = float(self.log_found[request]), self.log_upper(root)
        # Rounding may carry the sum of what was found past the bound, by 1e-15 or so.
        upper = min(0.0, max(lower, upper))
        return Bracket(min(lower, upper), upper, self._log_allowed(root), self.noise_of(request))

    def noise_of(self, request: int) -> float:
        """Return the nats by which log P of a record's texts may be off, by all their events."""
        return self._noise * (1 + int(self._deepest[request]))

    def _log_allowed(self, root: int) -> float:
        """Return the log of the mass that was allowed at ``root`` when nothing was known below."""
        if root >= len(self["flags"]):
            return 0.0
        return float(self.least_steps(np.array([root]), np.array([True]))[0][0])

    def least_steps(
        self, last: NDArray[np.int64], is_whole: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Find the step of each path at which the least mass was allowed, as far as that is known.

        Args:
            last: int64[n] contexts that paths end at; -1 for no path.
            is_whole: bool[n] whether an event was drawn at the last context, too.

        Returns:
            float64[n] log of the mass, 0 where none is known; int64[n] tokens before the step, -1
            for no step. Under top-M the mass is an upper bound. Cost: the nodes of the paths and
            the visited children of each, once.
        """
        log_z, place = np.empty(len(last)), np.empty(len(last), np.int64)
        known = np.full(len(self["flags"]), np.nan)
        library.tree_least_masses(last, is_whole, self["parent"], self.nodes, known, log_z, place)
        return log_z, place

    def visited(self) -> NDArray[np.int64]:
        """Return all visited nodes, int64[n]."""
        return np.flatnonzero(self["flags"] & VISITED)

    def reserve(self, size: int) -> None:
        """Make room for contexts below ``size``."""
        if size > len(self["flags"]):
            self._grow(max(size, len(self["flags"]) * 9 // 8))

    def add_column(self, name: str, dtype: Any, fill: int) -> None:
        """Attach a column of one value a node.

        subtle: growing replaces the arrays, so read them by name after every visit.
        """
        self.columns[name] = np.full(len(self["flags"]), fill, dtype)

    def _grow(self, capacity: int) -> None:
        self._nodes = None
        have = {name: (column.dtype, NIL) for name, column in self.columns.items()}
        for name, (dtype, fill) in (have | _COLUMNS).items():
            grown = np.full(capacity, fill, dtype)
            if name in self.columns:
                grown[: len(self.columns[name])] = self.columns[name]
            self.columns[name] = grown
