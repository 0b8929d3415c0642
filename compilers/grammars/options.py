"""What a grammar is compiled with, checked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from cdec.compilers.grammars.definition import LEXERS, GrammarLimits, Lexer
from cdec.core.errors import UsageError

Dialect: TypeAlias = Literal["auto", "lark", "ebnf", "gbnf"]

UNNAMED = "<grammar>"
"""Name of a source that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarOptions:
    """What a grammar is compiled with.

    Attributes:
        start: Name of the start rule; None: what the dialect says.
        lexer: None: ``contextual`` where the grammar is LALR(1), else ``dynamic``, with a notice.
        dialect: ``lark``, ``ebnf`` or ``gbnf`` (read alike); ``auto`` is ``lark``.
        limits: What compiling may cost.
        import_folder: Folder from which Lark files may be imported, besides lark's own.
        name: Name of the source, recorded and shown, never opened.

    Raises:
        UsageError: A lexer or dialect that does not exist.
    """

    start: str | None = None
    lexer: Lexer | None = None
    dialect: Dialect = "auto"
    limits: GrammarLimits = field(default_factory=GrammarLimits)
    import_folder: Path | None = None
    name: str = UNNAMED

    def __post_init__(self) -> None:
        for what, value, choices in (
            ("lexer", self.lexer, (None, *LEXERS)),
            ("dialect", self.dialect, get_args(Dialect)),
        ):
            if value not in choices:
                known = ", ".join(filter(None, choices))
                raise UsageError(f"`{what}` is {value!r}, expected one of {known}", field=what)

    def to_json(self) -> dict[str, Any]:
        """Return the options as one JSON-ready object."""
        folder = None if self.import_folder is None else str(self.import_folder)
        return {
            "start": self.start,
            "lexer": self.lexer,
            "dialect": self.dialect,
            "limits": dataclasses.asdict(self.limits),
            "import_folder": folder,
            "name": self.name,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> GrammarOptions:
        """Return the options that ``to_json`` wrote."""
        folder = values["import_folder"]
        changed = {
            "limits": GrammarLimits(**values["limits"]),
            "import_folder": None if folder is None else Path(folder),
        }
        return cls(**(values | changed))
