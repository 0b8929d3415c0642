"""Indenter: indentation as tokens, by the rules of lark's post-lexer of that name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from cdec.core.errors import UsageError

__all__ = ["MAX_COLUMNS", "Indenter"]

MAX_COLUMNS = 4000
_PYTHON = "python"


@dataclass(frozen=True, slots=True)
class Indenter:
    """Terminals of line breaks, brackets and blocks; the defaults are lark's PythonIndenter.

    Within brackets a line break is dropped. Elsewhere it is a token, and behind it comes, by the
    columns after its last line feed (a blank is one, a tab ``tab_len``): INDENT where there are
    more than in the block at hand, a DEDENT for every block that ends, nothing where they are
    equal; a number that no open block has is an error. At the end of the text every open block
    gets its DEDENT.

    Attributes:
        NL_type: Terminal of line breaks with the blanks behind them.
        OPEN_PAREN_types, CLOSE_PAREN_types: Terminals of brackets.
        INDENT_type, DEDENT_type: Terminals that the grammar declares (``%declare``).
        tab_len: Columns of a tab.
        columns: Most columns of an indented line; longer ones are in no text. lark has no bound.
    """

    NL_type: str = "_NEWLINE"
    OPEN_PAREN_types: tuple[str, ...] = ("LPAR", "LSQB", "LBRACE")
    CLOSE_PAREN_types: tuple[str, ...] = ("RPAR", "RSQB", "RBRACE")
    INDENT_type: str = "_INDENT"
    DEDENT_type: str = "_DEDENT"
    tab_len: int = 8
    columns: int = 100

    @classmethod
    def parse(cls, text: str) -> Indenter:
        """Read ``python``, or what differs from it: ``NL_type=_NL,OPEN_PAREN_types=,tab_len=4``.

        Lists are divided by blanks.

        Raises:
            UsageError: No such name, or no such number.
        """
        kinds = {field.name: field.type for field in fields(cls)}
        found: dict[str, Any] = {}
        for part in text.split(",") if text != _PYTHON else ():
            name, is_given, value = part.strip().partition("=")
            kind = str(kinds.get(name, ""))
            is_number = value.isascii() and value.isdigit() and 1 <= len(value) <= 4
            good = bool(is_given and kind) and (kind != "int" or is_number)
            if not good or (kind == "str" and not value.isidentifier()):
                raise UsageError(
                    f"`indenter` is {text!r}, expected {_PYTHON} or pairs such as NL_type=_NL; "
                    f"wrong is {part!r}",
                    hint=f"the names are {', '.join(kinds)}",
                    field="indenter",
                )
            found[name] = tuple(value.split()) if kind.startswith("tuple") else value
            if kind == "int":
                found[name] = int(value)
        made = cls(**found)
        if not 1 <= made.tab_len <= MAX_COLUMNS or not 0 <= made.columns <= MAX_COLUMNS:
            raise UsageError(
                f"`indenter` is {text!r}, expected tab_len of 1 to {MAX_COLUMNS}, columns of at "
                f"most {MAX_COLUMNS}",
                field="indenter",
            )
        return made

    @property
    def declared(self) -> frozenset[str]:
        """The terminals that a grammar may declare without a text."""
        return frozenset({self.INDENT_type, self.DEDENT_type})

    @property
    def names(self) -> frozenset[str]:
        """All terminals that matter to it."""
        brackets = {*self.OPEN_PAREN_types, *self.CLOSE_PAREN_types}
        return self.declared | brackets | {self.NL_type}

    def postlex(self) -> Any:
        """Return lark's own post-lexer of this kind, which also refuses too many columns."""
        from lark.exceptions import LarkError
        from lark.indenter import Indenter as LarkIndenter

        columns, tab = self.columns, self.tab_len

        def bounded(post: Any, token: Any) -> Iterator[Any]:
            behind = token.rsplit("\n", 1)[-1]
            if not post.paren_level and behind.count(" ") + tab * behind.count("\t") > columns:
                raise LarkError(f"more than {columns} columns")
            yield from LarkIndenter.handle_NL(post, token)

        own = {field.name: getattr(self, field.name) for field in fields(self)}
        made: Any = type("_PostLex", (LarkIndenter,), own | {"handle_NL": bounded})
        return made()
