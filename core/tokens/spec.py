"""Specs of tokenizers: their form for continuation text, the bytes of their tokens, encoding.

A *spec* is the parsed JSON of the ``tokenizers`` library; every source of a tokenizer becomes one.
*Continuation text* is text in the middle of a sequence: " Paris" is the token that begins with a
space and "Paris" the one that does not, and text that looks like a special token is only text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from cdec.core.errors import CdecError, EncodingError, ModelError, UntokenizableError, UsageError
from cdec.core.mask import offsets_of

Spec: TypeAlias = "dict[str, Any]"

SPACE_MARK = "\u2581"
"""The character that stands for a space in SentencePiece's pieces."""


@dataclass(frozen=True, slots=True)
class UncheckedTokenizer:
    """A tokenizer as its source tells it.

    Attributes:
        spec: Its ``tokenizer.json``, as parsed.
        special_ids: Ids that stand for no text, beyond those the spec marks.
        eos_token_ids: Empty where the source does not say: then the usual names are looked for.
        bos_token_id: Likewise.
        name: Shown to people.
    """

    spec: Spec
    special_ids: set[int]
    eos_token_ids: set[int]
    bos_token_id: int | None
    name: str


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
    kept = [n for n in normalizers(spec) if n["type"] not in ("Prepend", "Strip")]
    pre = [_without_prefix_space(p) for p in pre_tokenizers(spec)]
    if _splits_words(spec):
        kept, pre = [*kept, *WORDS], [pre[1] | {"split": True}]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_hide_added(token, hidden) for token in spec["added_tokens"]],
        "normalizer": _sequence(kept, "normalizers"),
        "pre_tokenizer": _sequence(pre, "pretokenizers"),
        "post_processor": None,
        "decoder": None,
        "model": _hide_in_model(spec["model"], hidden),
    }


_BLANK = r"[\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
WORDS = [
    {"type": "Replace", "pattern": {"Regex": _BLANK + r"+\z"}, "content": ""},
    {"type": "Replace", "pattern": {"Regex": _BLANK + "+"}, "content": " "},
]
"""What leaves of white space what a pre-tokenizer leaves that marks the begin of each word."""


def _splits_words(spec: Spec) -> bool:
    """Say whether texts are cut at white space, and each word is marked (T5, XLM-R, ALBERT).

    In the middle of a sequence that is a mark for white space: a word that begins a text and has
    none before it goes on with the one before. White space at the end is dropped.
    """
    parts = pre_tokenizers(spec)
    if [part["type"] for part in parts] != ["WhitespaceSplit", "Metaspace"]:
        return False
    old = "always" if parts[1].get("add_prefix_space", True) else "never"
    return bool(parts[1].get("prepend_scheme", old) == "always")


FRAMING = ("normalizer", "pre_tokenizer", "post_processor")
"""Parts that make the text of a prompt of a continuation: spaces and special tokens around it."""


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


MAX_TOKENS = 1 << 24
"""More ids than any vocabulary has; an id past it is a broken file, not a token."""


