"""What a grammar is compiled with, checked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from cdec.compilers.grammars.definition import LEXERS, GrammarLimits, Lexer
from cdec.core.errors import UsageError
from cdec.core.grammars.blanks import MAX_RUN

Dialect: TypeAlias = Literal["auto", "lark", "ebnf", "gbnf"]

MAX_WHITESPACE = 8
"""Longest run of ignored blanks unless another is asked for."""
PRECOMPUTE = 50_000
"""Steps of the automaton of masks that are made when compiling unless another number is asked."""
UNNAMED = "<grammar>"
"""Name of a source that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarOptions:
    """What a grammar is compiled with.

    Attributes:
        start: Name of the start rule; None: what the dialect says.
        lexer: None: ``contextual`` where LALR(1) tables lose no text, else ``dynamic``, with a
            notice.
        format: ``lark``, ``ebnf`` or ``gbnf`` (read alike); ``auto`` is ``lark``.
        limits: What compiling may cost.
        allow_imports: Folder from which Lark files may be imported, besides lark's own.
        name: Name of the source, recorded and shown, never opened.
        made_from: What the artifact records of its making; empty for nothing.
        max_whitespace: Longest run of ignored blanks, as ``cdec.core.grammars.blanks`` counts; None
            for any.
        precompute: Steps of the automaton of masks that are made when compiling; the others are
            made while decoding.

    Raises:
        UsageError: A lexer or dialect that does not exist, or a run out of bounds.
    """

    start: str | None = None
    lexer: Lexer | None = None
    format: Dialect = "auto"
    limits: GrammarLimits = field(default_factory=GrammarLimits)
    allow_imports: Path | None = None
    name: str = UNNAMED
    made_from: str = ""
    max_whitespace: int | None = MAX_WHITESPACE
    precompute: int = PRECOMPUTE

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
        for what, value, choices in (
            ("lexer", self.lexer, (None, *LEXERS)),
            ("format", self.format, get_args(Dialect)),
        ):
            if value not in choices:
                known = ", ".join(filter(None, choices))
                raise UsageError(f"`{what}` is {value!r}, expected one of {known}", field=what)

    def to_json(self) -> dict[str, Any]:
        """Return the options as one JSON-ready object."""
        folder = None if self.allow_imports is None else str(self.allow_imports)
        return {
            "start": self.start,
            "lexer": self.lexer,
            "format": self.format,
            "limits": dataclasses.asdict(self.limits),
            "allow_imports": folder,
            "name": self.name,
            "made_from": self.made_from,
            "max_whitespace": self.max_whitespace,
            "precompute": self.precompute,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> GrammarOptions:
        """Return the options that ``to_json`` wrote."""
        folder = values["allow_imports"]
        changed = {
            "limits": GrammarLimits(**values["limits"]),
            "allow_imports": None if folder is None else Path(folder),
        }
        return cls(**(values | changed))
