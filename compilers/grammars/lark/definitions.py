"""Checks of the rules and terminals that Lark loaded, in place of Lark's own, which can be endless.

Lark walks a tree that many rules share once for every one of them, and recurses into it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lark import Tree
from lark.grammar import Symbol

from cdec.compilers.grammars.lark.imports import imports_of
from cdec.compilers.grammars.lark.scan import Outline
from cdec.core.grammars.errors import (
    GrammarDuplicateError,
    GrammarError,
    GrammarImportError,
    GrammarStartError,
    GrammarSyntaxError,
    GrammarUndefinedError,
    GrammarUnsupportedError,
)
from cdec.core.grammars.indenter import Indenter

RuleDefinition: TypeAlias = tuple[str, tuple[str, ...], Any, Any]
"""Name, parameters, Lark's tree and ``RuleOptions``."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Definitions of a grammar and of all that it imports.

    Attributes:
        rules: In Lark's order; those with parameters are templates.
        terminals: Names, Lark's trees and priorities.
        ignored: Names of terminals.
        indenter: Whose terminals were declared.
    """

    rules: list[RuleDefinition]
    terminals: list[tuple[str, tuple[Any, int]]]
    ignored: frozenset[str]
    indenter: Indenter | None


def loaded_definitions(
    builder: Any, outline: Outline, start: str, indenter: Indenter | None
) -> Loaded:
    """Check the definitions of Lark's builder and return them.

    Args:
        builder: ``lark.load_grammar.GrammarBuilder`` that has loaded the grammar.
        outline: The grammar.
        start: The start rule.
        indenter: Its terminals have no text, and its line breaks must be defined.

    Returns:
        The definitions. Cost: linear.

    Raises:
        GrammarImportError: An imported name that is not there.
        GrammarUnsupportedError: A declared terminal in an imported file.
        GrammarUndefinedError: A name that is not defined.
        GrammarDuplicateError: Two parameters of one name, or one named as a rule.
        GrammarSyntaxError: A template with too many or too few arguments.
        GrammarStartError: No start rule.
    """
    definitions = builder._definitions
    _check_imported(definitions, outline)
    if indenter is not None:
        _check_lines(indenter, definitions, builder._ignore_names)
    for name, definition in definitions.items():
        if definition.tree is None and indenter is not None and name in indenter.declared:
            continue
        if definition.tree is None:
            raise GrammarUnsupportedError(
                f"an imported file declares {name}, which has no text",
                hint="define it there",
                name=str(name),
            )
        if not definition.is_term:
            _check_parameters(str(name), definition, definitions, outline)
            _check_rule(str(name), definition, definitions, outline)
    rules = [
        (str(name), d.params, d.tree, d.options) for name, d in definitions.items() if not d.is_term
    ]
    _check_start(start, rules, outline)
    return Loaded(
        rules=rules,
        terminals=[
            (str(n), (d.tree, d.options))
            for n, d in definitions.items()
            if d.is_term and d.tree is not None
        ],
        ignored=frozenset(map(str, builder._ignore_names)),
        indenter=indenter,
    )


def _check_lines(
    indenter: Indenter, definitions: Mapping[str, Any], ignored: Collection[str]
) -> None:
    """Refuse a grammar whose line breaks the indenter would never see."""
    name = indenter.NL_type
    definition = definitions.get(name)
    if definition is not None and definition.tree is not None and name not in ignored:
        return
    what = "ignores it" if name in ignored else "does not define it"
    raise GrammarUndefinedError(
        f"the indenter reads lines by terminal {name}, and the grammar {what}",
        hint=f"{name}: /(\\r?\\n[\\t ]*)+/, or `indenter` NL_type=... with the name that it has",
        name=name,
    )


def at_rule(
    kind: type[GrammarError], message: str, hint: str, name: str, outline: Outline
) -> GrammarError:
    """Return an error at the definition of a rule; without a place where it was imported."""
    plain = name.partition("{")[0]
    for statement in outline.definitions():
        if statement.name is not None and statement.name.text == plain:
            position = statement.name.position
            place = outline.place(position)
            return kind(f"{outline.where(position)}: {message}", hint=hint, name=name, **place)
    return kind(message, hint=hint, name=name)


def _check_imported(definitions: Mapping[str, Any], outline: Outline) -> None:
    for path, pairs in imports_of(outline):
        for name, alias in pairs:
            if alias not in definitions:
                position = path[0].position
                source = "".join(token.text for token in path if token.text != name).rstrip(".")
                raise GrammarImportError(
                    f"{outline.where(position)}: {source} has no {name} to import",
                    hint="names of terminals are upper case, of rules lower case",
                    name=name,
                    **outline.place(position),
                )


def _check_parameters(
    name: str, definition: Any, definitions: Mapping[str, Any], outline: Outline
) -> None:
    for i, parameter in enumerate(definition.params):
        if parameter in definitions or parameter in definition.params[:i]:
            raise at_rule(
                GrammarDuplicateError,
                f"parameter {parameter} of template {name} has the name of something else",
                "rename it",
                name,
                outline,
            )


def _check_rule(
    name: str, definition: Any, definitions: Mapping[str, Any], outline: Outline
) -> None:
    for tree in definition.tree.iter_subtrees():
        symbols: Sequence[Any] = [c for c in tree.children if isinstance(c, Symbol)]
        used = symbols[:-1] if tree.data == "alias" else symbols
        for symbol in used:
            if symbol.name not in definitions and symbol.name not in definition.params:
                raise at_rule(
                    GrammarUndefinedError,
                    f"rule {name} uses {symbol.name}, which is not defined",
                    f"define it: {symbol.name}: ...",
                    name,
                    outline,
                )
        if tree.data == "template_usage" and symbols[0].name in definitions:
            wanted = len(definitions[symbols[0].name].params)
            given = sum(isinstance(child, Tree) for child in tree.children)
            if wanted != given:
                raise at_rule(
                    GrammarSyntaxError,
                    f"rule {name} gives template {symbols[0].name} {given} arguments, "
                    f"expected {wanted}",
                    "give as many as its definition has in braces",
                    name,
                    outline,
                )


def _check_start(start: str, rules: Sequence[RuleDefinition], outline: Outline) -> None:
    names = [name for name, parameters, _, _ in rules if not parameters]
    if start in names:
        return
    here = [s.name.text for s in outline.definitions() if s.name and s.name.text in names]
    other = next(iter(here or names), None)
    raise GrammarStartError(
        f"there is no rule {start} to start from",
        hint="define a rule, its name in lower case" if other is None else f"`start` {other}",
        name=start,
    )
