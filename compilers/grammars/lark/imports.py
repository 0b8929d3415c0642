"""Imports of a Lark grammar: Lark's own grammars, and files of one folder where that is allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lark.load_grammar import stdlib_loader

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.lark.scan import Outline, Token
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import GrammarImportError

SHIPPED = ("common", "lark", "python", "unicode")
"""Grammars that come with Lark."""
_MAX_LOADS = 200
"""Times that one file may be imported: more is a circle."""


def imports_of(outline: Outline) -> list[tuple[list[Token], list[tuple[str, str]]]]:
    """Return the ``%import`` statements: tokens of the path, and (name there, name here) pairs."""
    found = []
    for statement in outline.statements:
        if statement.directive != "%import" or not statement.body:
            continue
        path = list(statement.body)
        marks = [token.text for token in path]
        names = [t for t in path if t.kind in ("RULE", "TERMINAL")]
        if "(" in marks:
            inside = [t for t in path[marks.index("(") :] if t in names]
            found.append((path[: marks.index("(")], [(t.text, t.text) for t in inside]))
        elif names:
            cut = marks.index("->") if "->" in marks else len(path)
            before = [t for t in path[:cut] if t in names]
            pair = [(before[-1].text, names[-1].text)] if before else []
            found.append((path[:cut], pair))
    return found


def check_imports(outline: Outline, allow_imports: Path | None) -> None:
    """Check that every import is of something that may be read; no file is opened.

    Args:
        outline: The grammar.
        allow_imports: Folder of files that may be imported; None: only Lark's own grammars.

    Raises:
        GrammarImportError: An import of anything else.
    """
    for statement in outline.statements:
        if statement.directive != "%import":
            continue
        marks = [token.text for token in statement.body]
        text = "".join(marks[: marks.index("->")] if "->" in marks else marks)
        shipped = marks[:1] and marks[0] in SHIPPED and marks[1:2] in (["."], ["("])
        dots = len([mark for mark in marks if mark == "."])
        if shipped and ("(" in marks or dots == 1):
            continue
        if allow_imports is not None and ".." not in marks:
            continue
        position = statement.body[0].position if statement.body else outline.tokens[0].position
        allowed = ", ".join(f"{name}.NAME" for name in SHIPPED)
        raise GrammarImportError(
            f"{outline.where(position)}: may not import {text}",
            hint=f"only {allowed}; `allow_imports` DIR adds the files of a folder"
            if allow_imports is None
            else "imported files must lie in the folder of `allow_imports`",
            **outline.place(position),
        )


class ImportLoader:
    """What Lark asks for an imported file; it never looks anywhere else.

    Args:
        folder: Folder of files that may be imported, links resolved; None: none.
        limits: Limits, for every file.
        check: Called with every file's text and name before Lark reads it.

    Attributes:
        loaded: Times each file was read; Lark's own not counted.
    """

    def __init__(
        self, folder: Path | None, limits: GrammarLimits, check: Callable[[bytes, str], str]
    ) -> None:
        self.folder = None if folder is None else folder.resolve()
        self.limits = limits
        self.check = check
        self.loaded: Counter[str] = Counter()

    def __call__(self, base_path: Any, grammar_path: str) -> tuple[Any, str]:
        """Return a file's name and text, as ``lark.load_grammar`` wants it."""
        is_inside_lark = base_path is not None and not isinstance(base_path, str)
        if is_inside_lark or (base_path is None and grammar_path in self._shipped()):
            path, text = stdlib_loader(base_path, grammar_path)
            return path, text
        if self.folder is None:
            raise GrammarImportError(
                f"may not import {grammar_path}", hint="`allow_imports` DIR allows files of DIR"
            )
        folder = self.folder if base_path is None else Path(base_path)
        return self._read(folder / grammar_path, self.folder, grammar_path)

    @staticmethod
    def _shipped() -> Sequence[str]:
        return [f"{name}.lark" for name in SHIPPED]

    def _read(self, path: Path, folder: Path, grammar_path: str) -> tuple[str, str]:
        path = path.resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise GrammarImportError(
                f"there is no file {grammar_path} to import in {folder}",
                hint="links that lead out of the folder are not followed",
                path=grammar_path,
            )
        name = str(path)
        self.loaded[name] += 1
        if self.loaded[name] > _MAX_LOADS:
            raise GrammarImportError(
                f"{grammar_path} is imported more than {_MAX_LOADS} times",
                hint="do its imports go round in a circle?",
                path=grammar_path,
            )
        try:
            if path.stat().st_size > self.limits.max_grammar_bytes:
                raise LimitError(
                    f"{grammar_path} has {path.stat().st_size:,} bytes, the limit is "
                    f"{self.limits.max_grammar_bytes:,}",
                    hint="raise `max_grammar_bytes`",
                    limit="max_grammar_bytes",
                    path=grammar_path,
                )
            return name, self.check(path.read_bytes(), name)
        except OSError as error:
            raise GrammarImportError(
                f"cannot read {grammar_path}: {error.strerror}", path=grammar_path
            ) from None
