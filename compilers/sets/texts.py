"""Batches of texts: their bytes, hashes and normal forms, and how messages show them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.sets.pieces import gathered
from cdec.core.errors import LimitError
from cdec.core.native import library


@dataclass(slots=True)
class TextBatch:
    """Entities that are to become rows.

    Attributes:
        texts: Normalised texts.
        lines: int64[n] source lines.
        ids: Entity ids, or None.
        data: uint8[...] the texts' UTF-8, one after another.
        offsets: int64[n + 1] of the texts in ``data``.
        originals: uint64[n] hashes before normalisation, or None without it.
    """

    texts: list[str]
    lines: NDArray[np.int64]
    ids: list[str] | None
    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    originals: NDArray[np.uint64] | None

    def kept(self, keep: NDArray[np.bool_]) -> TextBatch:
        """Return the entities where ``keep``, bool[n], is true."""
        picked = np.flatnonzero(keep)
        data, offsets = gathered(self.data, self.offsets, picked)
        return TextBatch(
            list(compress(self.texts, keep)),
            self.lines[picked],
            None if self.ids is None else list(compress(self.ids, keep)),
            data,
            offsets,
            None if self.originals is None else self.originals[picked],
        )


def normalized(text: str, form: str) -> str:
    """Return the text in a normal form: ``none``, ``nfc`` or ``nfkc``."""
    if form == "none" or text.isascii():
        return text
    return unicodedata.normalize("NFC" if form == "nfc" else "NFKC", text)


def too_long(line: int, length: int, limit: int) -> LimitError:
    """Return the error of a row with more than ``limit`` tokens."""
    return LimitError(
        f"line {line}: the entity has {length} tokens, more than {limit}",
        hint="raise `max_entry_tokens`, or leave the entity out",
        line=line,
        limit=f"max_entry_tokens {limit}",
    )


def encode_texts(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the texts' UTF-8, uint8[...], and their offsets in it, int64[n + 1].

    Raises:
        UnicodeEncodeError: A lone surrogate.
    """
    data = as_bytes("".join(texts).encode())
    characters = np.fromiter(map(len, texts), np.int64, len(texts))
    offsets = np.empty(len(texts) + 1, np.int64)
    library.text_offsets(data, characters, offsets)
    return data, offsets


def as_bytes(data: bytes) -> NDArray[np.uint8]:
    """Return bytes as a uint8 array."""
    return np.frombuffer(data, np.uint8)


def kept_rows(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64], keep: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the rows where ``keep``, bool[n], is true, and their offsets."""
    return gathered(tokens, offsets, np.flatnonzero(keep))


def is_valid(text: str) -> bool:
    """Say whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    """Return a text for a message: quoted, control characters escaped, shortened."""
    return ascii(text) if len(text) <= 60 else f"{text[:60]!a}..."
