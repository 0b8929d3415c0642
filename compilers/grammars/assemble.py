"""Arrays and metadata of a grammar artifact, the automaton of masks ahead of the first text.

A mask depends on a tree and on the LR states that are read from the top of the stack
(``native/grammars/mask_automaton.h``). Here the automaton reads what stacks can hold: on top, LR
states after which the tree's scanner states can be met; below, states from which the parser goes to
the one above. What is left out is computed while decoding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import Grammar, Terminal
from cdec.core.artifacts.write import recorded_metadata
from cdec.core.grammars.columns import COLUMNS, arrays_from, no_automaton, no_indents, no_loops
from cdec.core.grammars.session import Engine
from cdec.core.grammars.special import is_stand_in

if TYPE_CHECKING:
    from cdec.compilers.grammars.options import GrammarReport
    from cdec.compilers.grammars.parser.tables import ParseTables
    from cdec.compilers.grammars.scanner.build import Parts
    from cdec.core.tokens.vocabulary import Vocabulary

_MOST_BYTES = 24 << 20
"""Bytes of the automaton's lists at which no further steps are made."""
_MOST_EDGES = 20_000_000
"""Edges of the generalised parser's graphs at which no further steps are made: some seconds."""
_AT_ONCE = 2_000
"""Steps between two looks at the bytes."""
_MOST_PAIRS = 1 << 26
"""Scanner states x LR states that are looked at; grammars with more are left to decoding."""
_SCANNER = (
    *("byte_class", "delta", "match_offsets", "match_terminals"),
    *("live_row", "live_offsets", "live_terminals", "context_start"),
)
_SHOWN = 3
"""Literals of a list that stand for it in messages."""
_TABLES = (
    *("action_offsets", "action_terminals", "action_values"),
    *("goto_offsets", "goto_symbols", "goto_states"),
    *("rule_lhs", "rule_length", "item_offsets", "item_rules", "item_dots"),
)


def precompute_masks(
    columns: Mapping[str, NDArray[Any]], *, general: bool, steps: int
) -> dict[str, NDArray[Any]]:
    """Build an automaton of at most ``steps`` steps, the top of the stack first.

    Args:
        columns: Of the artifact, but for those of the automaton.
        general: Whether the parser is the generalised one.
        steps: 0 for none.

    Returns:
        The columns of ``AUTOMATON``; the same for the same grammar and vocabulary. Cost: some 3 µs
        a step for a grammar like C.
    """
    nothing = no_automaton(len(columns["tree_taken"]))
    arrays = arrays_from({**columns, **nothing})
    lr_states, scanner_states = len(arrays.action_offsets) - 1, len(arrays.live_row)
    if steps <= 0 or lr_states * scanner_states > _MOST_PAIRS:
        return nothing
    engine = Engine(arrays, general=general, end_ids=(), budget=1 << 40)
    below_offsets, below = _below(arrays)
    layer = _tops(arrays, general)[:steps]
    seen = np.empty(0, np.int64)
    while len(layer) and steps > 0:
        after = _steps(engine, layer)
        steps = steps - len(layer) if len(after) == len(layer) else 0
        layer = layer[: len(after)]
        # subtle: of two sorted runs the stable sort makes one by merging them.
        seen = np.sort(np.concatenate([seen, layer]), kind="stable")
        known = after >= 0
        met = _distinct((after[known] << 32) | (layer[known] & 0xFFFFFFFF))
        layer = _next_layer(met, below_offsets, below, seen, steps)
    return engine.automaton_columns()


def _next_layer(
    met: NDArray[np.int64],
    below_offsets: NDArray[np.int64],
    below: NDArray[np.int64],
    seen: NDArray[np.int64],
    most: int,
) -> NDArray[np.int64]:
    """Return what is read below, ``state << 32 | LR state``, the first ``most`` that are new.

    Args:
        met: ``state << 32 | LR state on top`` after the last layer, ascending.
        below_offsets, below: Of ``_below``.
        seen: What was read before.
        most: Of a long layer only as many pairs are sorted as are asked for.
    """
    states, tops, stop = met >> 32, met & 0xFFFFFFFF, 0
    counts = np.diff(below_offsets)[tops]
    pairs, wanted = np.cumsum(counts), 2 * most
    layer = met[:0]
    while stop < len(met) and len(layer) < most:
        last = min(int(np.searchsorted(pairs, wanted)), len(met) - 1)
        stop = int(np.searchsorted(states, states[last], "right"))  # all pairs of a state
        own = counts[:stop]
        places = np.arange(own.sum()) - np.repeat(pairs[:stop] - own, own)
        reads = below[np.repeat(below_offsets[tops[:stop]], own) + places]
        layer = _distinct((np.repeat(states[:stop], own) << 32) | reads)
        place = np.minimum(np.searchsorted(seen, layer), len(seen) - 1)
        layer = layer[seen[place] != layer]
        wanted *= 4
    return layer[:most]


