"""Definitions of a grammar as Lark loads them: files that it imports, checks, uses of templates.

Lark's own checks walk a tree that many rules share once for every one of them, and recurse into it,
which can be endless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from lark import Tree
from lark.grammar import NonTerminal, Symbol
from lark.load_grammar import ApplyTemplates, nr_deepcopy_tree, stdlib_loader

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.lark.checks import SHIPPED, too_many_rules
from cdec.compilers.grammars.lark.outline import Outline, imports_of
from cdec.core.errors import LimitError
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

_MAX_LOADS = 200
"""Times that one file may be imported: more is a circle."""
RuleDefinition: TypeAlias = tuple[str, tuple[str, ...], Any, Any]
"""Name, parameters, Lark's tree and ``RuleOptions``."""
_MAX_NAME = 10_000
"""Characters of a use's name: arguments within arguments that grow without end pass it."""


class ImportLoader:
    """Reader of imported files for Lark, which never looks anywhere else.

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
        is_own = name in outline.declared
        if definition.tree is None and is_own and name not in builder._ignore_names:
            continue
        if definition.tree is None and is_own:
            raise GrammarUnsupportedError(
                f"{name} is declared, and so a set: its members cannot be ignored between others",
                hint="define it, or leave %ignore out",
                name=str(name),
            )
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
            return outline.error(kind, statement.name.position, message, hint, name=name)
    return kind(message, hint=hint, name=name)


def _check_imported(definitions: Mapping[str, Any], outline: Outline) -> None:
    for path, pairs in imports_of(outline):
        for name, alias in pairs:
            if alias not in definitions:
                position = path[0].position
                source = "".join(token.text for token in path if token.text != name).rstrip(".")
                raise outline.error(
                    GrammarImportError,
                    position,
                    f"{source} has no {name} to import",
                    "names of terminals are upper case, of rules lower case",
                    name=name,
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


class LimitedTemplates(ApplyTemplates):
    """Replaces template uses by nonterminals and appends their rules to ``rule_defs``.

    As Lark's own pass, but a use that makes another use with larger arguments ends at a limit, and
    a template is found by its name without a search.

    Args:
        rule_defs: Lark's rules; grows.
        limits: ``max_rules`` bounds the number of rules, ``max_nesting`` the arguments.
    """

    def __init__(self, rule_defs: list[Any], limits: GrammarLimits) -> None:
        super().__init__(rule_defs)
        self.limits = limits
        self.templates = {name: (params, tree, opts) for name, params, tree, opts in rule_defs}

    def template_usage(self, children: list[Any]) -> Any:
        """Return the nonterminal of one use."""
        name, args = children[0].name, children[1:]
        used = f"{name}{{{','.join(argument.name for argument in args)}}}"
        if used not in self.created_templates:
            self._check(used)
            self.created_templates.add(used)
            params, tree, options = self.templates[name]
            body = nr_deepcopy_tree(tree)
            self.replacer.names = dict(zip(params, args, strict=True))
            self.replacer.transform(body)
            self.rule_defs.append((used, [], body, options))
        return NonTerminal(used)

    def _check(self, used: str) -> None:
        if len(self.rule_defs) >= self.limits.max_rules:
            raise too_many_rules(len(self.rule_defs) + 1, self.limits)
        if len(used) > _MAX_NAME:
            raise LimitError(
                f"the arguments of template {used.partition('{')[0]} nest without end",
                hint="a template must not use itself with larger arguments",
                limit="max_nesting",
            )
