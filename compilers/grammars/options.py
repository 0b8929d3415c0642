"""Options of compiling a grammar, checked, and the report of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from cdec.compilers.grammars.definition import LEXERS, Grammar, GrammarLimits, Lexer
from cdec.compilers.kinds import SourceOptions
from cdec.compilers.report import SourceReport
from cdec.core.errors import Notice, UsageError
from cdec.core.grammars.blanks import MAX_RUN
from cdec.core.grammars.indenter import Indenter

Dialect: TypeAlias = Literal["auto", "lark", "ebnf", "gbnf"]
SourceFormat: TypeAlias = Dialect | Literal["regex"]
"""Format of a source: a regular expression is no dialect, and has an entry of its own."""
_FORMATS = (*get_args(Dialect), "regex")

MAX_WHITESPACE = 8
"""Longest run of ignored blanks unless another is asked for."""
PRECOMPUTE = 500_000
"""Steps of the automaton of masks that are made when compiling unless another number is asked."""
_EBNF_HEAD = re.compile(r"(?:\s|(?:#|//)[^\n]*(?:\n|\Z))*[\w-][\w.-]*\s*::=")
"""A text whose first rule has such a head is ``::=`` EBNF; Lark's rules have a colon alone."""
Pattern: TypeAlias = "str | re.Pattern[str]"
UNNAMED = "<grammar>"
"""Name of a source that has none."""
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
    """Report of a grammar compilation.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarOptions(SourceOptions[GrammarReport]):
    """Options of a grammar compilation.

    Attributes:
        start: Name of the start rule; None: what the dialect says.
        lexer: None: ``contextual`` where LALR(1) tables lose no text, else ``dynamic``, with a
            notice.
        format: ``lark``, ``ebnf`` or ``gbnf`` (read alike), ``regex``; ``auto`` is ``lark``.
        limits: What compiling may cost.
        allow_imports: Folder from which Lark files may be imported, besides lark's own.
        name: Name of the source, recorded and shown, never opened.
        made_from: What the artifact records of its making; empty for nothing.
        max_whitespace: Longest run of ignored blanks, as ``cdec.core.grammars.blanks`` counts; None
            for any.
        precompute: Steps of the automaton of masks that are made when compiling; the others are
            made while decoding.
        conjoined, deny_regex: Of a regular expression: others that texts match as a whole, too, and
            others that they do not.
        set_digests: Digests that the artifacts of sets within must have, by name; of others any.
        indenter: How indentation becomes terminals: ``python``, or what differs from it
            (``cdec.core.grammars.indenter``); None: it means nothing.

    Raises:
        UsageError: A lexer or dialect that does not exist, a run out of bounds, an indenter that is
            none or that goes with neither, or patterns that narrow a grammar.
    """

    source: ClassVar[str] = "grammar"
    report: ClassVar[type[GrammarReport]] = GrammarReport

    start: str | None = None
    lexer: Lexer | None = None
    format: SourceFormat = "auto"
    limits: GrammarLimits = field(default_factory=GrammarLimits)
    allow_imports: Path | None = None
    name: str = UNNAMED
    made_from: str = ""
    max_whitespace: int | None = MAX_WHITESPACE
    precompute: int = PRECOMPUTE
    indenter: str | None = None
    set_digests: tuple[tuple[str, str], ...] = ()
    conjoined: tuple[str, ...] = ()
    deny_regex: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        most = self.max_whitespace
        if most is not None and not 0 <= most <= MAX_RUN:
            raise UsageError(
                f"`max_whitespace` is {most}, expected 0 to {MAX_RUN:,}, or none for any number",
                field="max_whitespace",
            )
        if self.precompute < 0:
            raise UsageError(
                f"`precompute` is {self.precompute}, expected at least 0", field="precompute"
            )
        if self.indenter is not None:
            Indenter.parse(self.indenter)
            _require_lexing(self.lexer, self.format)
        if (self.conjoined or self.deny_regex) and self.format != "regex":
            raise UsageError(
                "`conjoined` and `deny_regex` narrow a regular expression, and this is a grammar",
                field="conjoined" if self.conjoined else "deny_regex",
            )
        for what, value, choices in (
            ("lexer", self.lexer, (None, *LEXERS)),
            ("format", self.format, _FORMATS),
        ):
            if value not in choices:
                known = ", ".join(filter(None, choices))
                raise UsageError(f"`{what}` is {value!r}, expected one of {known}", field=what)

    @property
    def kind(self) -> str:
        """Key in ``SOURCE_KINDS``: what reads grammars is loaded for grammars alone."""
        return "regex" if self.format == "regex" else self.source

    @classmethod
    def _restored(cls, values: dict[str, Any]) -> dict[str, Any]:
        folder = values["allow_imports"]
        return values | {
            "allow_imports": None if folder is None else Path(folder),
            "conjoined": tuple(values["conjoined"]),
            "deny_regex": tuple(values["deny_regex"]),
            "set_digests": tuple(map(tuple, values["set_digests"])),
        }

    def for_text(self, text: str) -> GrammarOptions:
        """Return the options with the dialect told by the head of the first rule."""
        if self.format != "auto":
            return self
        is_ebnf = _EBNF_HEAD.match(text.removeprefix("\ufeff")) is not None
        return dataclasses.replace(self, format="ebnf" if is_ebnf else "lark")


def _require_lexing(lexer: Lexer | None, dialect: SourceFormat) -> None:
    """Refuse an indenter where there is no lexer whose tokens it could read."""
    if lexer == "dynamic" or dialect in ("ebnf", "gbnf", "regex"):
        where = "`lexer` dynamic" if lexer == "dynamic" else f"`format` {dialect}"
        raise UsageError(
            f"`indenter` reads what a lexer cut, and {where} has none",
            hint="it goes with `lexer` contextual and basic, in Lark's dialect",
            field="indenter",
        )


def regex_options(
    conjoined: Sequence[Pattern] = (),
    deny_regex: Sequence[Pattern] = (),
    *,
    limits: GrammarLimits | None = None,
    name: str = UNNAMED,
    precompute: int = PRECOMPUTE,
) -> GrammarOptions:
    """Return the options with which a regular expression is compiled as a grammar."""
    return GrammarOptions(
        format="regex",
        limits=limits or GrammarLimits(),
        name=name,
        precompute=precompute,
        conjoined=tuple(map(pattern_text, conjoined)),
        deny_regex=tuple(map(pattern_text, deny_regex)),
    )


def pattern_text(pattern: Pattern) -> str:
    """Return the text of a pattern, with the flags that it was compiled with in front."""
    if isinstance(pattern, str):
        return pattern
    flags = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


_FLAGS = {"a": re.A, "i": re.I, "m": re.M, "s": re.S, "x": re.X}
"""Flags by their letter inside a pattern; Unicode is what strings have anyway."""
