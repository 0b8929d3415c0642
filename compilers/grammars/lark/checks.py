"""Checks of a grammar's outline before Lark sees it: limits, imports, literals, names.

Lark would spend unbounded time, memory or recursion on what is refused here, or say nothing of
where it stands.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

from cdec.compilers.grammars.automata.pattern_checks import check_depth, examine
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.lark.outline import (
    Outline,
    Statement,
    Token,
    imports_of,
    mixed_name,
    read_literal,
    too_deep,
    too_many,
)
from cdec.compilers.grammars.lark.terminals import long_runs
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import (
    EmptyTerminalError,
    GrammarDuplicateError,
    GrammarError,
    GrammarImportError,
    GrammarSyntaxError,
    GrammarUndefinedError,
    GrammarUnsupportedError,
    RegexSyntaxError,
    TerminalRecursionError,
)

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
SHIPPED = ("common", "lark", "python", "unicode")
"""Grammars that come with Lark."""
_EXPANDED_BYTES = 4
"""Terminals may expand to so many times ``max_grammar_bytes`` characters of regular expressions."""
_CHANGES = ("%override", "%extend")


def check_limits(outline: Outline, limits: GrammarLimits) -> None:
    """Check what Lark would otherwise spend unbounded time, memory or recursion on.

    Raises:
        LimitError: ``max_nesting``, ``max_repeat``, ``max_rules`` or ``max_grammar_bytes`` is
            passed; the last one where terminals within terminals multiply out.
        GrammarSyntaxError: A repetition with swapped or negative bounds.
        TerminalRecursionError: A terminal within itself.
    """
    _check_nesting(outline, limits)
    _check_counts(outline, limits)
    _check_rules(outline, limits)
    _check_terminals(outline, limits)


def _check_nesting(outline: Outline, limits: GrammarLimits) -> None:
    for statement in outline.statements:
        depth = 0
        for token in statement.body:
            if token.text in _OPEN:
                depth += 1
                if depth > limits.max_nesting:
                    raise outline.error(
                        LimitError,
                        token.position,
                        f"brackets nest deeper than {limits.max_nesting}",
                        "give the inner parts names of their own, or raise `max_nesting`",
                        limit="max_nesting",
                    )
            elif token.text in _CLOSE:
                depth -= 1


def _check_counts(outline: Outline, limits: GrammarLimits) -> None:
    tokens = outline.tokens
    for i, token in enumerate(tokens):
        if token.text != "~" or i + 1 >= len(tokens) or tokens[i + 1].kind != "NUMBER":
            continue
        # subtle: int() of very many digits is refused, so long numbers are cut first.
        counts = [int(tokens[i + 1].text[:20])]
        if i + 3 < len(tokens) and tokens[i + 2].text == ".." and tokens[i + 3].kind == "NUMBER":
            counts.append(int(tokens[i + 3].text[:20]))
        if counts[0] < 0 or counts[-1] < counts[0]:
            raise outline.error(
                GrammarSyntaxError,
                token.position,
                f"cannot repeat from {counts[0]} to {counts[-1]} times",
                "write ~n, or ~n..m with n no more than m",
            )
        if counts[-1] > limits.max_repeat:
            raise outline.error(
                LimitError,
                token.position,
                f"{counts[-1]:,} repetitions, the limit is {limits.max_repeat:,}",
                "raise `max_repeat`, or repeat without a bound",
                limit="max_repeat",
            )


def _check_rules(outline: Outline, limits: GrammarLimits) -> None:
    rules = [s for s in outline.definitions() if not s.is_terminal]
    alternatives = sum(token.text == "|" for rule in rules for token in rule.body) + len(rules)
    alternatives -= sum(len(run) for _, run in long_runs(outline))
    if alternatives > limits.max_rules:
        raise too_many_rules(alternatives, limits)


def too_many_rules(count: int, limits: GrammarLimits, where: str = "the grammar") -> LimitError:
    """Return the error of a grammar with more alternatives than the limit."""
    return LimitError(
        f"{where} has at least {count:,} alternatives, the limit is {limits.max_rules:,}",
        hint="write alternatives of literals as one terminal, give groups that multiply out names "
        "of their own, or raise `max_rules`",
        limit="max_rules",
    )


def _check_terminals(outline: Outline, limits: GrammarLimits) -> None:
    """Find recursion, depth and expanded size of terminals within terminals, without recursion."""
    terminals: dict[str, list[Statement]] = {}
    for statement in outline.definitions():
        if statement.is_terminal and statement.name is not None:
            terminals.setdefault(statement.name.text, []).append(statement)
    sizes: dict[str, tuple[int, int]] = {}
    for name in terminals:
        _measure(outline, name, terminals, sizes, limits)
    if sum(size for size, _ in sizes.values()) > _EXPANDED_BYTES * limits.max_grammar_bytes:
        raise LimitError(
            "terminals within terminals multiply out to more than "
            f"{_EXPANDED_BYTES * limits.max_grammar_bytes:,} characters",
            hint="make rules of the outer terminals, or raise `max_grammar_bytes`",
            limit="max_grammar_bytes",
        )


def _measure(
    outline: Outline,
    first: str,
    terminals: dict[str, list[Statement]],
    sizes: dict[str, tuple[int, int]],
    limits: GrammarLimits,
) -> None:
    """Set ``sizes[first]`` and of all it needs: (characters when expanded, levels)."""
    if first in sizes:
        return
    path, under_way = [first], {first}
    used = {first: _terminals_used(terminals[first], terminals)}
    pending = {first: list(used[first])}
    while path:
        name = path[-1]
        while pending[name] and pending[name][-1] in sizes:
            pending[name].pop()
        if pending[name]:
            inner = pending[name][-1]
            if inner in under_way:
                raise _recursion(outline, terminals[inner][0], path[path.index(inner) :])
            used[inner] = _terminals_used(terminals[inner], terminals)
            pending[inner] = list(used[inner])
            path.append(inner)
            under_way.add(inner)
            continue
        parts = [sizes[inner] for inner in used[name]]
        own = sum(len(token.text) for statement in terminals[name] for token in statement.body)
        levels = 1 + max((level for _, level in parts), default=0)
        if levels > limits.max_nesting:
            raise _too_many_levels(outline, terminals[name][0], limits)
        sizes[name] = own + sum(size for size, _ in parts), levels
        under_way.discard(path.pop())


def _terminals_used(
    statements: list[Statement], terminals: dict[str, list[Statement]]
) -> list[str]:
    tokens = [token for statement in statements for token in statement.body]
    return [t.text for t in tokens if t.kind == "TERMINAL" and t.text in terminals]


def _recursion(outline: Outline, statement: Statement, cycle: list[str]) -> TerminalRecursionError:
    assert statement.name is not None
    position = statement.name.position
    steps = ", ".join(f"{a} uses {b}" for a, b in pairwise([*cycle, cycle[0]]))
    return outline.error(
        TerminalRecursionError,
        position,
        f"terminal {statement.name.text} is defined by itself ({steps})",
        "recursion is for rules: write the name in lower case",
        name=statement.name.text,
    )


def _too_many_levels(outline: Outline, statement: Statement, limits: GrammarLimits) -> LimitError:
    assert statement.name is not None
    position = statement.name.position
    return outline.error(
        LimitError,
        position,
        f"terminal {statement.name.text} is built of terminals more "
        f"than {limits.max_nesting} levels deep",
        "make rules of the outer terminals, or raise `max_nesting`",
        limit="max_nesting",
    )


def check_imports(outline: Outline, allow_imports: Path | None) -> None:
    """Check that every import is of something that may be read; no file is opened.

    Args:
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
        raise outline.error(
            GrammarImportError,
            position,
            f"may not import {text}",
            f"only {allowed}; `allow_imports` DIR adds the files of a folder"
            if allow_imports is None
            else "imported files must lie in the folder of `allow_imports`",
        )