def _steps(engine: Engine, layer: NDArray[np.int64]) -> NDArray[np.int64]:
    """Make the steps of a layer that the limits allow; return the states after them."""
    after = [np.empty(0, np.int64)]
    for start in range(0, len(layer), _AT_ONCE):
        if engine.automaton_bytes > _MOST_BYTES:
            break
        part = layer[start : start + _AT_ONCE]
        after.append(engine.automaton_steps(part >> 32, part & 0xFFFFFFFF, _MOST_EDGES))
    return np.concatenate(after)


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct values, ascending.

    subtle: ``np.unique`` hashes int64, and pairs packed into one collide: it took 16 seconds here.
    """
    if bool((values[1:] > values[:-1]).all()):
        return values
    values = np.sort(values)
    distinct: NDArray[np.int64] = values[np.diff(values, prepend=-1) != 0]
    return distinct


def _below(arrays: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the LR states that can lie right below each: offsets int64[N + 1], and states."""
    states = len(arrays.action_offsets) - 1
    shifts = arrays.action_values >= 0
    sources = np.concatenate(
        [
            np.repeat(np.arange(states), np.diff(arrays.action_offsets))[shifts],
            np.repeat(np.arange(states), np.diff(arrays.goto_offsets)),
        ]
    )
    targets = np.concatenate([arrays.action_values[shifts], arrays.goto_states]).astype(np.int64)
    pairs = _distinct((targets << 32) | sources)
    offsets = np.searchsorted(pairs >> 32, np.arange(states + 1))
    return offsets.astype(np.int64), pairs & 0xFFFFFFFF


def _tops(arrays: Any, general: bool) -> NDArray[np.int64]:
    """Return ``tree << 32 | LR state`` for the LR states on top where a tree may be asked."""
    on_top = _tops_of_contexts(arrays, general)
    reached = _reached(arrays)
    takes = _takes(arrays)
    found = [np.empty(0, np.int64)]
    for context in range(len(arrays.context_start)):
        tops, at = np.flatnonzero(on_top[context]), np.flatnonzero(reached[context])
        rows, which = np.unique(arrays.live_row[at], return_inverse=True)
        viable = takes[np.ix_(rows, tops)][which]
        place, top = np.nonzero(viable)
        trees = arrays.tree_of_state[at[place]].astype(np.int64)
        found.append((trees << 32) | tops[top])
    return _distinct(np.concatenate(found))


def _tops_of_contexts(arrays: Any, general: bool) -> NDArray[np.bool_]:
    """Say which LR states may be on top where a context holds, bool[X, N]."""
    states, terminals = len(arrays.action_offsets) - 1, len(arrays.ignored)
    shifts = (arrays.action_values >= 0) & (arrays.action_terminals < terminals)
    shifted, targets = arrays.action_terminals[shifts], arrays.action_values[shifts]
    on_top = np.zeros((len(arrays.context_start), states), np.bool_)
    if not general:
        tops = np.unique(np.append(targets, 0))
        on_top[arrays.lr_context[tops], tops] = True
        return on_top
    on_top[arrays.lr_context[0], 0] = True
    on_top[arrays.terminal_context[shifted], targets] = True
    after_ignored = np.unique(arrays.terminal_context[arrays.ignored != 0])
    on_top[np.ix_(after_ignored, np.unique(np.append(targets, 0)))] = True
    return on_top


def _reached(arrays: Any) -> NDArray[np.bool_]:
    """Say which scanner states a context's start leads to, itself included, bool[X, C]."""
    states = len(arrays.live_row)
    delta = arrays.delta.reshape(states, -1)
    reached = np.zeros((len(arrays.context_start), states), np.bool_)
    for context, start in enumerate(arrays.context_start.tolist()):
        front = np.array([start])
        while len(front):
            reached[context, front] = True
            met = np.zeros(states + 1, np.bool_)  # the last place: no state, -1
            met[delta[front]] = True
            front = np.flatnonzero(met[:states] & ~reached[context])
    return reached


def _takes(arrays: Any) -> NDArray[np.bool_]:
    """Say for live rows and LR states whether some live terminal has an action, bool[L, N]."""
    states, terminals = len(arrays.action_offsets) - 1, len(arrays.ignored)
    rows = len(arrays.live_offsets) - 1
    takes = np.zeros((rows, states), np.bool_)
    acts = np.zeros((terminals + 1, states), np.bool_)
    acts[arrays.action_terminals, np.repeat(np.arange(states), np.diff(arrays.action_offsets))] = (
        True
    )
    acts[:terminals][arrays.ignored != 0] = True
    for row in range(rows):
        live = arrays.live_terminals[arrays.live_offsets[row] : arrays.live_offsets[row + 1]]
        takes[row] = acts[live].any(axis=0)
    return takes


