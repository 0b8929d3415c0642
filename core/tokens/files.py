"""Tokenizer files on disk, told apart by what they are named and contain."""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from cdec.core.errors import LimitError, ModelError
from cdec.core.tokens.byte_pair_ranks import read_tekken, read_tiktoken
from cdec.core.tokens.parts import UncheckedTokenizer
from cdec.core.tokens.sentencepiece_files import read_sentencepiece

MAX_TOKENIZER_BYTES = 256 << 20
"""Limit on a tokenizer file, unpacked; the largest in use have some 35 MiB."""
_XZ_MAGIC = b"\xfd7zXZ\x00"
_XZ_MEMORY = 128 << 20
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
    document = _beside(folder / "generation_config.json")
    value = document.get("eos_token_id")
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
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": lines,
        },
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
