"""Special tokens as terminals of a grammar: bytes that no text has stand for them.

A grammar is compiled against an *image* of the vocabulary, in which each special token that it
names has two bytes, a marker and a number: the marker stands in no UTF-8 and for no member of a
set, so that nothing else in the grammar can begin with it, and whoever spells it by an ordinary
token is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from cdec.core.errors import TokenizerMismatchError
from cdec.core.grammars.columns import MARKER as MARKER_OF_SETS
from cdec.core.grammars.columns import stand_in as stand_in_of_set
from cdec.core.tokens.vocabulary import Vocabulary

MARKER = 0xFE
"""First byte of a special token; in artifacts that do not say theirs it is that of sets."""
FIRST = 0x80
"""Number of the first special token behind the marker; those below are of sets."""
MOST = 64
"""Special tokens of one grammar."""
KEY = "cdec.special_tokens"
"""Metadata: names and ids, and what was left out."""


def is_stand_in(text: str) -> bool:
    """Say whether a literal stands for a special token."""
    return len(text) == 1 and stand_in(0) <= text <= stand_in(MOST - 1)


def stand_in(number: int) -> str:
    """Return the character that stands for a special token in a grammar's source."""
    return stand_in_of_set(FIRST + number)


@dataclass(frozen=True)
class SpecialTokens:
    """Special tokens that a grammar names.

    Attributes:
        ids: Of the tokens, by their words, in the order of their numbers.
        marked: Bytes of the ordinary tokens that are left out, by id.
        marker: The first byte that the image has for each.
    """

    ids: Mapping[str, int]
    marked: Mapping[int, bytes]
    marker: int = MARKER

    @classmethod
    def named(cls, words: Sequence[str], vocabulary: Vocabulary) -> SpecialTokens:
        """Return tokens of a vocabulary that has all of them."""
        table = enumerate(vocabulary.token_bytes)
        marked = {token: data for token, data in table if MARKER in data} if words else {}
        return cls({word: vocabulary.special_tokens[word] for word in words}, marked)

    @classmethod
    def recorded(cls, metadata: Mapping[str, str]) -> SpecialTokens:
        """Return those of an artifact; none where it records none.

        Raises:
            ValueError: What it records is none.
        """
        said: Any = json.loads(metadata.get(KEY, '{"ids": [], "marked": []}'))
        try:
            ids = {str(word): int(token) for word, token in said["ids"]}
            marked = {int(token): bytes.fromhex(data) for token, data in said["marked"]}
            marker = int(said.get("marker", MARKER_OF_SETS))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{KEY} is no list of tokens") from error
        is_list = len(said["ids"]) == len(ids) <= MOST and min(ids.values(), default=0) >= 0
        if not is_list or marker not in (MARKER, MARKER_OF_SETS):
            raise ValueError(f"{KEY} is no list of tokens")
        return cls(ids, marked, marker)

    def __bool__(self) -> bool:
        return bool(self.ids)

    def to_metadata(self, names: str) -> dict[str, str]:
        """Return what an artifact records; nothing where there are none.

        Args:
            names: JSON of what messages call the terminals, literals in quotes.
        """
        if not self:
            return {}
        for number, word in enumerate(self.ids):
            names = names.replace(f'\\"{stand_in(number)}\\"', json.dumps(word)[1:-1])
        marked = [[token, data.hex()] for token, data in self.marked.items()]
        said = {"ids": [*self.ids.items()], "marked": marked, "marker": self.marker}
        return {KEY: json.dumps(said), "cdec.names": names}

    def image(self, vocabulary: Vocabulary) -> Vocabulary:
        """Return a vocabulary in which they are tokens of bytes."""
        numbered = enumerate(self.ids.values(), FIRST)
        spelt = {token: bytes((self.marker, number)) for number, token in numbered}
        return self._replaced(vocabulary, spelt | dict.fromkeys(self.marked, b""))

    def shown(self, vocabulary: Vocabulary) -> Vocabulary:
        """Return a vocabulary in which their words are their bytes, for people."""
        return self._replaced(
            vocabulary, {token: word.encode() for word, token in self.ids.items()}
        )

    def restored(self, token_bytes: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of a vocabulary of which these are the image."""
        hidden = set(self.ids.values())
        pairs = enumerate(token_bytes)
        return [b"" if token in hidden else self.marked.get(token, data) for token, data in pairs]

    def in_image(self, text: bytes) -> bytes:
        """Return a text in which words stand for these tokens, as the image has it."""
        numbers = {word.encode(): n for n, word in enumerate(self.ids)}
        pieces = self.parts(text)
        return b"".join(
            bytes((self.marker, FIRST + numbers[piece])) if at % 2 else piece
            for at, piece in enumerate(pieces)
        )

    def in_text(self, data: bytes) -> bytes:
        """Return a text of the image with the words of these tokens."""
        for number, word in enumerate(self.ids):
            data = data.replace(bytes((self.marker, FIRST + number)), word.encode())
        return data

    def as_source(self, data: bytes) -> bytes:
        """Return a text of the image with the characters that stand for these tokens."""
        for number in range(len(self.ids)):
            data = data.replace(bytes((self.marker, FIRST + number)), stand_in(number).encode())
        return data

    def as_written(self, source: str) -> str:
        """Return the source of a grammar as it was written, of that with stand-ins.

        Where a word does not fit, its number does: so wide was what stood there.
        """
        for number, (word, token) in enumerate(self.ids.items()):
            written = partial(_as_wide, word, f"<[{token}]>")
            source = re.sub(f'"{stand_in(number)}" *', written, source)
        return source

    def parts(self, text: bytes) -> list[bytes]:
        """Return a text cut at the words of these tokens, which are every second part."""
        return self._words.split(text)

    def require(self, vocabulary: Vocabulary, path: str) -> None:
        """See whether a vocabulary has these tokens, and ends no text with one.

        Raises:
            TokenizerMismatchError: It does not.
        """
        for word, token in self.ids.items():
            found = vocabulary.special_tokens.get(word)
            if found != token or token in vocabulary.eos_token_ids:
                is_end = "which ends its texts" if found == token else f"of {found}"
                raise TokenizerMismatchError(
                    f"{path} was compiled for a tokenizer whose token {token} is {word}; "
                    f"{vocabulary.name or 'the model'} has {word} {is_end}"
                    if found is not None
                    else f"{path} names the special token {word}, which "
                    f"{vocabulary.name or 'the model'} lacks",
                    hint="compile the artifact again with this model's tokenizer",
                    path=path,
                    artifact=token,
                    model=found,
                )

    @cached_property
    def _words(self) -> re.Pattern[bytes]:
        words = sorted((word.encode() for word in self.ids), key=len, reverse=True)
        return re.compile(b"(" + b"|".join(map(re.escape, words)) + b")")

    def _replaced(self, vocabulary: Vocabulary, changed: Mapping[int, bytes]) -> Vocabulary:
        table = [changed.get(token, data) for token, data in enumerate(vocabulary.token_bytes)]
        special = vocabulary.special_token_ids - set(self.ids.values())
        return Vocabulary(
            table,
            vocabulary.eos_token_ids,
            special,
            width=vocabulary.width,
            name=vocabulary.name,
        )


def _as_wide(word: str, number: str, stood: re.Match[str]) -> str:
    """Return a token's word, or its number where the word does not fit, as wide as what stood."""
    wide = len(stood[0])
    return (word if len(word) <= wide else number).ljust(wide)
