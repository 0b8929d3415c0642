"""Descriptions of a grammar for people: decoding states, refusals, subterminal trees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.grammars.columns import GrammarArrays, count_states, row_of_state
from cdec.core.grammars.session import GrammarSession
from cdec.core.mask import mask_words, unpack_mask
from cdec.core.session import DEAD
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import TokenRefusal, ViablePrefix, follow, line_and_column


@dataclass(frozen=True)
class Names:
    """Names of a grammar's symbols, from the metadata of its artifact.

    Attributes:
        arrays: The compiled grammar.
        terminals: By number.
        nonterminals: By number.
        rules: (left side, right side) as names, by number.
        patterns: Regular expressions of terminals that are none literals, by name.
    """

    arrays: GrammarArrays
    terminals: tuple[str, ...]
    nonterminals: tuple[str, ...]
    rules: tuple[tuple[str, tuple[str, ...]], ...]
    patterns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_metadata(cls, arrays: GrammarArrays, metadata: Mapping[str, str]) -> Names:
        """Read ``cdec.names``; numbers stand for names that are missing."""
        try:
            stored = json.loads(metadata.get("cdec.names", "{}"))
            terminals = tuple(map(str, stored.get("terminals", ())))
            nonterminals = tuple(map(str, stored.get("nonterminals", ())))
            rules = tuple((str(a), tuple(map(str, b))) for a, b in stored.get("rules", ()))
            written = zip(terminals, stored.get("patterns", ()), strict=False)
            patterns = {name: str(pattern) for name, pattern in written if pattern}
        except (ValueError, TypeError, AttributeError, RecursionError):
            terminals, nonterminals, rules, patterns = (), (), (), {}
        return cls(arrays, terminals, nonterminals, rules, patterns)

    def terminal(self, number: int) -> str:
        """Return the name of a terminal; the end of the text is ``$END``."""
        if number == len(self.arrays.ignored):
            return "$END"
        known = 0 <= number < len(self.terminals)
        return self.terminals[number] if known else f"terminal {number}"

    def each(self, numbers: Iterable[int]) -> list[str]:
        """Return the names of terminals, each once: copies of a terminal have its name."""
        return list(dict.fromkeys(map(self.terminal, numbers)))

    def live(self, row: int) -> list[int]:
        """Return the terminals of a live row."""
        first, stop = self.arrays.live_offsets[row : row + 2].tolist()
        found: list[int] = self.arrays.live_terminals[first:stop].tolist()
        return found

    def nonterminal(self, number: int) -> str:
        """Return the name of a nonterminal."""
        known = 0 <= number < len(self.nonterminals)
        return self.nonterminals[number] if known else f"nonterminal {number}"

    def item(self, rule: int, dot: int) -> str:
        """Return a rule with a dot where the parser stands."""
        if not 0 <= rule < len(self.rules):
            return f"rule {rule}, position {dot}"
        lhs, rhs = self.rules[rule]
        return f"{lhs} → {' '.join([*rhs[:dot], '•', *rhs[dot:]])}"

    @cached_property
    def access_symbols(self) -> dict[int, str]:
        """Return the symbol that leads to each LR state."""
        symbols: dict[int, str] = {0: "$START"}
        arrays = self.arrays
        for at in np.flatnonzero(arrays.action_values >= 0).tolist():
            symbols.setdefault(
                int(arrays.action_values[at]), self.terminal(int(arrays.action_terminals[at]))
            )
        for symbol, state in zip(
            arrays.goto_symbols.tolist(), arrays.goto_states.tolist(), strict=True
        ):
            symbols.setdefault(state, self.nonterminal(symbol))
        return symbols

    def items(self, state: int) -> list[str]:
        """Return the kernel items of an LR state."""
        first, stop = self.arrays.item_offsets[state : state + 2].tolist()
        rules, dots = self.arrays.item_rules[first:stop], self.arrays.item_dots[first:stop]
        return [self.item(*item) for item in zip(rules.tolist(), dots.tolist(), strict=True)]


_SHOWN = 64
"""Symbols of a stack that are shown, counted from the top."""


@dataclass(frozen=True, slots=True)
class ParserConfiguration:
    """One way to read the bytes so far.

    Attributes:
        under_way: Terminals that the bytes since the last one ended may become; empty at a start.
        viable: Those of them, or of those that may begin, that the parser takes.
        stack: Symbols from the bottom; the first ones are left out of a deep stack.
        hidden: Symbols left out.
        items: Rules under way at the top, with a dot where the parser stands.
        lr_states: The LR states of the topmost vertices.
    """

    under_way: list[str]
    viable: list[str]
    stack: list[str]
    hidden: int
    items: list[str]
    lr_states: list[int]


@dataclass(frozen=True, slots=True)
class StateView:
    """A decoding state: its parser configurations, by precedence, and whether the text may end."""

    configurations: list[ParserConfiguration]
    complete: bool


def describe_state(session: GrammarSession, state: int, names: Names) -> StateView:
    """Return a state as plain data; DONE, DEAD and numbers that are no states have none."""
    symbols = names.access_symbols
    found = [
        _configuration(session, names, symbols, at, stack)
        for at, stack in session.configurations(state)
    ]
    return StateView(found, bool(session.is_complete(np.array([state]))[0]))


def _configuration(
    session: GrammarSession, names: Names, symbols: Mapping[int, str], at: int, stack: int
) -> ParserConfiguration:
    arrays = names.arrays
    member = session.terminal_of_set(at)
    fresh = member is None and at >= count_states(arrays)
    row = row_of_state(arrays, at % count_states(arrays)) if member is None else 0
    live = names.live(int(arrays.live_row[row])) if member is None else [member]
    viable = [t for t in live if arrays.ignored[t] or session.can_shift(stack, t)]
    top_states, path, depth = session.stack(stack, _SHOWN)
    return ParserConfiguration(
        under_way=[] if fresh else names.each(live),
        viable=names.each(viable),
        stack=[symbols.get(state, "?") for state in reversed(path)],
        hidden=depth - len(path),
        items=[item for state in top_states for item in names.items(state)],
        lr_states=top_states,
    )


_SHOWN_SYMBOLS = 12
_SHOWN_ITEMS = 8


def describe_place(
    session: GrammarSession, vocabulary: Vocabulary, names: Names, place: ViablePrefix, shown: int
) -> dict[str, Any]:
    """Return what a state allows, as JSON-ready data.

    Args:
        session: Of a grammar.
        vocabulary: Of the model.
        names: Of terminals and rules.
        place: A state of the session.
        shown: How many example tokens to list, the shortest first.

    Returns:
        ``allowed`` (texts of tokens), ``allowed_count``, ``may_end``, ``terminals`` (under way or
        next), ``stack`` (symbols, the top last) and ``rules`` (under way, a dot where they stand).
    """
    states = np.array([place.state], np.int64)
    ids = session.allowed(states)[1]
    table = vocabulary.token_bytes
    ends = frozenset(vocabulary.eos_token_ids)
    pieces = sorted({table[i] for i in ids.tolist() if i not in ends}, key=lambda b: (len(b), b))
    view = describe_state(session, place.state, names)
    return {
        "allowed": [piece.decode("utf-8", "replace") for piece in pieces[:shown]],
        "allowed_count": len(ids),
        "may_end": bool(session.is_complete(states)[0]),
        "terminals": _unique([name for each in view.configurations for name in each.viable]),
        **shown_stack(view),
    }


def shown_stack(view: StateView) -> dict[str, list[str]]:
    """Return the stack and the rules under way of a state's first configuration."""
    if not view.configurations:
        return {"stack": [], "rules": []}
    first = view.configurations[0]
    stack = first.stack[-_SHOWN_SYMBOLS:]
    if first.hidden or len(first.stack) > len(stack):
        stack = ["...", *stack]
    return {"stack": stack, "rules": _unique(first.items)[:_SHOWN_ITEMS]}


