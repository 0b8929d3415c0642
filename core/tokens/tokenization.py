"""Tokenization: continuation text -> token ids, one text or millions, and its fingerprint."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from cdec.core.errors import CdecError, EncodingError, ModelError, UntokenizableError, UsageError
from cdec.core.tokens.spec import Spec, spec_hash

CHUNK = 4096
"""Texts encoded at a time; measured: larger chunks fall out of the processor's caches."""


class Tokenization:
    """A tokenizer set up for continuation text (see ``spec``).

    Encoding uses all cores, as the ``tokenizers`` library does unless the environment variable
    ``TOKENIZERS_PARALLELISM`` says otherwise, and releases the interpreter lock meanwhile.

    Args:
        spec: As ``continuation_spec`` returns it.
        special_ids: As given to it.
        framing: The parts of the tokenizer's own spec that ``FRAMING`` names; None for none.

    Raises:
        ModelError: The library refuses the spec, or gives its tokens other ids.
    """

    def __init__(
        self, spec: Spec, special_ids: Collection[int], framing: Spec | None = None
    ) -> None:
        self._backend = _build(spec)
        self._framing = framing or {}
        self.hash = spec_hash(spec, special_ids)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of every text.

        Raises:
            UsageError: An item is no string.
            EncodingError: An item has a lone surrogate, which no UTF-8 text has.
            UntokenizableError: An item has a character that the tokenizer has no token for. (Most
                tokenizers use an unknown token or drop it instead; then ``Vocabulary.decode`` of
                the ids is not the text, which callers must check.)
        """
        return [encoding.ids for encoding in self._encode(texts)]

    def encode_flat(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of all texts in one array, int32[total], and offsets, int64[n + 1].

        Cost: the library's time plus about a tenth. Memory: the result twice, and some 130 bytes a
        token (measured) of ``CHUNK`` texts.
        """
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        pieces = [np.zeros(0, dtype=np.int32)]
        for start in range(0, len(texts), CHUNK):
            rows = [encoding.ids for encoding in self._encode(texts[start : start + CHUNK], start)]
            lengths = np.fromiter(map(len, rows), np.int64, count=len(rows))
            offsets[start + 1 : start + 1 + len(rows)] = lengths
            total = int(lengths.sum())
            pieces.append(np.fromiter(chain.from_iterable(rows), np.int32, count=total))
        np.cumsum(offsets, out=offsets)
        return np.concatenate(pieces), offsets

    def encode_prompt(self, text: str) -> list[int]:
        """Return the token ids of a prompt: framed by special tokens and spaces, as texts are.

        Cost: the tokenizer is built once more, at the first call.

        Raises:
            UntokenizableError: As ``encode``.
        """
        try:
            return list(self._prompts.encode(text).ids)
        except Exception as error:
            raise _encoding_error([text], 0, error) from error

    @cached_property
    def _prompts(self) -> Any:
        """The tokenizer with its own framing; special tokens that are spelled out stay text."""
        return _build(orjson.loads(self._backend.to_str()) | self._framing)

    def _encode(self, texts: Sequence[str], start: int = 0) -> list[Any]:
        # subtle: the library takes a tuple for a pair of texts, and refuses a surrogate with a
        # TypeError that does not say where.
        for index, text in enumerate(texts if set(map(type, texts)) - {str} else ()):
            if not isinstance(text, str):
                raise UsageError(
                    f"text {start + index} is of type {type(text).__name__}, expected str"
                )
        try:
            return list(self._backend.encode_batch_fast(list(texts), add_special_tokens=False))
        except Exception as error:  # a TypeError for a surrogate, bare Exceptions otherwise
            raise _encoding_error(texts, start, error) from error


def _encoding_error(texts: Sequence[str], start: int, cause: Exception) -> CdecError:
    for index, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return EncodingError(
                f"text {start + index} has a lone surrogate at character {error.start}; "
                "expected text that can be written as UTF-8",
                hint="Repair the text, or read it with errors='replace'.",
                text=start + index,
                character=error.start,
            )
    return UntokenizableError(
        f"the tokenizer refuses one of the texts: {cause}",
        hint="Leave out what is in no language the tokenizer was made for.",
    )


def _build(spec: Spec) -> Any:
    from tokenizers import Tokenizer

    try:
        backend = Tokenizer.from_buffer(orjson.dumps(spec))
    except Exception as error:  # the library raises bare Exceptions
        raise ModelError(
            f"the tokenizers library refuses the tokenizer: {error}",
            hint="Check that the tokenizer's file is whole; a newer library may read it.",
        ) from error
    for token in spec["added_tokens"]:
        if backend.token_to_id(token["content"]) != token["id"]:
            raise ModelError(
                f"the added token with the id {token['id']} gets the id "
                f"{backend.token_to_id(token['content'])}: the file's added tokens leave a gap",
                hint="Load the tokenizer with transformers and save it again.",
                token_id=token["id"],
            )
    backend.encode_special_tokens = True
    return backend
