"""Special tokens that a grammar names without quotes: ``<|end|>``; in EBNF ``<[1000]>``, too."""

from __future__ import annotations

import json
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

_LARK = re.compile(
    r"""
      (?P<skip> //[^\n]* | \#[^\n]* | "(?:[^"\\\n]|\\[^\n])*" | /(?!/)(?:[^/\\\n]|\\[^\n])+/ )
    | (?P<head> ^[ \t]*[?!]*_?(?P<first>[A-Za-z])\w*(?:\{[^}\n]*\})?(?:\.-?\d+)?[ \t]*: )
    | (?P<name> <[^<>\s"]+> )
    """,
    re.VERBOSE | re.MULTILINE,
)
_EBNF = re.compile(
    r"""
      (?P<skip> \#[^\r\n]* | "(?:[^"\\\r\n]++|\\[^\r\n])*+"? | '(?:[^'\\\r\n]++|\\[^\r\n])*+'?
        | \[(?:[^\]\\\r\n]++|\\[^\r\n])*+\]? | <[^<>\s"]+>[ \t]*::= )
    | (?P<name> <(?:\[\d{1,10}\]|[^<>\s"\[\]]+)> )
    """,
    re.VERBOSE,
)
_ANY_NUMBER = re.compile(r"[ \t]*[*+]")


def with_stand_ins(
    source: str | bytes, vocabulary: Vocabulary, limits: GrammarLimits, *, is_ebnf: bool = False
) -> tuple[str | bytes, SpecialTokens]:
    """Return a grammar in which literals of one character stand for the special tokens it names.

    Every place in it keeps its line and column.

    Args:
        source: In Lark's dialect, or in EBNF, where numbers name them as well.
        vocabulary: Whose special tokens it may name.
        limits: On the text.
        is_ebnf: Whether it is in EBNF.

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
    for found in (_EBNF if is_ebnf else _LARK).finditer(text):
        if found.lastgroup == "head":
            in_terminal = found["first"].isupper()
        if found.lastgroup != "name":
            continue
        try:
            word = _word_in_ebnf(found, vocabulary) if is_ebnf else found["name"]
            _require_usable(word, vocabulary, in_terminal=in_terminal)
        except GrammarError as error:
            raise placed(error, text, found.start()) from None
        number = numbers.setdefault(word, len(numbers))
        if number >= MOST:
            raise LimitError(
                f"the grammar names more than {MOST} special tokens",
                hint="write fewer of them",
                limit=f"special tokens {MOST}",
            )
        written = f'"{stand_in(number)}"'.ljust(len(found["name"]))
        pieces += [text[done : found.start()], written]
        done = found.end()
    if not numbers:
        return source, SpecialTokens({}, {})
    at = next((at for at, character in enumerate(text) if is_stand_in(character)), None)
    if at is not None:
        what = f"U+{ord(text[at]):X} stands for a special token here"
        raise placed(GrammarUnsupportedError(what, hint="leave it out"), text, at)
    return "".join([*pieces, text[done:]]), SpecialTokens.named(list(numbers), vocabulary)


def _word_in_ebnf(found: re.Match[str], vocabulary: Vocabulary) -> str:
    """Return the word of a special token that its number may name, as in ``<[1000]>``.

    A ``!`` before it stands for any other token. How many tokens a text has is not the grammar's
    affair, so that only any number of them means something.
    """
    written = found["name"]
    is_negated = found.string[found.start() - 1 : found.start()] == "!"
    if is_negated and not _ANY_NUMBER.match(found.string, found.end()):
        raise GrammarUnsupportedError(
            f"!{written} counts tokens, and a text has as many as the tokenizer likes",
            hint=f"write !{written}* or !{written}+ for any number of them",
        )
    if not written.startswith("<["):
        return written
    token = int(written[2:-2])
    words = [word for word, number in vocabulary.special_tokens.items() if number == token]
    if words:
        return words[0]
    name = vocabulary.name or "the vocabulary"
    if token >= vocabulary.size or not vocabulary.token_bytes[token]:
        raise GrammarUndefinedError(
            f"{token} is no special token of {name}", hint="write one of its special tokens"
        )
    text = vocabulary.token_bytes[token].decode("utf-8", "backslashreplace")
    raise GrammarUnsupportedError(
        f"the token {token} of {name} is the text {json.dumps(text, ensure_ascii=False)}, and "
        "texts may be spelled by other tokens, too",
        hint="put the text in quotes",
    )


def _require_usable(word: str, vocabulary: Vocabulary, *, in_terminal: bool) -> None:
    token = vocabulary.special_tokens.get(word)
    name = vocabulary.name or "the vocabulary"
    if token is None:
        close = get_close_matches(word, list(vocabulary.special_tokens), 3)
        known = ", ".join(close or list(vocabulary.special_tokens)[:8])
        raise GrammarUndefinedError(
            f"{word} is no special token of {name}; "
            + (f"{'near is' if close else 'it has'} {known}" if known else "it has none"),
            hint="write the token's own words, or put a text in quotes",
        )
    if token in vocabulary.eos_token_ids:
        raise GrammarUnsupportedError(
            f"{word} ends texts of {name}", hint="leave it out: a text that is whole ends with it"
        )
    if in_terminal:
        raise GrammarUnsupportedError(
            f"the special token {word} stands in a terminal, which is made of characters",
            hint="name it in a rule",
        )


def placed(error: GrammarError, text: str, at: int) -> GrammarError:
    """Return an error of a place in a grammar with its line and column."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    error.message = f"line {line}, column {column}: {error.message}"
    error.args = (error.message,)
    error.details |= {"line": line, "column": column}
    return error
