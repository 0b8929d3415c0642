"""Cutting a text into tokens where no tokenizer says how."""

from __future__ import annotations

from cdec.core.errors import UntokenizableError
from cdec.core.tokens.vocabulary import Vocabulary


def longest_tokens(vocabulary: Vocabulary, text: bytes) -> list[int]:
    """Cut a text into the longest tokens from the left.

    Raises:
        UntokenizableError: At some byte no token fits.
    """
    ids: dict[bytes, int] = {}
    for token_id, token in enumerate(vocabulary.token_bytes):
        ids.setdefault(token, token_id)
    ids.pop(b"", None)
    longest = max(map(len, ids), default=0)
    found, at = [], 0
    while at < len(text):
        sizes = range(min(longest, len(text) - at), 0, -1)
        size = next((size for size in sizes if text[at : at + size] in ids), 0)
        if not size:
            raise UntokenizableError(
                f"no token begins like byte {at + 1} of the text",
                hint="name the tokenizer with `tokenizer`",
                byte_offset=at + 1,
            )
        found.append(ids[text[at : at + size]])
        at += size
    return found