def _unique(names: list[str]) -> list[str]:
    """Return names once each, in their order."""
    return list(dict.fromkeys(names))


def text_refusal(
    session: GrammarSession, vocabulary: Vocabulary, names: Names, text: bytes, shown: int
) -> dict[str, Any] | None:
    """Return where a text leaves the language and what may stand there; None for members.

    Args:
        session: Of the grammar.
        vocabulary: Of the model.
        names: Of terminals and rules.
        text: Any bytes.
        shown: How many continuations to list.

    Returns:
        ``byte`` (from 0), ``line`` and ``column`` (from 1), and what ``describe_place`` says.
    """
    place = follow(session, int(session.start(1)[0]), text)
    is_complete = bool(session.is_complete(np.array([place.state], np.int64))[0])
    if place.byte == len(text) and is_complete:
        return None
    line, column = line_and_column(text, place.byte)
    here = describe_place(session, vocabulary, names, place, shown)
    return {"byte": place.byte, "line": line, "column": column, **here}


def token_refusal(
    session: GrammarSession, vocabulary: Vocabulary, names: Names, refusal: TokenRefusal, shown: int
) -> dict[str, Any]:
    """Return where a row of tokens is refused, and what ``describe_place`` says of that place."""
    ids = session.allowed(np.array([refusal.state], np.int64))[1]
    place = ViablePrefix(refusal.state, refusal.byte)
    return {
        "position": refusal.position,
        "byte": refusal.byte,
        "allowed_ids": ids[:shown].tolist(),
        **describe_place(session, vocabulary, names, place, shown),
    }


