"""The byte string of every token of a tokenizer: byte-level BPE, SentencePiece, plain pieces."""

from __future__ import annotations

from collections.abc import Collection

from cdec.core.errors import ModelError
from cdec.core.tokens.spec import (
    SPACE_MARK,
    Spec,
    model_tokens,
    normalizers,
    pre_tokenizers,
)

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
    mark = None if byte_level else _space_mark(spec)
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
    mark = _space_mark(spec)
    byte_fallback = bool(spec["model"].get("byte_fallback"))
    fallback = {f"<0x{b:02X}>": bytes([b]) for b in range(256)} if byte_fallback else {}
    for token_id, token in tokens.items():
        byte = fallback.get(token)
        if byte is None:
            byte = (token if mark is None else token.replace(mark, " ")).encode()
        table[token_id] = byte


def _space_mark(spec: Spec) -> str | None:
    """Return the character that stands for a space in the pieces, None where a space does."""
    for part in pre_tokenizers(spec):
        if part["type"] == "Metaspace":
            return str(part.get("replacement", SPACE_MARK))
    for part in normalizers(spec):
        if part["type"] == "Replace" and part["pattern"] == {"String": " "}:
            return str(part["content"])
    return None
