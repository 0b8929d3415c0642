"""Tokenizer files on disk: ``tokenizer.json``, GPT-2's two files, tekken, tiktoken, SentencePiece.

**Ranks.** tekken and tiktoken list byte strings; the pair of neighbours whose concatenation has the
lowest rank is merged first, and a word that is a token itself is taken whole. The ``tokenizers``
library wants the pairs written out: for every token, each way to cut it into two tokens is a merge
of its rank.

**SentencePiece** (BPE and Unigram). Pieces, scores and normaliser are read from the file; no piece
of text is encoded by the ``sentencepiece`` package itself (it is the reference in the tests).
"""

from __future__ import annotations

import base64
import binascii
import lzma
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import orjson

from cdec.core.errors import ExtraMissingError, LimitError, ModelError
from cdec.core.tokens.spec import SPACE_MARK, Spec, UncheckedTokenizer, byte_alphabet

MAX_TOKENIZER_BYTES = 256 << 20
"""Limit on a tokenizer file, unpacked; the largest in use have some 35 MiB."""
_XZ_MAGIC = b"\xfd7zXZ\x00"
_XZ_MEMORY = 128 << 20
_BYTE_PAIRS: Mapping[str, Any] = {
    "type": "BPE",
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}
"""The model of a tokenizer by byte pairs, as the library writes it, but for its tokens."""
_MERGES = {"encoder.json": "vocab.bpe", "vocab.json": "merges.txt"}
"""Vocabulary of GPT-2's two-file form -> its merges."""
_ROLES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "pad_token",
    "sep_token",
    "cls_token",
    "mask_token",
)


def read_tokenizer_file(path: Path) -> UncheckedTokenizer:
    """Read a tokenizer from one file (or GPT-2's two).

    Args:
        path: ``tokenizer.json``, ``tekken*.json``, ``*.tiktoken``, ``*.model*``, ``encoder.json``
            beside ``vocab.bpe`` or ``vocab.json`` beside ``merges.txt``; each also as ``.xz``.

    Returns:
        The tokenizer; for ``tokenizer.json`` with what the configuration files beside it say
        about its special tokens.

    Raises:
        ModelError: Not readable, or of no known form.
        LimitError: Larger than ``MAX_TOKENIZER_BYTES``.
        ExtraMissingError: A SentencePiece model without the ``sentencepiece`` extra.
    """
    data = read_bounded(path)
    name = path.name.removesuffix(".xz")
    if name.endswith(".tiktoken"):
        return read_tiktoken(data, path.name)
    if name in _MERGES:
        return _read_two_files(path, data)
    if ".model" in name or name.endswith(".spm"):
        return read_sentencepiece(data, path.name)
    if data[:64].lstrip()[:1] == b"{":
        document = _json_object(data, path)
        if "config" in document and "vocab" in document:
            return read_tekken(document, path.name)
        if "model" in document:
            return _read_tokenizer_json(document, path)
    raise _unknown_form(path)


def read_bounded(path: Path, limit: int = MAX_TOKENIZER_BYTES) -> bytes:
    """Return a file's bytes, unpacked where it is ``.xz``.

    Raises:
        ModelError: Not readable, or damaged.
        LimitError: More than ``limit`` bytes, packed or unpacked.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise ModelError(
            f"the tokenizer file {path} cannot be read: {error.strerror}",
            hint="Check the path and its permissions.",
            path=str(path),
        ) from error
    if len(data) <= limit and data.startswith(_XZ_MAGIC):
        try:
            unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
            data = unpacker.decompress(data, max_length=limit + 1)
            if len(data) <= limit and not unpacker.eof:
                raise lzma.LZMAError("the file ends early")
        except lzma.LZMAError as error:
            raise _damaged(path, str(error)) from error
    if len(data) > limit:
        raise LimitError(
            f"the tokenizer file {path} has more than {limit} bytes, the limit on tokenizers",
            hint="Check that it is a tokenizer and not a model's weights.",
            path=str(path),
            limit=f"tokenizer bytes {limit}",
        )
    return data


def special_roles(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return role -> tokens of a ``tokenizer_config.json`` or ``special_tokens_map.json``."""
    roles: dict[str, list[str]] = {}
    for role in (*_ROLES, "additional_special_tokens", "extra_special_tokens"):
        value = document.get(role) or []
        if isinstance(value, dict) and "content" not in value:
            value = list(value.values())
        entries = value if isinstance(value, list) else [value]
        texts = [entry.get("content") if isinstance(entry, dict) else entry for entry in entries]
        roles[role] = [text for text in texts if isinstance(text, str)]
    return roles


