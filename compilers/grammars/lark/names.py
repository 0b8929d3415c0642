"""Checks of the names of a Lark grammar: defined once, defined at all, not merely declared."""

from __future__ import annotations

from difflib import get_close_matches

from cdec.compilers.grammars.lark.imports import imports_of
from cdec.compilers.grammars.lark.scan import Outline, Statement, Token, mixed_name
from cdec.core.grammars.errors import (
    EmptyTerminalError,
    GrammarDuplicateError,
    GrammarError,
    GrammarSyntaxError,
    GrammarUndefinedError,
    GrammarUnsupportedError,
)

_CHANGES = ("%override", "%extend")


def check_names(outline: Outline, declared: frozenset[str]) -> None:
    """Check definitions and uses of names.

    Args:
        outline: A well-formed grammar.
        declared: Terminals without a text that an indenter makes.

    Raises:
        GrammarDuplicateError: A second definition of a name.
        GrammarUndefinedError: A name that is used, overridden or extended and not defined.
        GrammarUnsupportedError: ``%declare`` of another.
        GrammarSyntaxError: A rule within a terminal, a name of small and capital letters.
        EmptyTerminalError: A terminal without a body.
    """
    for statement in outline.statements:
        if statement.directive == "%declare":
            for token in statement.body:
                if token.text not in declared:
                    raise _declared(outline, token)
    defined = _definitions(outline)
    for statement in outline.statements:
        if statement.directive != "%import":
            _check_uses(outline, statement, defined)


def _definitions(outline: Outline) -> dict[str, int]:
    """Return every defined name with its place."""
    defined = {
        alias: path[-1].position for path, aliases in imports_of(outline) for _, alias in aliases
    }
    for statement in outline.statements:
        if statement.directive == "%declare":
            defined |= {token.text: token.position for token in statement.body}
    for statement in outline.definitions():
        name = statement.name
        assert name is not None
        if statement.directive in _CHANGES:
            if name.text not in defined:
                raise _undefined(outline, name, defined)
        elif name.text in defined:
            first = outline.place(defined[name.text])["line"]
            raise GrammarDuplicateError(
                f"{outline.where(name.position)}: {_kind(name)} {name.text} is defined twice, "
                f"first on line {first}",
                hint="remove one, or join them with |; %override changes an imported one",
                name=name.text,
                **outline.place(name.position),
            )
        else:
            defined[name.text] = name.position
    return defined


def _check_uses(outline: Outline, statement: Statement, defined: dict[str, int]) -> None:
    if statement.is_terminal and statement.name is not None and not statement.body:
        raise EmptyTerminalError(
            f"{outline.where(statement.name.position)}: terminal {statement.name.text} matches "
            "only the empty text",
            hint="make it a rule, which may be empty",
            name=statement.name.text,
            **outline.place(statement.name.position),
        )
    previous = ""
    for token in statement.body:
        if token.text == "->" and statement.is_terminal:
            raise GrammarSyntaxError(
                f"{outline.where(token.position)}: an alias within a terminal",
                hint="leave it out: aliases belong to rules",
                **outline.place(token.position),
            )
        if token.kind in ("RULE", "TERMINAL") and previous != "->":
            if token.text not in defined and token.text not in statement.parameters:
                raise _undefined(outline, token, defined)
            if statement.is_terminal and token.kind == "RULE":
                raise _rule_in_terminal(outline, statement, token)
        previous = token.text


def _kind(token: Token) -> str:
    return "terminal" if token.kind == "TERMINAL" else "rule"


def _undefined(outline: Outline, token: Token, defined: dict[str, int]) -> GrammarError:
    if (mixed := mixed_name(outline, token.position)) is not None:
        return mixed
    close = get_close_matches(token.text, list(defined)[:10_000], 1)
    hint = f"did you mean {close[0]}?" if close else f"define it: {token.text}: ..."
    return GrammarUndefinedError(
        f"{outline.where(token.position)}: {_kind(token)} {token.text} is used and not defined",
        hint=hint,
        name=token.text,
        **outline.place(token.position),
    )


def _declared(outline: Outline, token: Token) -> GrammarUnsupportedError:
    return GrammarUnsupportedError(
        f"{outline.where(token.position)}: %declare {token.text}: a declared terminal has no text, "
        "so no token sequence spells it",
        hint=f"define it: {token.text}: ...; where it marks blocks by their indentation, "
        "`indenter` python, or with its names: INDENT_type=...,DEDENT_type=...,NL_type=...",
        name=token.text,
        **outline.place(token.position),
    )


def _rule_in_terminal(outline: Outline, statement: Statement, token: Token) -> GrammarSyntaxError:
    assert statement.name is not None
    return GrammarSyntaxError(
        f"{outline.where(token.position)}: rule {token.text} within terminal {statement.name.text}",
        hint="terminals are built of literals and terminals only",
        name=token.text,
        **outline.place(token.position),
    )
