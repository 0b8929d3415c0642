"""SentencePiece ``.model`` files (BPE and Unigram) as tokenizer specs.

The pieces, scores and normaliser are read from the file; no piece of text is encoded by the
``sentencepiece`` package itself (it serves as the reference in the tests).
"""

from __future__ import annotations

import base64
from typing import Any

from cdec.core.errors import ExtraMissingError, ModelError
from cdec.core.tokens.parts import UncheckedTokenizer
from cdec.core.tokens.spec import SPACE_MARK, Spec

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5
"""Piece types of the file format."""
_UNIGRAM, _BPE = 1, 2
"""Model types of the file format."""


def read_sentencepiece(data: bytes, name: str) -> UncheckedTokenizer:
    """Read a SentencePiece model.

    Args:
        data: The file's bytes.
        name: Shown in errors.

    Returns:
        The tokenizer; control, unknown and unused pieces are special, user-defined ones are text.
        Cost: 0.3 s for 32,768 pieces.

    Raises:
        ExtraMissingError: The ``sentencepiece`` extra is not installed.
        ModelError: No SentencePiece model, or one of words or characters.
    """
    proto = _parse(data, name)
    kind = proto.trainer_spec.model_type
    if kind not in (_UNIGRAM, _BPE) or proto.trainer_spec.treat_whitespace_as_suffix:
        raise ModelError(
            f"{name}: a SentencePiece model of type {kind}; expected BPE or Unigram with the space "
            "before the word",
            hint="Use a model of another tokenizer.",
            path=name,
        )
    special = {
        i for i, piece in enumerate(proto.pieces) if piece.type in (_UNKNOWN, _CONTROL, _UNUSED)
    }
    trainer = proto.trainer_spec
    spec: Spec = {
        "added_tokens": [_added(i, p) for i, p in enumerate(proto.pieces) if _is_added(p, kind)],
        "normalizer": _normalizer(proto.normalizer_spec),
        "pre_tokenizer": None,
        "model": _bpe(proto) if kind == _BPE else _unigram(proto),
    }
    count = len(proto.pieces)
    eos = {trainer.eos_id} if 0 <= trainer.eos_id < count else set()
    bos = trainer.bos_id if 0 <= trainer.bos_id < count else None
    return UncheckedTokenizer(spec, special, eos, bos, name)


def _parse(data: bytes, name: str) -> Any:
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError as error:
        raise ExtraMissingError(
            f"{name} is a SentencePiece model, and the package to read it is not installed",
            hint="pip install 'cdec[sentencepiece]', or give a tokenizer.json.",
            extra="sentencepiece",
        ) from error
    proto = sentencepiece_model_pb2.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError
        raise _not_a_model(name) from error
    if not proto.pieces:
        raise _not_a_model(name)
    return proto


def _not_a_model(name: str) -> ModelError:
    return ModelError(
        f"{name} is no SentencePiece model",
        hint="Check that the file is whole, and not a Git LFS pointer.",
        path=name,
    )


def _is_added(piece: Any, kind: int) -> bool:
    # subtle: a user-defined piece with a plain space matches nothing, as spaces are escaped first;
    # as an added token it would be escaped too and match. Unigram weighs user-defined pieces
    # against the others; only BPE cuts them out before.
    if piece.type == _USER_DEFINED:
        return kind == _BPE and " " not in piece.piece
    return piece.type in (_CONTROL, _UNKNOWN)


def _added(token_id: int, piece: Any) -> Spec:
    # User-defined pieces are matched in the normalised text, where spaces are marks already.
    return {
        "id": token_id,
        "content": piece.piece,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": piece.type == _USER_DEFINED,
        "special": piece.type != _USER_DEFINED,
    }


def _normalizer(spec: Any) -> Spec | None:
    parts: list[Spec] = []
    if spec.precompiled_charsmap:
        chars = base64.b64encode(spec.precompiled_charsmap).decode()
        parts.append({"type": "Precompiled", "precompiled_charsmap": chars})
    if spec.remove_extra_whitespaces:
        # Edge spaces stay: continuation text is the middle of a sequence.
        parts.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if spec.escape_whitespaces:
        parts.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK})
    return {"type": "Sequence", "normalizers": parts}


def _bpe(proto: Any) -> Spec:
    ids = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": proto.pieces[proto.trainer_spec.unk_id].piece,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": bool(proto.trainer_spec.byte_fallback),
        "ignore_merges": False,
        "vocab": ids,
        "merges": _merges(proto),
    }


def _merges(proto: Any) -> list[tuple[str, str]]:
    """Return all pairs of pieces that make a piece, in the order SentencePiece merges them."""
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == _NORMAL}
    ranked: list[tuple[float, int, str, str]] = []
    for text, score in scores.items():
        for k in range(1, len(text)):
            if text[:k] in scores and text[k:] in scores:
                # subtle: of equal scores SentencePiece merges the leftmost pair, so a run of spaces
                # (all of one score) grows from its left end: the longest left part goes first.
                ranked.append((-score, -k, text[:k], text[k:]))
    ranked.sort(key=lambda merge: merge[:2])
    return [(left, right) for _, _, left, right in ranked]


def _unigram(proto: Any) -> Spec:
    return {
        "type": "Unigram",
        "unk_id": proto.trainer_spec.unk_id,
        "vocab": [
            # SentencePiece lets a user-defined piece win whatever its score.
            [piece.piece, 0.0 if piece.type == _USER_DEFINED else piece.score]
            for piece in proto.pieces
        ],
        "byte_fallback": bool(proto.trainer_spec.byte_fallback),
    }
