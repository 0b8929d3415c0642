"""What a grammar compilation reports: the phase it is in, and at the end what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdec.compilers.child.report import SourceReport
from cdec.compilers.grammars.definition import Grammar, Lexer
from cdec.core.errors import Notice

PHASES = {
    "read": "reading the grammar",
    "tables": "building parse tables",
    "scanner": "building the scanner",
    "soundness": "proving soundness",
    "trie": "sorting the vocabulary",
    "trees": "building subterminal trees",
    "masks": "computing masks",
    "write": "writing",
}
"""Every phase in its order, and what progress calls it."""


@dataclass(slots=True)
class GrammarReport(SourceReport):
    """What a grammar compilation did.

    Attributes, beside those of every report:
        lexer: How the text is cut into terminals.
        lexer_reason: Why this lexer was taken.
        start: Name of the start rule.
        dialect: ``lark`` or ``ebnf``.
        is_sound: After every allowed token the text still has a completion.
        sound_reason: What proves it, or what stood in the way.
        blanks: Characters of ignored white space whose runs are bounded; "" for none.
        max_whitespace: The bound; None for none.
        precompute: Steps of the automaton of masks that were asked for.
        indenter: How indentation becomes terminals; None where it means nothing.
    """

    lexer: Lexer = "contextual"
    lexer_reason: str = ""
    start: str = ""
    dialect: str = ""
    is_sound: bool = False
    sound_reason: str = ""
    blanks: str = ""
    max_whitespace: int | None = None
    precompute: int = 0
    indenter: str | None = None

    def describe(
        self, grammar: Grammar, lexer: Lexer, reason: str, notices: tuple[Notice, ...]
    ) -> None:
        """Note the grammar, the lexer that was chosen for it and why, and the warnings so far."""
        self.lexer, self.lexer_reason = lexer, reason
        self.start, self.dialect = grammar.nonterminals[grammar.start], grammar.dialect
        self.notices += [*grammar.notices, *notices]

    def bound(self, blanks: str, max_whitespace: int | None) -> None:
        """Note the characters whose runs are bounded, and the bound."""
        self.blanks, self.max_whitespace = blanks, max_whitespace if blanks else None

    def _described(self) -> dict[str, Any]:
        return {
            "lexer": self.lexer,
            "lexer_reason": self.lexer_reason,
            "start": self.start,
            "dialect": self.dialect,
            "sound": self.is_sound,
            "sound_reason": self.sound_reason,
            "blanks": self.blanks,
            "max_whitespace": self.max_whitespace,
            "precompute": self.precompute,
            "indenter": self.indenter,
        }