def check_literals(outline: Outline, limits: GrammarLimits) -> None:
    """Check every literal of a grammar.

    A regular expression within the definition of a terminal may be a piece of one, which only
    makes sense with its neighbours: ``/(?!/ RESERVED /)/ NAME``. Whether all of it is one is seen
    where the terminal is read; until then it is noted in ``outline.broken``.

    Args:
        limits: ``max_nesting`` and ``max_repeat`` hold within regular expressions.

    Raises:
        EmptyTerminalError: The empty string.
        GrammarSyntaxError: A string that cannot be read, a bad range.
        RegexSyntaxError: A regular expression of a rule that ``re`` refuses.
        LimitError: A limit is passed.
    """
    seen: set[tuple[str, bool]] = set()
    for statement in outline.statements:
        body = statement.body
        is_terminal = statement.is_terminal or statement.directive == "%ignore"
        for i, token in enumerate(body):
            if token.kind == "STRING" and i + 1 < len(body) and body[i + 1].text == "..":
                _check_range(outline, body[i : i + 3])
            if token.kind not in ("STRING", "REGEXP") or (token.text, is_terminal) in seen:
                continue
            seen.add((token.text, is_terminal))
            if token.kind == "STRING":
                _check_string(outline, token)
            else:
                _check_regex(outline, token, limits, is_piece=is_terminal)


