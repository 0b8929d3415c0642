"""The vocabulary of a GGUF model, as llama.cpp itself writes its tokens."""

from __future__ import annotations

import os
from ctypes import create_string_buffer
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp import Llama

from cdec.core.errors import ModelError
from cdec.core.tokens.vocabulary import Vocabulary

_SPELLING = (
    llama_cpp.LLAMA_VOCAB_TYPE_SPM,
    llama_cpp.LLAMA_VOCAB_TYPE_BPE,
    llama_cpp.LLAMA_VOCAB_TYPE_UGM,
)
"""Kinds of vocabularies whose tokens spell the text."""
_NO_TEXT = (
    llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
    | llama_cpp.LLAMA_TOKEN_ATTR_UNUSED
    | llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
)


def gguf_vocabulary(source: Llama | str | os.PathLike[str]) -> Vocabulary:
    """Read the vocabulary of a GGUF model: the bytes that llama.cpp itself writes for each token.

    BPE and SentencePiece models. Every id at which llama.cpp ends a text ends one here. The
    vocabulary has no tokenizer: grammars, regular expressions and schemas are compiled with it; a
    set, which is made of tokens, with the tokenizer that the model was converted from, and its
    artifact is opened for this vocabulary.

    Args:
        source: A model of llama-cpp-python, or a file, whose weights are not read.

    Raises:
        ModelError: No GGUF file, or its tokens do not spell texts.
    """
    if not isinstance(source, Llama):
        return gguf_vocabulary(_opened(source))
    vocab: Any = source._model.vocab
    name = Path(source.model_path).name
    if llama_cpp.llama_vocab_type(vocab) not in _SPELLING:
        raise ModelError(
            f"{name}: the tokens of its vocabulary do not spell texts; expected BPE or "
            "SentencePiece",
            hint="Use a model of another tokenizer.",
            path=name,
        )
    ids = range(source.n_vocab())
    special = [i for i in ids if llama_cpp.llama_vocab_get_attr(vocab, i) & _NO_TEXT]
    ends = [i for i in ids if llama_cpp.llama_vocab_is_eog(vocab, i)]
    begin = llama_cpp.llama_vocab_bos(vocab)
    return Vocabulary(
        [_piece(vocab, i) for i in ids],
        ends,
        special,
        bos_token_id=begin if begin in ids else None,
        name=name,
    )


def _opened(path: str | os.PathLike[str]) -> Llama:
    try:
        return Llama(str(path), vocab_only=True, verbose=False)
    except (ValueError, OSError) as error:
        raise ModelError(
            f"{path} cannot be read as a GGUF model: {error}",
            hint="Check the path, and that the file is whole.",
            path=str(path),
        ) from error


def _piece(vocab: Any, token: int) -> bytes:
    """Return what llama.cpp writes for a token, ``b""`` for one that stands for no text."""
    size = 64
    while True:
        buffer = create_string_buffer(size)
        written = llama_cpp.llama_token_to_piece(vocab, token, buffer, size, 0, False)
        if written >= 0:
            return buffer.raw[:written]
        size = -written