def generation_eos(folder: Path) -> set[int]:
    """Return the end-of-sequence ids of a folder's ``generation_config.json``, if any."""
    return end_ids(_beside(folder / "generation_config.json").get("eos_token_id"))


def end_ids(value: object) -> set[int]:
    """Return the ids that ``eos_token_id`` of a configuration names: one, a list, or none."""
    entries = value if isinstance(value, list) else [value]
    return {entry for entry in entries if type(entry) is int and entry >= 0}


def _read_tokenizer_json(document: Mapping[str, Any], path: Path) -> UncheckedTokenizer:
    spec = check_spec(dict(document), path.name)
    ids = {t["content"]: t["id"] for t in spec["added_tokens"]}
    if isinstance(spec["model"]["vocab"], dict):
        ids = {**spec["model"]["vocab"], **ids}
    special: set[int] = set()
    eos = generation_eos(path.parent)
    bos = None
    # Only these names belong together; another json in a folder of many is on its own.
    names = ("special_tokens_map.json", "tokenizer_config.json")
    for name in names if path.name == "tokenizer.json" else ():
        for role, tokens in special_roles(_beside(path.parent / name)).items():
            found = {ids[token] for token in tokens if token in ids}
            special |= found
            if role == "eos_token":
                eos |= found
            elif role == "bos_token" and found:
                bos = min(found)
    if path.name != "tokenizer.json":
        eos = set()
    return UncheckedTokenizer(spec, special, eos, bos, path.name)


