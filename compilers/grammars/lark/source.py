"""Grammars in Lark's dialect, read as Lark itself would load them.

Lark parses the text, resolves imports, terminals and templates; what it needs too long or too deep
a stack for (the expansion of rules, unused rules) is done in ``expansion`` and ``assemble``, with
the same result. Before that the outline of the text is checked, so that errors have line and
column.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lark.exceptions import LarkError, VisitError
from lark.load_grammar import GrammarBuilder

from cdec.compilers.grammars.decoding import decode_source
from cdec.compilers.grammars.definition import Grammar, GrammarLimits
from cdec.compilers.grammars.lark.assemble import assemble
from cdec.compilers.grammars.lark.checks import (
    check_imports,
    check_limits,
    check_literals,
    check_names,
)
from cdec.compilers.grammars.lark.loading import ImportLoader, loaded_definitions
from cdec.compilers.grammars.lark.outline import Outline, read_outline, translate
from cdec.compilers.grammars.lark.terminals import MixedListError, WordList, find_word_lists
from cdec.core.errors import CdecError, LimitError
from cdec.core.grammars.errors import GrammarError, GrammarSyntaxError
from cdec.core.grammars.indenter import Indenter


def read_lark(
    text: str,
    *,
    start: str | None = None,
    limits: GrammarLimits = GrammarLimits(),
    allow_imports: Path | None = None,
    indenter: Indenter | None = None,
) -> Grammar:
    """Read a grammar in Lark's dialect.

    Args:
        text: The grammar, line ends as line feeds.
        start: The start rule; None is ``start``.
        allow_imports: Where ``%import`` may read files; None: only Lark's own grammars.
        indenter: Whose terminals the grammar may declare.

    Returns:
        Terminals and rules as ``lark.Lark`` has them. Cost: about 30 µs a token of the text.

    Raises:
        GrammarError: What is wrong, with line and column where they are known.
        LimitError: A limit is passed.
    """
    with warnings.catch_warnings():
        # A caller has no use for warnings of re or Lark about a pattern's style.
        warnings.simplefilter("ignore")
        declared = frozenset[str]() if indenter is None else indenter.declared
        outline = _checked_outline(text, limits, allow_imports, declared)
        if not outline.statements:
            raise GrammarSyntaxError(
                "line 1: no rule, so nothing to start from",
                hint="write start: ...",
                line=1,
                column=1,
            )
        # subtle: a bracket in a list of literals would lose its name, by which it is one.
        if allow_imports is None and indenter is None:
            listed = find_word_lists(outline)
            with contextlib.suppress(MixedListError):
                return _read(outline, listed, start or "start", limits, allow_imports, indenter)
        return _read(outline, (outline.text, {}), start or "start", limits, allow_imports, indenter)


def _read(
    outline: Outline,
    listed: tuple[str, Mapping[str, WordList]],
    start: str,
    limits: GrammarLimits,
    allow_imports: Path | None,
    indenter: Indenter | None,
) -> Grammar:
    """Read a grammar of a text in which names stand for lists of literals."""
    text, lists = listed
    loader = ImportLoader(allow_imports, limits, _importer(limits, allow_imports, outline))
    try:
        builder = _loaded(outline, text, loader, allow_imports)
        loaded = loaded_definitions(builder, outline, start, indenter)
        is_closed = not loader.loaded
        return assemble(loaded, outline, limits, lists, start=start, is_closed=is_closed)
    except VisitError as error:
        if isinstance(error.orig_exc, CdecError):
            raise error.orig_exc from None
        raise translate(error, outline) from None
    except LarkError as error:
        raise translate(error, outline) from None
    except RecursionError:
        raise LimitError(
            "the grammar nests deeper than Lark can follow",
            hint="give the inner parts of long expressions names of their own",
            limit="max_nesting",
        ) from None


def _loaded(outline: Outline, text: str, loader: ImportLoader, allow_imports: Path | None) -> Any:
    """Let Lark parse the grammar and resolve its imports."""
    builder = GrammarBuilder(False, [loader])
    # subtle: relative imports are resolved against the folder of this name; it is never opened.
    origin = "<string>" if allow_imports is None else str(allow_imports / "<grammar>")
    try:
        builder.load_grammar(text, origin)
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Lark trips over some mistakes, or over describing them; what it tripped over is chained.
        raise translate(error, outline) from None
    return builder


def _checked_outline(
    text: str,
    limits: GrammarLimits,
    allow_imports: Path | None,
    declared: frozenset[str] = frozenset(),
) -> Outline:
    outline = read_outline(text)
    check_imports(outline, allow_imports)
    check_limits(outline, limits)
    check_literals(outline, limits)
    if outline.is_well_formed:
        check_names(outline, declared)
    return outline


def _importer(limits: GrammarLimits, allow_imports: Path | None, importing: Outline) -> Any:
    """Return the check of an imported file: the same as of the grammar that is ``importing``."""

    def check(data: bytes, path: str) -> str:
        try:
            text = decode_source(data, limits)
            outline = _checked_outline(text, limits, allow_imports)
        except GrammarError as error:
            error.details.setdefault("path", path)
            raise
        for piece, alone in outline.broken.items():
            alone.details["path"] = path
            importing.broken[f"{path}\n{piece}"] = alone
        return text

    return check
