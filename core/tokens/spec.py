"""What a ``tokenizer.json`` says, as a dict: rewriting it for continuation text, and its hash.

A *spec* is the parsed JSON of the ``tokenizers`` library; every source of a tokenizer becomes one.
*Continuation text* is text in the middle of a sequence: " Paris" is the token that begins with a
space and "Paris" the one that does not, and text that looks like a special token is only text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, TypeAlias

import orjson

Spec: TypeAlias = "dict[str, Any]"

SPACE_MARK = "\u2581"
"""The character that stands for a space in SentencePiece's pieces."""


def components(part: Spec | None, list_key: str) -> list[Spec]:
    """Return a normaliser's or pre-tokenizer's parts in order, sequences flattened."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    return [leaf for inner in part[list_key] for leaf in components(inner, list_key)]


def normalizers(spec: Spec) -> list[Spec]:
    """Return the normalisers of a spec in order."""
    return components(spec.get("normalizer"), "normalizers")


def pre_tokenizers(spec: Spec) -> list[Spec]:
    """Return the pre-tokenizers of a spec in order."""
    return components(spec.get("pre_tokenizer"), "pretokenizers")


def model_tokens(spec: Spec) -> dict[int, str]:
    """Return id -> token of the model proper, added tokens not counted."""
    vocab = spec["model"]["vocab"]
    if isinstance(vocab, dict):
        return {token_id: token for token, token_id in vocab.items()}
    return dict(enumerate(piece for piece, _ in vocab))


def flagged_special_ids(spec: Spec) -> set[int]:
    """Return the ids that the spec itself marks as no text: special added tokens, and unknown."""
    special = {token["id"] for token in spec["added_tokens"] if token["special"]}
    model = spec["model"]
    if model["type"] == "Unigram":
        unknown = model.get("unk_id")
    else:
        unknown = model["vocab"].get(model.get("unk_token"))
    return special if unknown is None else special | {unknown}


def continuation_spec(spec: Spec, special_ids: Collection[int]) -> Spec:
    """Return the spec of the same tokenizer for continuation text.

    Dropped: special tokens around the text, the dummy prefix space, stripping of edge spaces,
    truncation, padding and dropout. Special tokens get names that no text can match.

    Args:
        spec: Left as it is.
        special_ids: All ids that stand for no text.
    """
    hidden = {token_id: _unreachable(token_id) for token_id in special_ids}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_hide_added(token, hidden) for token in spec["added_tokens"]],
        "normalizer": _sequence(
            [n for n in normalizers(spec) if n["type"] not in ("Prepend", "Strip")], "normalizers"
        ),
        "pre_tokenizer": _sequence(
            [_without_prefix_space(p) for p in pre_tokenizers(spec)], "pretokenizers"
        ),
        "post_processor": None,
        "decoder": None,
        "model": _hide_in_model(spec["model"], hidden),
    }


FRAMING = ("normalizer", "pre_tokenizer", "post_processor")
"""What makes the text of a prompt of a continuation: spaces and special tokens around it."""


def _unreachable(token_id: int) -> str:
    # subtle: encode_special_tokens alone is not enough. A Unigram model, or a BPE model with
    # ignore_merges, finds "</s>" in its own vocabulary. A name with a space is out of reach: spaces
    # become another character before the model sees the text, in every family that is read.
    return f" special {token_id}"


def _hide_added(token: Spec, hidden: dict[int, str]) -> Spec:
    if token["id"] not in hidden:
        return token
    return {**token, "content": hidden[token["id"]], "special": True}


def _hide_in_model(model: Spec, hidden: dict[int, str]) -> Spec:
    changed = {**model}
    if model["type"] == "Unigram":
        changed["vocab"] = [
            [hidden.get(i, piece), score] for i, (piece, score) in enumerate(model["vocab"])
        ]
        return changed
    changed["dropout"] = None
    changed["vocab"] = {hidden.get(i, token): i for token, i in model["vocab"].items()}
    gone = {token for token, i in model["vocab"].items() if i in hidden}
    changed["merges"] = [
        pair
        for pair in map(_pair, model["merges"])
        if pair[0] not in gone and pair[1] not in gone and pair[0] + pair[1] not in gone
    ]
    if model.get("unk_token") in gone:
        changed["unk_token"] = hidden[model["vocab"][model["unk_token"]]]
    return changed


def _pair(merge: str | list[str]) -> list[str]:
    """Return a merge as a pair; files written by older releases have ``"left right"``."""
    if isinstance(merge, str):
        left, _, right = merge.partition(" ")
        return [left, right]
    return merge


def _without_prefix_space(part: Spec) -> Spec:
    if part["type"] == "Metaspace":
        kept = {key: value for key, value in part.items() if key != "add_prefix_space"}
        return kept | {"prepend_scheme": "never"}
    if part["type"] == "ByteLevel":
        return part | {"add_prefix_space": False}
    return part


def _sequence(parts: list[Spec], list_key: str) -> Spec | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return {"type": "Sequence", list_key: parts}


def spec_hash(spec: Spec, special_ids: Collection[int]) -> str:
    """Return the SHA-256 (hex) of all that decides how text becomes tokens.

    Hashed: normaliser, pre-tokenizer, model type and flags, ordinary vocabulary, merges, and the
    added tokens that are no special ones. Spellings of one thing hash alike.

    Args:
        spec: As ``continuation_spec`` returns it.
        special_ids: As given to it.
    """
    head, model = _canonical_head(spec), spec["model"]
    digest = hashlib.sha256(b"cdec tokenization 1\n")
    digest.update(orjson.dumps(head, option=orjson.OPT_SORT_KEYS))
    if model["type"] == "Unigram":
        ordinary: list[Any] = [
            [i, *e] for i, e in enumerate(model["vocab"]) if i not in special_ids
        ]
    else:
        ordinary = sorted((i, token) for token, i in model["vocab"].items() if i not in special_ids)
    digest.update(orjson.dumps(ordinary))
    digest.update(orjson.dumps(model.get("merges")))
    return digest.hexdigest()


def _canonical_head(spec: Spec) -> Spec:
    """Return everything but vocabulary and merges, with defaults filled in."""
    from tokenizers import Tokenizer

    model = spec["model"]
    flags = {key: value for key, value in model.items() if key not in ("vocab", "merges")}
    empty: Spec = {"type": "BPE", "vocab": {}, "merges": []}
    if model["type"] == "BPE":
        empty = flags | {"vocab": {}, "merges": [], "unk_token": None}
    bare = spec | {"added_tokens": [], "model": empty}
    # The library's own writer fills in the defaults that older files leave out.
    head = orjson.loads(Tokenizer.from_buffer(orjson.dumps(bare)).to_str())
    parts = [_without(p, "trim_offsets") for p in pre_tokenizers(head)]
    norms = normalizers(head)
    escape = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
    if not parts and norms and norms[-1] == escape:
        # Two spellings of SentencePiece's escaping, both in use for one and the same model.
        norms = norms[:-1]
        parts = [{"type": "Metaspace", "replacement": SPACE_MARK, "prepend_scheme": "never"}]
        parts[0]["split"] = False
    written = flags if model["type"] != "BPE" else head["model"]
    ignored = ("vocab", "merges", "unk_token", "dropout")
    added = [t for t in spec["added_tokens"] if not t["special"]]
    return {
        "normalizers": norms,
        "pre_tokenizers": parts,
        "model": {k: v for k, v in written.items() if k not in ignored},
        "added": sorted(added, key=lambda token: int(token["id"])),
    }


def _without(part: Spec, key: str) -> Spec:
    return {k: v for k, v in part.items() if k != key}
