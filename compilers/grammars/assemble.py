"""The parts of a compiled grammar -> the arrays and the metadata of a grammar artifact."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.definition import Grammar, Terminal
from cdec.compilers.grammars.scanner.contexts import Contexts
from cdec.core.grammars.columns import COLUMNS, no_automaton, no_indents, no_loops

if TYPE_CHECKING:
    from cdec.compilers.grammars.options import GrammarReport
    from cdec.compilers.grammars.parser.tables import ParseTables
    from cdec.compilers.grammars.scanner.build import Scanner
    from cdec.core.tokens.vocabulary import Vocabulary

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


def assemble_grammar(
    grammar: Grammar,
    contexts: Contexts,
    scanner: Scanner,
    tables: ParseTables,
    trees: Mapping[str, NDArray[Any]],
    vocabulary: Vocabulary,
    indents: Mapping[str, NDArray[np.int32]],
) -> dict[str, NDArray[Any]]:
    """Return all columns of a grammar artifact, flat and of the types that ``COLUMNS`` names."""
    ignored = np.zeros(len(grammar.terminals), np.int32)
    ignored[sorted(grammar.ignored)] = 1
    parts: dict[str, Any] = {name: getattr(scanner, name) for name in _SCANNER}
    parts |= {name: getattr(tables, name) for name in _TABLES}
    parts |= {
        "lr_context": contexts.of_state,
        "terminal_context": contexts.of_terminal,
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
    """Return the schema metadata of a grammar artifact.

    The tokenisation is left out: masks depend on the tokens' bytes alone.
    """
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
    return {
        "cdec.vocabulary_hash": vocabulary.vocabulary_hash,
        "cdec.tokenization_hash": "",
        "cdec.vocabulary_size": str(vocabulary.size),
        "cdec.vocabulary_name": vocabulary.name.encode("utf-8", "replace").decode(),
        "cdec.eos": json.dumps(list(vocabulary.eos_token_ids)),
        "cdec.source": source.encode("utf-8", "replace").decode(),
        "cdec.source_hash": hashlib.sha256(grammar.source.encode()).hexdigest(),
        "cdec.options": json.dumps(options, sort_keys=True),
        "cdec.counts": json.dumps(report.counts, sort_keys=True),
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
    if terminal.is_string:
        return ""
    return f"/{terminal.value}/{''.join(sorted(terminal.flags))}"


def _shown(terminal: Terminal) -> str:
    """Return a literal as it is written, a list of them in short, any other terminal by name."""
    if terminal.is_string and terminal.words:
        shown = [json.dumps(w, ensure_ascii=False) for w in sorted(terminal.words)[:_SHOWN]]
        more = len(terminal.words) - _SHOWN
        return " | ".join([*shown, f"{more:,} more"] if more > 0 else shown)
    if terminal.is_string:
        return json.dumps(terminal.value, ensure_ascii=False)
    return terminal.name
