"""Vocabulary: token id <-> bytes, special and end-of-sequence ids, logits width, fingerprints.

Only what holds for every tokenizer lives here: their readers (``sources``) import this, and are
imported by ``Vocabulary.from_tokenizer`` alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.mask import offsets_of


class Encoder(Protocol):
    """Encoder of the texts of a vocabulary, as ``Tokenization`` does.

    Attributes:
        hash: SHA-256 (hex) over all that decides how text becomes tokens.
    """

    hash: str

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of every text."""

    def encode_flat(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of all texts in one array, int32[total], and offsets, int64[n + 1]."""

    def encode_prompt(self, text: str) -> list[int]:
        """Return the token ids of a prompt: framed by special tokens and spaces, as texts are."""

    def spec(self) -> dict[str, Any]:
        """Return the JSON of the ``tokenizers`` library that says how texts become tokens."""


class Vocabulary:
    """The byte string of every token id, and which ids are no text.

    An *ordinary* token has bytes and is neither special nor padding. Two ids may have the same
    bytes (a byte-fallback token and a letter); whoever builds a mask sets both.

    Args:
        token_bytes: Bytes by token id; ``b""`` for ids that stand for no text. The bytes of
            special ids are dropped.
        eos_token_ids: Ids that end a sequence, any of them; may be empty where nothing ends.
        special_token_ids: Ids that stand for no text; the end-of-sequence ids are always added.
        width: Logits width, >= ``len(token_bytes)``; the ids between are padding.
        bos_token_id: Id that begins a sequence, if any.
        tokenization: Encodes text; None for a vocabulary given by its bytes.
        name: Shown to people, never opened.
        special_tokens: Ids by the words that stand for them, ``<|end|>`` say: they are special.

    Raises:
        UsageError: No tokens, an id out of range, a width below the size, a token that is no bytes.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        eos_token_ids: Sequence[int],
        special_token_ids: Iterable[int] = (),
        *,
        width: int | None = None,
        bos_token_id: int | None = None,
        tokenization: Encoder | None = None,
        name: str = "",
        special_tokens: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.size = len(token_bytes)
        self.width = self.size if width is None else int(width)
        self.bos_token_id = bos_token_id
        self.tokenization = tokenization
        self.name = name
        self._check_size(token_bytes)
        self.eos_token_ids: tuple[int, ...] = self._check_ids("eos_token_ids", eos_token_ids)
        self.special_tokens: Mapping[str, int] = dict(special_tokens)
        hidden = [*special_token_ids, *self.special_tokens.values()]
        special = self._check_ids("special_token_ids", hidden)
        if bos_token_id is not None:
            self._check_ids("bos_token_id", [bos_token_id])
        self.special_token_ids: frozenset[int] = frozenset(special) | set(self.eos_token_ids)
        cleared = list(token_bytes)
        for token_id in self.special_token_ids:
            cleared[token_id] = b""
        self.token_bytes: Sequence[bytes] = tuple(cleared)

    @classmethod
    def from_tokenizer(
        cls, source: Any, *, width: int | None = None, revision: str | None = None
    ) -> Vocabulary:
        """Read the vocabulary of a tokenizer, given as an object, a folder, a hub name or a file.

        Args:
            source: A ``transformers`` or ``tokenizers`` tokenizer; a folder or hub name for
                ``AutoTokenizer``; ``embedded`` for that of the shipped model; or a file:
                ``tokenizer.json``, ``tokenizer.model*``, ``tekken*.json``, ``*.tiktoken`` (each
                also as ``.xz``), ``encoder.json`` or ``vocab.json`` beside its merges.
            width: Logits width, where the model has more outputs than the tokenizer tokens.
            revision: Revision of a hub name.

        Returns:
            A vocabulary that can encode. Cost: below a second for 131,072 tokens, once read.

        Raises:
            ModelError: Not found, not readable, or of a kind whose tokens are not byte strings.
            ExtraMissingError: A SentencePiece file without the ``sentencepiece`` extra.
            LimitError: A file larger than tokenizers are.
        """
        # A reader of vocabularies need not know the formats of tokenizers.
        from cdec.core.tokens import read_tokenizer

        found: Vocabulary = read_tokenizer(source, width=width, revision=revision)
        return found

    def with_width(self, width: int) -> Vocabulary:
        """Return this vocabulary for logits of another width (>= size)."""
        return self._replaced(self.eos_token_ids, width)

    def with_eos(self, eos_token_ids: Sequence[int]) -> Vocabulary:
        """Return this vocabulary with other end-of-sequence ids; the old ones stay special."""
        return self._replaced(eos_token_ids, self.width)

    def decode(self, token_ids: Iterable[int]) -> bytes:
        """Return the tokens' bytes, concatenated; special, unused and padding ids give nothing.

        Raises:
            UsageError: An id outside of [0, width).
        """
        ids = (
            token_ids.tolist() if isinstance(token_ids, np.ndarray) else [int(t) for t in token_ids]
        )
        # subtle: a negative index would read from the end of the list instead of failing.
        if ids and (min(ids) < 0 or max(ids) >= self.width):
            wrong = next(t for t in ids if not 0 <= t < self.width)
            raise UsageError(
                f"token id {wrong} is outside of the vocabulary: expected 0 <= id < {self.width}",
                hint="Decode ids with the tokenizer that made them.",
                token_id=wrong,
            )
        table = self.token_bytes
        return b"".join([table[t] for t in ids if t < self.size])

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode continuation texts: no special tokens, no prefix space but the text's own.

        Raises:
            UsageError: The vocabulary was given by its bytes and has no tokenizer.
        """
        return self._require_tokenization().encode(texts)

    def prompt_text(self, token_ids: Sequence[int]) -> str | None:
        """Return the text whose prompt the tokenizer spells with these ids; None for none.

        The ids of a text that the tokenizer changes (to lower case, say) are those of the changed
        one.
        """
        if self.tokenization is None:
            return None
        try:
            text = self.decode(token_ids).decode()
        except UnicodeDecodeError:
            return None
        # A tokenizer may put a space before a text, some before those alone that have none.
        for each in dict.fromkeys((text.removeprefix(" "), text)):
            if self.tokenization.encode_prompt(each) == list(token_ids):
                return each
        return None

    def encode_flat(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Encode as ``encode`` does, into two arrays.

        Returns:
            ids int32[total] and offsets int64[n + 1]; text ``i`` is
            ``ids[offsets[i] : offsets[i + 1]]``.
        """
        return self._require_tokenization().encode_flat(texts)

    def spec(self) -> dict[str, Any]:
        """Return the tokenizer's JSON, as the ``tokenizers`` library has it, for continuation text.

        Raises:
            UsageError: The vocabulary was given by its bytes and has no tokenizer.
        """
        return self._require_tokenization().spec()

    @cached_property
    def spelt_bytes(self) -> frozenset[int]:
        """Bytes that stand in some token: texts of others cannot be written."""
        return frozenset(b"".join(self.token_bytes))

    @cached_property
    def is_ordinary(self) -> NDArray[np.bool_]:
        """True at ids of ordinary tokens, bool[width], read-only."""
        ordinary = np.zeros(self.width, dtype=np.bool_)
        ordinary[: self.size] = self.byte_lengths > 0
        return _frozen(ordinary)

    @cached_property
    def has_space_tokens(self) -> bool:
        """True where some tokens of several bytes begin with a space, as words within a text do."""
        longer = np.flatnonzero(self.byte_lengths > 1)
        return bool((self.flat_bytes[self.byte_offsets[longer]] == ord(" ")).any())

    @cached_property
    def byte_lengths(self) -> NDArray[np.int32]:
        """Length of every token in bytes, int32[size], read-only."""
        return _frozen(np.fromiter(map(len, self.token_bytes), np.int32, count=self.size))

    @cached_property
    def byte_offsets(self) -> NDArray[np.int64]:
        """Offsets of each token's bytes in ``flat_bytes``, int64[size + 1], read-only."""
        return _frozen(offsets_of(self.byte_lengths))

    @cached_property
    def flat_bytes(self) -> NDArray[np.uint8]:
        """All tokens' bytes one after another, uint8[byte_offsets[-1]], read-only."""
        return np.frombuffer(b"".join(self.token_bytes), dtype=np.uint8)

    @cached_property
    def vocabulary_hash(self) -> str:
        """SHA-256 (hex) over id and bytes of the ordinary tokens: special ids, padding and name
        are left out, so that adding a pad token or widening the logits recompiles nothing."""
        ids = np.flatnonzero(self.byte_lengths)
        digest = hashlib.sha256(b"cdec vocabulary 1\n%d\n" % ids.size)
        digest.update(ids.astype("<i8").tobytes())
        digest.update(self.byte_lengths[ids].astype("<i8").tobytes())
        digest.update(self.flat_bytes.tobytes())
        return digest.hexdigest()

    @property
    def tokenization_hash(self) -> str | None:
        """SHA-256 (hex) over normaliser, pre-tokenizer and model; None without a tokenizer."""
        return None if self.tokenization is None else self.tokenization.hash

    def __repr__(self) -> str:
        return f"Vocabulary({self.name!r}, size={self.size}, width={self.width})"

    def _replaced(self, eos_token_ids: Sequence[int], width: int) -> Vocabulary:
        return Vocabulary(
            self.token_bytes,
            eos_token_ids,
            self.special_token_ids,
            width=width,
            bos_token_id=self.bos_token_id,
            tokenization=self.tokenization,
            name=self.name,
            special_tokens=self.special_tokens,
        )

    def _require_tokenization(self) -> Encoder:
        if self.tokenization is None:
            raise UsageError(
                "this vocabulary was given by its bytes and has no tokenizer to encode text with",
                hint="Use Vocabulary.from_tokenizer, or give token ids instead of text.",
            )
        return self.tokenization

    def _check_size(self, token_bytes: Sequence[bytes]) -> None:
        if not self.size:
            raise UsageError("a vocabulary needs at least one token, found none")
        if self.width < self.size:
            raise UsageError(
                f"the logits width is {self.width}, but the vocabulary has {self.size} tokens",
                hint="Give the width of the model's output, padding included.",
            )
        if set(map(type, token_bytes)) != {bytes}:
            wrong = next(i for i, value in enumerate(token_bytes) if type(value) is not bytes)
            found = type(token_bytes[wrong]).__name__
            raise UsageError(f"token {wrong} is of type {found}, expected bytes", token_id=wrong)

    def _check_ids(self, argument: str, token_ids: Iterable[int]) -> tuple[int, ...]:
        ids = sorted({int(token_id) for token_id in token_ids})
        if ids and not 0 <= ids[0] <= ids[-1] < self.size:
            wrong = ids[0] if ids[0] < 0 else ids[-1]
            raise UsageError(
                f"{argument} has the id {wrong}, expected 0 <= id < {self.size}",
                argument=argument,
                token_id=wrong,
            )
        return tuple(ids)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


BYTES = Vocabulary(
    [*(bytes([byte]) for byte in range(256)), b""],
    eos_token_ids=[256],
    special_token_ids=[256],
    name="bytes",
)
"""The bytes as tokens, and an end."""
