"""Attributes of definitions in Lark's dialect: ``NAME[max_tokens=8]: ...``, as in llguidance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from cdec.compilers.grammars.decoding import decode_source
from cdec.compilers.grammars.definition import Grammar, GrammarLimits
from cdec.compilers.grammars.special import placed
from cdec.core.grammars.errors import GrammarError, GrammarSyntaxError, GrammarUnsupportedError

_PIECE = re.compile(
    r"""
      (?P<skip> //[^\n]* | \#[^\n]* | "(?:[^"\\\n]|\\[^\n])*"
        | /(?!/)(?:[^/\\]|\\[\s\S])*/[imslux]* )
    | ^[ \t]*[?!]*(?P<name>_?[A-Za-z]\w*)[ \t]*(?:\{[^}\n]*\})?(?:\.-?\d+)?[ \t]*
      (?P<said>\[[^\]\n]*\])[ \t]*(?:\.-?\d+)?[ \t]*:
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
    source: str | bytes, limits: GrammarLimits
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
    for piece in _PIECE.finditer(text):
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

    A rule's number is that of the terminals that are all of its body.

    Raises:
        GrammarUnsupportedError: A name is that of no terminal that rules read, or of a rule whose
            body is more than terminals of its own.
    """
    terminals = list(grammar.terminals)
    for name, one in held.items():
        for number in _terminals_of(grammar, name, one):
            before = terminals[number].max_tokens or one.most
            terminals[number] = replace(terminals[number], max_tokens=min(before, one.most))
    return replace(grammar, terminals=tuple(terminals)) if held else grammar


def _terminals_of(grammar: Grammar, name: str, held: Held) -> set[int]:
    if name.lstrip("_")[:1].isupper():
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
    if not bodies or len(own) < len(bodies) or own & (others | grammar.ignored):
        raise held.unsupported(
            f"the rule {name} is not one of terminals alone that no other rule reads, and tokens "
            "are counted of terminals",
            f"write it as a terminal, {name.upper()}[max_tokens={held.most}]: ..., or give the "
            "number to terminals within it",
        )
    return own