_SHOWN_READINGS = 4


def explain(
    session: GrammarSession,
    vocabulary: Vocabulary,
    names: Names,
    token_ids: Sequence[int],
    shown: int,
) -> Iterator[dict[str, Any]]:
    """Step through tokens until one is not allowed.

    Args:
        session: Of a grammar, perhaps with a lookahead.
        vocabulary: Of the model.
        names: Of terminals and rules.
        token_ids: Tokens of a text; end ids may close it.
        shown: How many continuations to list where a token is refused.

    Yields:
        One object a token. ``byte`` is where it begins, ``allowed_count`` and ``forced`` are those
        before it, all else holds after it: ``readings`` (terminals under way, those that the parser
        takes, the stack, the rules), ``may_end``. For a refused token ``is_allowed`` is false and
        the other fields say where in it the language was left.
    """
    state, byte = int(session.start(1)[0]), 0
    for index, token_id in enumerate(token_ids):
        states = np.array([state], np.int64)
        token = vocabulary.decode([token_id])
        step = {
            "index": index,
            "byte": byte,
            "token_id": token_id,
            "token": token.decode("utf-8", "backslashreplace"),
            "allowed_count": len(session.allowed(states)[1]),
            "forced": bool(session.forced(states)[0][1]),
        }
        after = int(session.advance(states, np.array([token_id], np.int64))[0])
        if after == DEAD:
            place = follow(session, state, token)
            here = describe_place(session, vocabulary, names, place, shown)
            # The count is that of the tokens in the place of this one, not of those after its head.
            here["allowed_after_head"] = here.pop("allowed_count")
            yield {**step, "is_allowed": False, "refused_byte": byte + place.byte, **here}
            return
        state, byte = after, byte + len(token)
        view = describe_state(session, state, names)
        yield {
            **step,
            "is_allowed": True,
            "may_end": bool(session.is_complete(np.array([state], np.int64))[0]),
            "readings": [
                {"under_way": each.under_way, "viable": each.viable, "stack": each.stack}
                for each in view.configurations[:_SHOWN_READINGS]
            ],
            "readings_count": len(view.configurations),
            **shown_stack(view),
        }


_SHOWN_LIVE = 6
"""Terminals under way that a line names."""


@dataclass(frozen=True, slots=True)
class BranchView:
    """One way to read the tokens of a group.

    Attributes:
        path: Terminals that end within the token, in their order; ``>N`` stands before a terminal
            whose first byte leads to scanner state N.
        live: Terminals of which one must be taken by the parser after them; None where the token
            ends with a terminal.
        depth: Further terminals begun after the first one touched.
    """

    path: list[str]
    live: list[str] | None
    depth: int

    def line(self) -> str:
        """Return what ends in the tokens, then what is under way after them."""
        done = " ".join(self.path)
        return f"{done} |" if self.live is None else f"{done} | inside {_some(self.live)}".strip()


@dataclass(frozen=True, slots=True)
class GroupView:
    """Tokens that are read alike.

    Attributes:
        tokens: How many.
        samples: Bytes of some of them, the shortest first.
        branches: Ways to read them; the group is allowed if one of them is.
    """

    tokens: int
    samples: list[bytes]
    branches: list[BranchView]