def check_spec(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a ``tokenizer.json`` with the fields that its readers count on.

    Raises:
        ModelError: A field that is missing or of another type.
    """
    model = spec.get("model")
    if isinstance(model, dict) and "type" not in model and "merges" in model:
        model["type"] = "BPE"  # files written by the first releases
    added = spec.setdefault("added_tokens", [])
    if (
        not isinstance(model, dict)
        or not isinstance(model.get("type"), str)
        or not isinstance(model.get("vocab"), dict | list)
        or (model["type"] == "BPE" and not isinstance(model.get("merges"), list))
        or not isinstance(added, list)
        or not all(
            isinstance(token, dict) and {"id", "content", "special"} <= set(token)
            for token in added
        )
    ):
        raise ModelError(
            f"{name} is no tokenizer.json: model, vocabulary, merges or added tokens are missing",
            hint="Check that the file is whole.",
            path=name,
        )
    return spec


def _read_two_files(path: Path, data: bytes) -> UncheckedTokenizer:
    name = path.name.removesuffix(".xz")
    merges_path = path.with_name(_MERGES[name])
    packed = merges_path.with_name(merges_path.name + ".xz")
    if not merges_path.exists() and packed.exists():
        merges_path = packed
    text = read_bounded(merges_path).decode("utf-8", errors="replace")
    # subtle: splitlines would also cut at characters that a merge may have.
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line]
    lines = lines[1:] if lines and lines[0].startswith("#version") else lines
    vocab = _json_object(data, path)
    end = vocab.get("<|endoftext|>")
    spec: dict[str, Any] = {
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
        | {"trim_offsets": False},
        "model": {**_BYTE_PAIRS, "vocab": vocab, "merges": lines},
    }
    eos = {end} if isinstance(end, int) else set()
    return UncheckedTokenizer(spec, set(eos), eos, end if eos else None, path.parent.name or name)


def _beside(path: Path) -> dict[str, Any]:
    return _json_object(read_bounded(path), path) if path.is_file() else {}


def _json_object(data: bytes, path: Path) -> dict[str, Any]:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _damaged(path, f"not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise _unknown_form(path)
    return document


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(
        f"the tokenizer file {path} is damaged: {why}",
        hint="Fetch the file again.",
        path=str(path),
    )


def _unknown_form(path: Path) -> ModelError:
    return ModelError(
        f"{path} is no tokenizer of a known form; expected tokenizer.json, tekken*.json, "
        "*.tiktoken, a SentencePiece *.model, or encoder.json beside vocab.bpe",
        hint="Name the folder of the model, or one of these files.",
        path=str(path),
    )


_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# subtle: written without possessive quantifiers, which mean the same here; the library's regular
# expressions read ``{1,3}+`` as a repeated group and would not cut numbers.
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TIKTOKEN_ENCODINGS: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "r50k_base": (_GPT2, 50256, ()),
    "p50k_base": (_GPT2, 50256, ()),
    "cl100k_base": (_CL100K, 100257, (100258, 100259, 100260, 100276)),
}
"""File stem -> (pattern that cuts text into words, id of the end, other special ids), as tiktoken
defines them."""


def read_tiktoken(data: bytes, name: str) -> UncheckedTokenizer:
    """Read a ``.tiktoken`` file, whose pattern and special tokens follow from its name.

    Args:
        data: Lines of base64 bytes, a space, a rank.
        name: File name; its stem is the encoding's name.

    Raises:
        ModelError: An unknown encoding, or a line of another form.
    """
    encoding = Path(name).name.partition(".")[0]
    if encoding not in TIKTOKEN_ENCODINGS:
        raise ModelError(
            f"{name}: the tiktoken encoding {encoding!r} is not known; expected one of "
            f"{', '.join(TIKTOKEN_ENCODINGS)}",
            hint="Give the model's tokenizer.json instead.",
            path=name,
        )
    pattern, end, others = TIKTOKEN_ENCODINGS[encoding]
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise ModelError(
                f"{name}, line {number}: expected base64 bytes, a space and a rank",
                hint="Check that the file is whole.",
                path=name,
                line=number,
            ) from error
    special = {end, *others}
    return UncheckedTokenizer(rank_spec(ranks, pattern, special), special, {end}, None, encoding)


def read_tekken(document: Mapping[str, Any], name: str) -> UncheckedTokenizer:
    """Read a ``tekken.json`` document: rank r has the id r + number of special tokens.

    Raises:
        ModelError: A field that is missing or of another form.
    """
    try:
        config = document["config"]
        n_special = int(config["default_num_special_tokens"])
        n_ordinary = int(config["default_vocab_size"]) - n_special
        pattern = str(config["pattern"])
        vocab = document["vocab"][:n_ordinary]
        ranks = {base64.b64decode(token["token_bytes"]): int(token["rank"]) for token in vocab}
        listed = document.get("special_tokens") or []
        special = {str(token["token_str"]): int(token["rank"]) for token in listed}
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{name} is no tekken vocabulary: {type(error).__name__} {error}",
            hint="Expected the fields config, vocab and token_bytes of mistral-common's files.",
            path=name,
        ) from error
    # Files of the first format name no special tokens; these two have had their ids since then.
    begin, end = special.get("<s>", 1), special.get("</s>", 2)
    shifted = {token: rank + n_special for token, rank in ranks.items()}
    hidden = set(range(n_special))
    spec = rank_spec(shifted, pattern, hidden)
    return UncheckedTokenizer(spec, hidden, {end}, begin, Path(name).name)


def rank_spec(ranks: Mapping[bytes, int], pattern: str, special_ids: Collection[int]) -> Spec:
    """Return the spec of a byte-level BPE given by ranks.

    Args:
        ranks: Byte string -> id, lowest merged first.
        pattern: Regular expression that matches the words of a text, Oniguruma syntax.
        special_ids: Ids that ``ranks`` does not have.

    Returns:
        A spec whose model has the special ids too, under names that no text has.
        Cost: 0.7 s for 131,072 tokens.

    Raises:
        ModelError: A possessive interval in the pattern, which the library reads as a repetition.
    """
    if re.search(r"\{\d*,?\d*\}\+", pattern):
        raise ModelError(
            f"the pattern {pattern!r} has a possessive interval, read as a repetition here",
            hint="Give the model's tokenizer.json instead.",
        )
    alphabet = dict(enumerate(byte_alphabet()))
    ids = {token.decode("latin-1").translate(alphabet): i for token, i in ranks.items()}
    ordered = sorted(ids, key=ids.__getitem__)
    merges = [pair for token in ordered if len(token) > 1 for pair in _cuts(token, ids)]
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    levels = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return {
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split, levels | {"trim_offsets": False}],
        },
        "model": {
            **_BYTE_PAIRS,
            "ignore_merges": True,
            "vocab": ids | {f" special {i}": i for i in special_ids},
            "merges": merges,
        },
    }


def _cuts(token: str, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return every way to cut a token into two tokens, lowest ids first."""
    cuts = [
        (ids[token[:k]], ids[token[k:]], k)
        for k in range(1, len(token))
        if token[:k] in ids and token[k:] in ids
    ]
    cuts.sort()
    return [(token[:k], token[k:]) for _, _, k in cuts]


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
        **_BYTE_PAIRS,
        "unk_token": proto.pieces[proto.trainer_spec.unk_id].piece,
        "fuse_unk": True,
        "byte_fallback": bool(proto.trainer_spec.byte_fallback),
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