def _check_string(outline: Outline, token: Token) -> None:
    if token.text in ('""', '""i'):
        raise outline.error(
            EmptyTerminalError,
            token.position,
            "an empty literal matches no text",
            "leave it out, or write an empty alternative",
        )
    if "\\" not in token.text and token.text.isascii():
        return
    try:
        read_literal(token)
    except ValueError as error:
        raise outline.error(
            GrammarSyntaxError, token.position, str(error), "escapes are those of Python strings"
        ) from None


def _check_range(outline: Outline, tokens: Any) -> None:
    values = []
    for token in (tokens[0], *tokens[2:]):
        if token.kind != "STRING" or token.text.endswith("i"):
            break
        _check_string(outline, token)
        values.append(read_literal(token).value)
    if len(values) != 2 or any(len(value) != 1 for value in values) or values[0] > values[1]:
        raise outline.error(
            GrammarSyntaxError,
            tokens[0].position,
            "a range goes from one character to a later one",
            'write "a".."z"',
        )


def _check_regex(outline: Outline, token: Token, limits: GrammarLimits, *, is_piece: bool) -> None:
    place, where = outline.place(token.position), outline.where(token.position)
    if not check_depth(token.text, limits):
        raise too_deep(where, limits, place)
    try:
        # subtle: in a group, as the lexer has it: there "(?i)" may not stand any more.
        facts = examine(f"(?:{read_literal(token).to_regexp()})")
    except RecursionError:
        raise too_deep(where, limits, place) from None
    except OverflowError:
        raise too_many(where, limits, place) from None
    except re.error as error:
        alone = RegexSyntaxError(
            f"{where}: {token.text[:80]} is no regular expression: {error.msg}",
            hint="patterns are those of Python's re; flags come after the pattern: /abc/i",
            **place,
        )
        if not is_piece:
            raise alone from None
        outline.broken[token.text] = alone
        return
    except ValueError as error:
        raise RegexSyntaxError(
            f"{where}: {error}", **place, hint=r"write \n for a line feed"
        ) from None
    if facts.largest_count > limits.max_repeat:
        raise too_many(where, limits, place)


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
                # Without an indenter what is declared is a set, given where texts are read; but
                # names like _INDENT are those of indenters.
                is_set = not declared and not token.text.startswith("_")
                if not is_set and token.text not in declared:
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
            raise outline.error(
                GrammarDuplicateError,
                name.position,
                f"{_kind(name)} {name.text} is defined twice, first on line {first}",
                "remove one, or join them with |; %override changes an imported one",
                name=name.text,
            )
        else:
            defined[name.text] = name.position
    return defined


def _check_uses(outline: Outline, statement: Statement, defined: dict[str, int]) -> None:
    if statement.is_terminal and statement.name is not None and not statement.body:
        raise outline.error(
            EmptyTerminalError,
            statement.name.position,
            f"terminal {statement.name.text} matches only the empty text",
            "make it a rule, which may be empty",
            name=statement.name.text,
        )
    previous = ""
    for token in statement.body:
        if token.text == "->" and statement.is_terminal:
            raise outline.error(
                GrammarSyntaxError,
                token.position,
                "an alias within a terminal",
                "leave it out: aliases belong to rules",
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
    return outline.error(
        GrammarUndefinedError,
        token.position,
        f"{_kind(token)} {token.text} is used and not defined",
        hint,
        name=token.text,
    )


def _declared(outline: Outline, token: Token) -> GrammarUnsupportedError:
    return outline.error(
        GrammarUnsupportedError,
        token.position,
        f"%declare {token.text}: a declared terminal has no text, so no token sequence spells it",
        f"define it: {token.text}: ...; where it is a set, let its name begin with a letter, and "
        "leave `indenter` out; where it marks blocks by their indentation, "
        "`indenter` python, or with its names: INDENT_type=...,DEDENT_type=...,NL_type=...",
        name=token.text,
    )


def _rule_in_terminal(outline: Outline, statement: Statement, token: Token) -> GrammarSyntaxError:
    assert statement.name is not None
    return outline.error(
        GrammarSyntaxError,
        token.position,
        f"rule {token.text} within terminal {statement.name.text}",
        "terminals are built of literals and terminals only",
        name=token.text,
    )
