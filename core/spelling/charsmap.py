"""Texts that normalisers leave as they are, told piece by piece.

SentencePiece's normaliser (``Precompiled`` of the library) maps graphemes: one of fewer than six
bytes as a whole, by the shortest entry that begins it, longer ones character by character. Whether
a text stays as it is is asked of the normaliser itself; what is read here of characters only says
where a grapheme surely begins, so that no more than the end of a text counts for what follows.
There nothing is composed with what stands before, either, and no text that is replaced goes on.

Source: Unicode Standard Annex 29, section 3.1.1.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from orjson import dumps

from cdec.core.tokens.spec import SPACE_MARK, Spec

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


_MAPPING = {"Precompiled", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"}


def is_mapping(part: Spec) -> bool:
    """Say whether what a normaliser leaves as it is can be told here."""
    if part["type"] != "Replace":
        return part["type"] in _MAPPING
    replaced = part["pattern"].get("String", "")
    return bool(replaced) and " " not in replaced and SPACE_MARK not in replaced


def _normaliser(parts: Sequence[Spec]) -> Callable[[str], str]:
    from tokenizers import Tokenizer

    whole = {"type": "Sequence", "normalizers": list(parts)}
    model = {"type": "BPE", "vocab": {}, "merges": []}
    spec = {"version": "1.0", "normalizer": whole, "model": model, "added_tokens": []}
    found: Callable[[str], str] = Tokenizer.from_buffer(dumps(spec)).normalizer.normalize_str
    return found


class CharacterMap:
    """Normalisers that map graphemes, characters, or texts by others, one after the other.

    Args:
        parts: As the tokenizer's JSON has them (``is_mapping``).
    """

    def __init__(self, parts: Sequence[Spec]) -> None:
        normalised = _normaliser(parts)

        @lru_cache(1 << 14)
        def is_kept(text: str) -> bool:
            return normalised(text) == text

        self.is_kept = is_kept
        # What a later one maps is what the ones before made of a text.
        self._before = [_normaliser(parts[:count]) for count in range(1, len(parts))]
        replaced = [part["pattern"]["String"] for part in parts if part["type"] == "Replace"]
        self._inside = {char for text in replaced for char in text[1:]}
        self._edges: dict[str, tuple[bool, bool]] = {}
        fixed = [char for char in _EXTENDING if is_kept(char) and is_kept("a" + char * 6)]
        # A grapheme that has become long is mapped by its characters alone.
        self._long = fixed[0] * 6 if fixed else ""

    def _edges_of(self, char: str) -> tuple[bool, bool]:
        """Say of a character whether it surely begins a grapheme, and whether it lets one begin."""
        found = self._edges.get(char)
        if found is None:
            images = [char, *(normalised(char) for normalised in self._before)]
            begins = all(
                text and _begins(text[0]) and self._inside.isdisjoint(text) for text in images
            )
            lets = all(text and _lets_begin(text[-1]) for text in images)
            found = self._edges[char] = begins, lets
        return found

    def joins(self, tail: str, text: str) -> bool:
        """Say whether a text may belong to a grapheme that the one before, ``tail``, begins."""
        return bool(tail) and not self._parts(tail[-1], text[0])

    def _parts(self, left: str, right: str) -> bool:
        """Say whether two characters surely stand in graphemes of their own."""
        return self._edges_of(right)[0] and self._edges_of(left)[1]

    def after(self, tail: str, text: str) -> str | None:
        """Return the end of a text that may yet be changed; None where the text is.

        Args:
            tail: The same of the text before.
            text: What follows it.
        """
        whole = tail + text
        at = len(whole) - 1
        while at > 0 and not self._parts(whole[at - 1], whole[at]):
            at -= 1
        head, rest = whole[:at], whole[at:]
        if not self.is_kept(head):
            return None
        return rest if self.is_kept(rest) or self.is_kept(rest + self._long) else None