@dataclass(frozen=True, slots=True)
class TreeView:
    """The tokens of one scanner state, in groups that are read alike.

    Attributes:
        state: The scanner state.
        tree: Number of its tree.
        shared_by: Rows of scanner states with this tree.
        completes: Terminals that have just been completed in this state.
        live: Terminals that it can still complete.
        groups: Those with most tokens.
        hidden: Groups left out.
        verified: Tokens that the engine steps byte by byte.
    """

    state: int
    tree: int
    shared_by: int
    completes: list[str]
    live: list[str]
    groups: list[GroupView]
    hidden: int
    verified: int

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-ready data; bytes that are no UTF-8 are escaped."""
        described = asdict(self)
        for group in described["groups"]:
            group["samples"] = [_text(piece) for piece in group["samples"]]
        return described

    def lines(self) -> list[str]:
        """Return it as indented lines: groups of tokens, and under each the ways to read them."""
        ended = f", completes {' '.join(self.completes)}" if self.completes else ""
        lines = [
            f"scanner state {self.state}{ended}: inside {_some(self.live) or 'nothing'}",
            f"tree {self.tree}, of {self.shared_by:,} scanner states",
        ]
        for group in self.groups:
            samples = ", ".join(f'"{_text(sample)}"' for sample in group.samples)
            more = ", ..." if group.tokens > len(group.samples) else ""
            lines.append(f"  {group.tokens:,} tokens: {samples}{more}")
            lines += [f"    {branch.line()}" for branch in group.branches]
        if self.hidden:
            lines.append(f"  ... {self.hidden:,} more groups")
        if self.verified:
            lines.append(f"  {self.verified:,} tokens are read byte by byte")
        return lines


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "backslashreplace")


def _some(names: Sequence[str]) -> str:
    hidden = len(names) - _SHOWN_LIVE
    return " ".join(names[:_SHOWN_LIVE]) + (f" and {hidden} more" if hidden > 0 else "")


def describe_subterminal_tree(
    arrays: GrammarArrays,
    vocabulary: Vocabulary,
    names: Names,
    state: int = 0,
    width: int = 8,
) -> TreeView:
    """Return the tree of a scanner state.

    Args:
        arrays: The compiled grammar.
        vocabulary: Of the model.
        names: Of terminals and rules.
        state: Scanner state, one of a loop included.
        width: Groups, and samples a group, to show.

    Raises:
        UsageError: There is no such state.
    """
    states = count_states(arrays)
    if not 0 <= state < states:
        raise UsageError(
            f"there is no scanner state {state}", hint=f"name one from 0 to {states - 1}"
        )
    row = row_of_state(arrays, state)
    tree = int(arrays.tree_of_state[row])
    first, stop = arrays.tree_groups[tree : tree + 2].tolist()
    members = [_members(arrays, group) for group in range(first, stop)]
    largest = sorted(range(stop - first), key=lambda i: -len(members[i]))
    terminals = names.terminal
    completed = arrays.match_terminals[slice(*arrays.match_offsets[row : row + 2])]
    return TreeView(
        state=state,
        tree=tree,
        shared_by=int((arrays.tree_of_state == tree).sum()),
        completes=[terminals(t) for t in completed.tolist()],
        live=names.each(names.live(int(arrays.live_row[row]))),
        groups=[
            _group(vocabulary, names, tree, first + i, members[i], width) for i in largest[:width]
        ],
        hidden=max(stop - first - width, 0),
        verified=int(np.diff(arrays.tree_verify[tree : tree + 2])[0]),
    )


def _members(arrays: GrammarArrays, group: int) -> NDArray[np.int32]:
    """Return the token ids of a group, ascending."""
    dense = int(arrays.group_dense[group])
    if dense < 0:
        return arrays.tokens[slice(*arrays.group_tokens[group : group + 2])]
    size = len(arrays.vocabulary_offsets) - 1
    words = mask_words(size)
    row = arrays.dense_masks[dense * words : (dense + 1) * words]
    return np.flatnonzero(unpack_mask(row[None], size)[0]).astype(np.int32)


def _group(
    vocabulary: Vocabulary,
    names: Names,
    tree: int,
    group: int,
    members: NDArray[np.int32],
    width: int,
) -> GroupView:
    arrays = names.arrays
    table = vocabulary.token_bytes
    pieces = sorted((table[i] for i in members.tolist()), key=lambda piece: (len(piece), piece))
    first, stop = arrays.group_branches[group : group + 2].tolist()
    base = int(arrays.tree_paths[tree])
    branches = [
        BranchView(
            path=_path(names, base, int(arrays.branch_path[branch])),
            live=names.each(names.live(live)) if live >= 0 else None,
            depth=int(arrays.branch_depth[branch]),
        )
        for branch, live in zip(
            range(first, stop), arrays.branch_live[first:stop].tolist(), strict=True
        )
    ]
    return GroupView(len(members), pieces[:width], branches)


def _path(names: Names, base: int, node: int) -> list[str]:
    """Return what stands between a tree's root and one of its path nodes."""
    arrays = names.arrays
    labels = []
    while node >= 0:
        terminal = int(arrays.path_terminal[base + node])
        entered = f">{arrays.path_next[base + node]}"
        labels.append(entered if terminal < 0 else names.terminal(terminal))
        # A parent stands before its children: this ends, whatever the file holds.
        node = min(int(arrays.path_parent[base + node]), node - 1)
    return labels[::-1]