def byte_alphabet() -> tuple[str, ...]:
    """Return the character that byte-level BPE writes for each byte, 256 of them.

    Printable bytes stand for themselves, the others follow from U+0100 on, in order (Radford et al.
    2019, the tokenizer of GPT-2).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = iter(range(0x100, 0x200))
    return tuple(chr(b) if b in printable else chr(next(shifted)) for b in range(256))


class _ByteOf(dict[int, int]):
    """Character -> byte for ``str.translate``; a character of no byte becomes U+FFFF."""

    def __missing__(self, character: int) -> int:
        return 0xFFFF


def token_bytes(spec: Spec, special_ids: Collection[int]) -> list[bytes]:
    """Return the bytes by token id; ``b""`` for special ids and holes.

    Args:
        spec: As ``continuation_spec`` returns it.
        special_ids: Ids that stand for no text.

    Raises:
        ModelError: An id that is absurd, or no token at all.
    """
    tokens = model_tokens(spec)
    added = {token["id"]: token["content"] for token in spec["added_tokens"]}
    ids = {*tokens, *added, *special_ids}
    if not ids or min(ids) < 0 or max(ids) >= MAX_TOKENS:
        raise ModelError(
            f"the tokenizer has token ids outside of 0 to {MAX_TOKENS - 1}, or none at all",
            hint="Check the tokenizer's files; one of them is damaged or empty.",
        )
    table = [b""] * (max(ids) + 1)
    byte_level = any(
        part["type"] == "ByteLevel" for part in normalizers(spec) + pre_tokenizers(spec)
    )
    if byte_level:
        _fill_byte_level(table, tokens)
    else:
        _fill_pieces(table, tokens, spec)
    mark = None if byte_level else space_mark(spec)
    for token_id, content in added.items():
        text = content if mark is None else content.replace(mark, " ")
        # A SentencePiece byte token stays a byte where the file lists it as an added token too.
        if mark is None or token_id not in tokens:
            table[token_id] = text.encode()
    for token_id in special_ids:
        table[token_id] = b""
    return table


def refuse_unfaithful(spec: Spec) -> None:
    """Raise ModelError where the tokens of a kind of tokenizer do not spell the text."""
    model = spec["model"]
    affixes = [model.get("continuing_subword_prefix"), model.get("end_of_word_suffix")]
    if model["type"] in ("BPE", "Unigram") and not any(affixes):
        return
    found = model["type"] + (
        f" with the affix {next(filter(None, affixes))!r}" if any(affixes) else ""
    )
    raise ModelError(
        f"the tokenizer is of the kind {found}: it drops spaces, so its tokens do not spell the "
        "text; expected byte-level BPE, SentencePiece (BPE or Unigram), tekken or tiktoken",
        hint="Use a model of another tokenizer, or give Vocabulary the bytes of every token.",
        kind=model["type"],
    )


def _fill_byte_level(table: list[bytes], tokens: dict[int, str]) -> None:
    byte_of = _ByteOf({ord(char): byte for byte, char in enumerate(byte_alphabet())})
    for token_id, token in tokens.items():
        try:
            table[token_id] = token.translate(byte_of).encode("latin-1")
        except UnicodeEncodeError:  # not in the byte alphabet: text that was put in by hand
            table[token_id] = token.encode()


def _fill_pieces(table: list[bytes], tokens: dict[int, str], spec: Spec) -> None:
    mark = space_mark(spec)
    byte_fallback = bool(spec["model"].get("byte_fallback"))
    fallback = {f"<0x{b:02X}>": bytes([b]) for b in range(256)} if byte_fallback else {}
    for token_id, token in tokens.items():
        byte = fallback.get(token)
        if byte is None:
            byte = (token if mark is None else token.replace(mark, " ")).encode()
        table[token_id] = byte


def space_mark(spec: Spec) -> str | None:
    """Return the character that stands for a space in the pieces, None where a space does."""
    for part in pre_tokenizers(spec):
        if part["type"] == "Metaspace":
            return str(part.get("replacement", SPACE_MARK))
    for part in normalizers(spec):
        if part["type"] == "Replace" and part["pattern"] == {"String": " "}:
            return str(part["content"])
    return None


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
        lengths = np.zeros(len(texts), np.int64)
        pieces = [np.zeros(0, dtype=np.int32)]
        for start in range(0, len(texts), CHUNK):
            rows = [encoding.ids for encoding in self._encode(texts[start : start + CHUNK], start)]
            lengths[start : start + len(rows)] = [*map(len, rows)]
            total = int(lengths[start : start + len(rows)].sum())
            pieces.append(np.fromiter(chain.from_iterable(rows), np.int32, count=total))
        return np.concatenate(pieces), offsets_of(lengths)

    def spec(self) -> Spec:
        """Return its spec for continuation text, parsed anew: half a second for 131,072 tokens."""
        found: Spec = orjson.loads(self._backend.to_str())
        return found

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