def assemble_grammar(
    made: Parts,
    trees: Mapping[str, NDArray[Any]],
    vocabulary: Vocabulary,
    indents: Mapping[str, NDArray[np.int32]],
) -> dict[str, NDArray[Any]]:
    """Return all columns of a grammar artifact, flat and of the types that ``COLUMNS`` names."""
    ignored = np.zeros(len(made.grammar.terminals), np.int32)
    ignored[sorted(made.grammar.ignored)] = 1
    parts: dict[str, Any] = {name: getattr(made.scanner, name) for name in _SCANNER}
    parts |= {name: getattr(made.tables, name) for name in _TABLES}
    parts |= {
        "lr_context": made.contexts.of_state,
        "terminal_context": made.contexts.of_terminal,
        "ignored": ignored,
        "vocabulary_offsets": vocabulary.byte_offsets,
        "vocabulary_bytes": vocabulary.flat_bytes,
    }
    parts |= {**no_automaton(len(trees["tree_taken"])), **no_indents(), **no_loops()}
    parts |= {**trees, **indents}
    return {
        name: np.ascontiguousarray(np.asarray(parts[name]).reshape(-1), np.dtype(kind))
        for name, kind in COLUMNS.items()
    }


def count_parts(
    grammar: Grammar, tables: ParseTables, arrays: Mapping[str, NDArray[Any]]
) -> dict[str, int]:
    """Return the numbers recorded in the artifact."""
    return {
        "terminals": len(grammar.terminals),
        "ignored": len(grammar.ignored),
        "nonterminals": len(grammar.nonterminals),
        "rules": len(grammar.rules),
        "lr_states": int(tables.num_states),
        "actions": len(arrays["action_values"]),
        "contexts": len(arrays["context_start"]),
        "scanner_states": len(arrays["live_row"]),
        "byte_classes": int(arrays["byte_class"].max(initial=0)) + 1,
        "trees": len(arrays["tree_paths"]) - 1,
        "path_nodes": len(arrays["path_parent"]),
        "groups": len(arrays["group_dense"]),
        "branches": len(arrays["branch_path"]),
        "dense_masks": int(arrays["group_dense"].max(initial=-1)) + 1,
        "verify_tokens": len(arrays["verify_tokens"]),
        "automaton_states": len(np.unique(arrays["automaton_after"])),
        "automaton_steps": len(arrays["automaton_after"]),
        "conflicts_shifted": len(tables.resolved),
    }


def grammar_metadata(
    grammar: Grammar,
    tables: ParseTables,
    vocabulary: Vocabulary,
    report: GrammarReport,
    *,
    source: str,
) -> dict[str, str]:
    """Return the schema metadata of a grammar artifact."""
    options = {
        "lexer": report.lexer,
        "lexer_reason": report.lexer_reason,
        "start": report.start,
        "dialect": report.dialect,
        "max_whitespace": report.max_whitespace,
        "precompute": report.precompute,
        "blanks": report.blanks,
        "indenter": report.indenter,
        "conjoined": [p for terminal in grammar.terminals for p in terminal.conjoined],
        "deny_regex": [p for terminal in grammar.terminals for p in terminal.denied],
    }
    digest = hashlib.sha256(grammar.source.encode()).hexdigest()
    return {
        **recorded_metadata(vocabulary, source, digest, options, report.counts),
        "cdec.sound": "1" if report.is_sound else "0",
        "cdec.sound_reason": report.sound_reason,
        "cdec.grammar": grammar.source,
        "cdec.names": json.dumps(_names(grammar, tables), ensure_ascii=False),
    }


def _names(grammar: Grammar, tables: ParseTables) -> dict[str, Any]:
    """Return what messages call things: symbols by number, and the rules the tables use."""
    terminals = [_shown(terminal) for terminal in grammar.terminals]
    nonterminals = tables.nonterminals
    rules = [
        [nonterminals[rule.lhs], [terminals[s] if s >= 0 else nonterminals[~s] for s in rule.rhs]]
        for rule in tables.rules
    ]
    return {
        "terminals": terminals,
        "patterns": [_pattern(terminal) for terminal in grammar.terminals],
        "nonterminals": list(nonterminals),
        "rules": rules,
    }


def _pattern(terminal: Terminal) -> str:
    """Return a regular expression as it is written; "" for a literal, whose name is its text."""
    if terminal.is_string or is_stand_in(terminal.value):
        return ""
    return f"/{terminal.value}/{''.join(sorted(terminal.flags))}"


def _shown(terminal: Terminal) -> str:
    """Return a literal as it is written, a list of them in short, any other terminal by name."""
    if terminal.is_set:
        return terminal.name
    if terminal.is_string and terminal.words:
        shown = [json.dumps(w, ensure_ascii=False) for w in sorted(terminal.words)[:_SHOWN]]
        more = len(terminal.words) - _SHOWN
        return " | ".join([*shown, f"{more:,} more"] if more > 0 else shown)
    if terminal.is_string or is_stand_in(terminal.value):
        return json.dumps(terminal.value, ensure_ascii=False)
    return terminal.name
