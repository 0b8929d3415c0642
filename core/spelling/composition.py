"""Normal form C between tokens: whether a text stays what the tokenizer's normaliser makes of it.

A tokenizer that normalises writes no tokens for a text that is not normal: its tokens spell the
normal one. What is read here of characters only says which are looked at: those that may join with
what stands before. Whether they do is asked of the normaliser itself.
"""

from __future__ import annotations

import unicodedata
from functools import cache

_JOINING_ASCII = frozenset("<=>") | {chr(c) for c in range(128) if chr(c).isalpha()}


@cache
def _seconds() -> frozenset[str]:
    """Return the characters that a character before may join with."""
    found = {chr(c) for c in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # Hangul
    for point in range(0x110000):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return frozenset(found)


@cache
def stands_alone(char: str) -> bool:
    """Say whether a character neither joins nor changes places with what stands before it."""
    if char < "\u0300":
        return True
    return (
        unicodedata.combining(char) == 0
        and char not in _seconds()
        and unicodedata.is_normalized("NFC", char)
    )


@cache
def is_normal(text: str) -> bool:
    """Say whether the library's normaliser leaves a text as it is."""
    from tokenizers import normalizers

    return bool(normalizers.NFC().normalize_str(text) == text)


def tail_of(text: str) -> str:
    """Return the end of a text that may join with what follows, from its last lone character."""
    at = len(text) - 1
    while at > 0 and not stands_alone(text[at]):
        at -= 1
    tail = text[max(at, 0) :]
    return "" if len(tail) == 1 and tail.isascii() and tail not in _JOINING_ASCII else tail
