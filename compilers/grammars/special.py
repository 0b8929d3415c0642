"""Special tokens that a grammar in Lark's dialect names: ``<|end|>`` in a rule, without quotes."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cdec.compilers.grammars.decoding import decode_source
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import (
    GrammarError,
    GrammarUndefinedError,
    GrammarUnsupportedError,
)
from cdec.core.grammars.special import MOST, SpecialTokens, is_stand_in, stand_in

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

_PIECE = re.compile(
    r"""
      (?P<skip> //[^\n]* | \#[^\n]* | "(?:[^"\\\n]|\\[^\n])*" | /(?!/)(?:[^/\\\n]|\\[^\n])+/ )
    | (?P<head> ^[ \t]*[?!]*_?(?P<first>[A-Za-z])\w*(?:\{[^}\n]*\})?(?:\.-?\d+)?[ \t]*: )
    | (?P<name> <[^<>\s"]+> )
    """,
    re.VERBOSE | re.MULTILINE,
)


def with_stand_ins(
    source: str | bytes, vocabulary: Vocabulary, limits: GrammarLimits
) -> tuple[str | bytes, SpecialTokens]:
    """Return a grammar in which literals of one character stand for the special tokens it names.

    Every place in it keeps its line and column.

    Args:
        source: In Lark's dialect.
        vocabulary: Whose special tokens it may name.
        limits: On the text.

    Raises:
        GrammarUndefinedError: The vocabulary has no such token; with the names that are near.
        GrammarUnsupportedError: The token ends texts, or stands in a terminal's definition; or the
            text has a character that stands for one.
        LimitError: More than ``MOST`` of them.
        EncodingError: As for every grammar.
    """
    text = decode_source(source, limits)
    numbers: dict[str, int] = {}
    pieces, done, in_terminal = list[str](), 0, False
    for found in _PIECE.finditer(text):
        if found["head"]:
            in_terminal = found["first"].isupper()
        if not found["name"]:
            continue
        word = found["name"]
        error = _refusal(word, vocabulary, in_terminal=in_terminal)
        if error is not None:
            raise placed(error, text, found.start())
        number = numbers.setdefault(word, len(numbers))
        if number >= MOST:
            raise LimitError(
                f"the grammar names more than {MOST} special tokens",
                hint="write fewer of them",
                limit=f"special tokens {MOST}",
            )
        pieces += [text[done : found.start()], f'"{stand_in(number)}"'.ljust(len(word))]
        done = found.end()
    if not numbers:
        return source, SpecialTokens({}, {})
    at = next((at for at, character in enumerate(text) if is_stand_in(character)), None)
    if at is not None:
        what = f"U+{ord(text[at]):X} stands for a special token here"
        raise placed(GrammarUnsupportedError(what, hint="leave it out"), text, at)
    return "".join([*pieces, text[done:]]), SpecialTokens.named(list(numbers), vocabulary)


def _refusal(word: str, vocabulary: Vocabulary, *, in_terminal: bool) -> GrammarError | None:
    token = vocabulary.special_tokens.get(word)
    name = vocabulary.name or "the vocabulary"
    if token is None:
        close = get_close_matches(word, list(vocabulary.special_tokens), 3)
        known = ", ".join(close or list(vocabulary.special_tokens)[:8])
        return GrammarUndefinedError(
            f"{word} is no special token of {name}; "
            + (f"{'near is' if close else 'it has'} {known}" if known else "it has none"),
            hint="write the token's own words, or put a text in quotes",
        )
    if token in vocabulary.eos_token_ids:
        return GrammarUnsupportedError(
            f"{word} ends texts of {name}", hint="leave it out: a text that is whole ends with it"
        )
    if in_terminal:
        return GrammarUnsupportedError(
            f"the special token {word} stands in a terminal, which is made of characters",
            hint="name it in a rule",
        )
    return None


def placed(error: GrammarError, text: str, at: int) -> GrammarError:
    """Return an error of a place in a grammar with its line and column."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    error.message = f"line {line}, column {column}: {error.message}"
    error.args = (error.message,)
    error.details |= {"line": line, "column": column}
    return error
