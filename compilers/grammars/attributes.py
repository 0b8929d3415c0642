"""Attributes of definitions: ``name[max_tokens=8]: ...``, as in llguidance, and with ``::=``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cdec.compilers.grammars.analysis import closed_nonterminals
from cdec.compilers.grammars.decoding import decode_source
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Rule
from cdec.compilers.grammars.parser.tables import ParseTables, rows_of
from cdec.compilers.grammars.special import placed
from cdec.core.grammars.budgets import ATTRIBUTES_KEY, RULES_KEY, STATES_KEY
from cdec.core.grammars.errors import GrammarError, GrammarSyntaxError, GrammarUnsupportedError
from cdec.core.token_budgets import BUDGETS_KEY

_PIECE = re.compile(
    r"""
      (?P<skip> //[^\n]* | \#[^\n]* | "(?:[^"\\\n]|\\[^\n])*"
        | /(?!/)(?:[^/\\]|\\[\s\S])*/[imslux]* )
    | ^[ \t]*[?!]*(?P<name>_?[A-Za-z]\w*)[ \t]*(?:\{[^}\n]*\})?(?:\.-?\d+)?[ \t]*
      (?P<said>\[[^\]\n]*\])[ \t]*(?:\.-?\d+)?[ \t]*:
    """,
    re.VERBOSE | re.MULTILINE,
)
_EBNF_PIECE = re.compile(
    r"""
      (?P<skip> \#[^\n]* | "(?:[^"\\\n]|\\[^\n])*" | '(?:[^'\\\n]|\\[^\n])*')
    | ^[ \t]*(?P<name>[A-Za-z_][\w-]*)[ \t]*(?P<said>\[[^\]\n]*\])[ \t]*::=
    | (?P<class> \[(?:[^\]\\\n]|\\[^\n])*\])
    """,
    re.VERBOSE | re.MULTILINE,
)
_MOST_TOKENS = 1 << 30
"""More than any text has."""


class Held(NamedTuple):
    """How many tokens a definition may have, and where that is written.

    Attributes:
        most: Tokens. text: The grammar. at: Place in it.
    """

    most: int
    text: str
    at: int

    def unsupported(self, message: str, hint: str) -> GrammarError:
        """Return an error with its line and column."""
        return placed(GrammarUnsupportedError(message, hint=hint), self.text, self.at)


def without_attributes(
    source: str | bytes, limits: GrammarLimits, *, is_ebnf: bool = False
) -> tuple[str | bytes, Mapping[str, Held]]:
    """Return a grammar without attributes, every place as it was, and what they say, by name.

    Raises:
        GrammarSyntaxError: An attribute without a number of at least 1.
        GrammarUnsupportedError: Another attribute.
        EncodingError, LimitError: As for every grammar.
    """
    text = decode_source(source, limits)
    found: dict[str, Held] = {}
    pieces, done = list[str](), 0
    for piece in (_EBNF_PIECE if is_ebnf else _PIECE).finditer(text):
        if piece["said"] is None:
            continue
        at, end = piece.span("said")
        for attribute in text[at + 1 : end - 1].split(","):
            name, _, value = map(str.strip, attribute.partition("="))
            most = _number(piece["name"], name, value, text, at)
            found[piece["name"]] = Held(most, text, at)
        pieces += [text[done:at], " " * (end - at)]
        done = end
    return ("".join([*pieces, text[done:]]) if found else source), found


def _number(owner: str, name: str, value: str, text: str, at: int) -> int:
    if name != "max_tokens":
        raise placed(
            GrammarUnsupportedError(
                f"{owner} has the attribute {name!r}, and there is none but max_tokens",
                hint=f"write {owner}[max_tokens=8], or leave the brackets out",
            ),
            text,
            at,
        )
    if not value.isascii() or not value.isdigit() or int(value[:20]) < 1:
        raise placed(
            GrammarSyntaxError(
                f"max_tokens of {owner} is {value or 'nothing'}, expected a number of at least 1",
                hint=f"write {owner}[max_tokens=8]",
            ),
            text,
            at,
        )
    return min(int(value[:20]), _MOST_TOKENS)


def with_budgets(grammar: Grammar, held: Mapping[str, Held]) -> Grammar:
    """Return a grammar whose terminals may have so many tokens.

    The number of a rule whose body is terminals of its own is theirs: so no lexer is in its way.

    Raises:
        GrammarUnsupportedError: A name is that of no terminal, and no rule, that rules read; or of
            a rule beside an indenter or sets.
    """
    terminals, rules = list(grammar.terminals), dict[str, int]()
    for name, one in held.items():
        numbers = _terminals_of(grammar, name, one)
        if not numbers:
            rules[name] = one.most
        for number in numbers:
            before = terminals[number].max_tokens or one.most
            terminals[number] = replace(terminals[number], max_tokens=min(before, one.most))
    if not held:
        return grammar
    return replace(grammar, terminals=tuple(terminals), rule_tokens=tuple(rules.items()))


def _terminals_of(grammar: Grammar, name: str, held: Held) -> set[int]:
    """Return the terminals whose number a definition's is; none where tokens are a rule's own."""
    if grammar.dialect == "lark" and name.lstrip("_")[:1].isupper():
        found = {n for n, terminal in enumerate(grammar.terminals) if terminal.name == name}
        read = {symbol for rule in grammar.rules for symbol in rule.rhs} | grammar.ignored
        if not found & read:
            raise held.unsupported(
                f"no rule reads {name} as a terminal, so that its tokens are none",
                "give the number to the terminal that it is a part of, or leave it out",
            )
        return found
    numbers = {~n for n, nonterminal in enumerate(grammar.nonterminals) if nonterminal == name}
    bodies = {rule.rhs for rule in grammar.rules if ~rule.lhs in numbers}
    own = {body[0] for body in bodies if len(body) == 1 and body[0] >= 0}
    others = {s for rule in grammar.rules if ~rule.lhs not in numbers for s in rule.rhs}
    if not bodies:
        raise held.unsupported(
            f"no text has a part that is the rule {name}, so that its tokens are none",
            "leave the number out, or use the rule",
        )
    is_own = len(own) == len(bodies) and not own & (others | grammar.ignored)
    has_sets = any(terminal.is_set for terminal in grammar.terminals)
    if not is_own and (has_sets or grammar.indenter is not None):
        beside = "sets, whose members may have any length" if has_sets else "an indenter"
        raise held.unsupported(
            f"{name} is a rule of more than terminals of its own, whose tokens are not counted "
            f"beside {beside}",
            "give the number to terminals within it",
        )
    return own if is_own else set()


def budget_metadata(
    grammar: Grammar, tables: ParseTables, held: Mapping[str, Held]
) -> dict[str, str]:
    """Return what an artifact records of how many tokens terminals and rules may have.

    A source with what was imported is another text, in which these numbers do not stand.
    """
    terminals = [(n, t.max_tokens) for n, t in enumerate(grammar.terminals) if t.max_tokens]
    written = [
        (one.at, one.text[one.at : one.text.index("]", one.at) + 1]) for one in held.values()
    ]
    is_own = all(grammar.source[at : at + len(said)] == " " * len(said) for at, said in written)
    found: dict[str, Sequence[object]] = {BUDGETS_KEY: terminals}
    if is_own:
        found[ATTRIBUTES_KEY] = written
    if grammar.rule_tokens:
        own = [dict(grammar.rule_tokens).get(name) for name in tables.nonterminals]
        least, nullable = _least_tokens(tables.rules, own)
        found[RULES_KEY] = [
            (number, most)
            for number, rule in enumerate(tables.rules)
            if (most := own[rule.lhs]) is not None
        ]
        found[STATES_KEY] = _of_states(tables, least, nullable)
    return {key: json.dumps(pairs) for key, pairs in found.items() if pairs}


def _least_tokens(
    rules: Sequence[Rule], own: Sequence[int | None]
) -> tuple[dict[int, int], frozenset[int]]:
    """Return the least number of a rule that each nonterminal may begin; the nullable ones."""
    nullable = closed_nonterminals(rules, frozenset())
    least = {lhs: most for lhs, most in enumerate(own) if most is not None}
    is_over = False
    while not is_over:
        is_over = True
        for rule in rules:
            for symbol in rule.rhs if rule.lhs in least else ():
                if symbol < 0 and least[rule.lhs] < least.get(~symbol, _MOST_TOKENS):
                    least[~symbol], is_over = least[rule.lhs], False
                if symbol >= 0 or ~symbol not in nullable:
                    break
    return least, nullable


def _of_states(
    tables: ParseTables, least: Mapping[int, int], nullable: frozenset[int]
) -> list[tuple[int, int]]:
    """Return the states whose symbol may begin a rule with a number, and the least of these."""
    found = []
    for state, items in enumerate(
        rows_of(tables.item_offsets, tables.item_rules, tables.item_dots)
    ):
        numbers = [
            least[tables.rules[rule].lhs]
            for rule, dot in items
            if tables.rules[rule].lhs in least
            and all(s < 0 and ~s in nullable for s in tables.rules[rule].rhs[: dot - 1])
        ]
        if numbers:
            found.append((state, min(numbers)))
    return found
