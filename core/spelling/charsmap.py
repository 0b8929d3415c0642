"""Texts that a table of characters leaves as they are, told piece by piece.

SentencePiece's normaliser (``Precompiled`` of the library) maps graphemes: one of fewer than six
bytes as a whole, by the shortest entry that begins it, longer ones character by character. Whether
a text stays as it is is asked of the normaliser itself; what is read here of characters only says
where a grapheme surely begins, so that no more than the end of a text counts for what follows.

Source: Unicode Standard Annex 29, section 3.1.1.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache

_BEGINNING = {"Lu", "Ll", "Lt", "Nd", "Nl", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Zs", "Cc"}
"""Categories of characters that belong to no grapheme begun before, but for those below."""
_PICTURES = {0x203C, 0x2049, 0x2139, 0x3030, 0x303D}
_LETTERS = (
    *((0x5D0, 0x5EB), (0x620, 0x64B), (0xE01, 0xE31), (0x3041, 0x3097), (0x30A1, 0x30FB)),
    *((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0x20000, 0x2A6E0)),
)
"""Other letters of that kind."""
_JAMO = ((0x1100, 0x1200), (0xA960, 0xA980), (0xD7B0, 0xD800))
"""Letters that the next one may belong to, as to those that stand before all others (Prepend)."""
_EXTENDING = ("\u0301", "\u0308", "\u0327", "\u20dd", "\ufe0f", "\u200d")


@cache
def _begins(char: str) -> bool:
    """Say whether a character surely begins a grapheme, where what stands before lets it."""
    point = ord(char)
    if point in _PICTURES or char == "\n":
        return False
    known = unicodedata.category(char) in _BEGINNING or " " <= char <= "~"
    return known or any(first <= point < last for first, last in _LETTERS)


@cache
def _lets_begin(char: str) -> bool:
    """Say whether a grapheme may end behind a character, whatever follows that can begin one."""
    point, category = ord(char), unicodedata.category(char)
    if any(first <= point < last for first, last in _JAMO) or category in ("Cf", "Cn"):
        return False
    return category != "Lo" or (point != 0xD4E and not 0x11000 <= point < 0x20000)


class CharacterMap:
    """A normaliser that maps graphemes.

    Args:
        table: As SentencePiece's files hold it.
    """

    def __init__(self, table: bytes) -> None:
        from tokenizers import normalizers

        normalizer = normalizers.Precompiled(table)

        @lru_cache(1 << 14)
        def is_kept(text: str) -> bool:
            return bool(normalizer.normalize_str(text) == text)

        self.is_kept = is_kept
        fixed = [char for char in _EXTENDING if is_kept(char) and is_kept("a" + char * 6)]
        # A grapheme that has become long is mapped by its characters alone.
        self._long = fixed[0] * 6 if fixed else ""

    def joins(self, tail: str, text: str) -> bool:
        """Say whether a text may belong to a grapheme that the one before, ``tail``, begins."""
        return bool(tail) and not (_begins(text[0]) and _lets_begin(tail[-1]))

    def after(self, tail: str, text: str) -> str | None:
        """Return the end of a text that may yet be changed; None where the text is.

        Args:
            tail: The same of the text before.
            text: What follows it.
        """
        whole = tail + text
        at = len(whole) - 1
        while at > 0 and not (_begins(whole[at]) and _lets_begin(whole[at - 1])):
            at -= 1
        head, rest = whole[:at], whole[at:]
        if not self.is_kept(head):
            return None
        return rest if self.is_kept(rest) or self.is_kept(rest + self._long) else None
