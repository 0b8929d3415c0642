"""What a grammar compilation reports: the phase it is in, and at the end what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

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
class GrammarReport:
    """What a grammar compilation did.

    Attributes:
        path: The artifact.
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
        counts: Terminals, rules, states, trees and so on.
        bytes: Size of the artifact.
        seconds: Seconds by phase; ``total`` is wall time.
        notices: Warnings.
    """

    path: Path
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
    counts: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

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

    def to_json(self) -> dict[str, Any]:
        """Return the report as one JSON-ready object."""
        return {
            "path": str(self.path),
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
            **self.counts,
            "bytes": self.bytes,
            "seconds": {phase: round(value, 4) for phase, value in self.seconds.items()},
            "notices": [
                {"code": notice.code, "message": notice.message, **notice.details}
                for notice in self.notices
            ],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any], counts: Mapping[str, int]) -> GrammarReport:
        """Return the report that ``to_json`` wrote.

        Args:
            values: The object.
            counts: The part of it that is ``counts``.
        """
        notices = [
            Notice(
                notice["code"],
                notice["message"],
                {key: value for key, value in notice.items() if key not in ("code", "message")},
            )
            for notice in values["notices"]
        ]
        return cls(
            path=Path(values["path"]),
            lexer=cast(Lexer, values["lexer"]),
            lexer_reason=values["lexer_reason"],
            start=values["start"],
            dialect=values["dialect"],
            is_sound=values["sound"],
            sound_reason=values["sound_reason"],
            blanks=values["blanks"],
            max_whitespace=values["max_whitespace"],
            precompute=values["precompute"],
            indenter=values["indenter"],
            counts=dict(counts),
            bytes=values["bytes"],
            seconds=dict(values["seconds"]),
            notices=notices,
        )
