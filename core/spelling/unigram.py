"""The token sequences that a Unigram tokenizer writes, token by token.

A state holds the best segmentation so far (``segments``), the begin of a character that is spelled
byte by byte, and of an added token's text. Whatever is allowed has an end: a text may end behind
each whole character, and bytes are allowed where some character begins so.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.recent import Recent
from cdec.core.spelling.added import NONE, Begun
from cdec.core.spelling.base import TokenStates
from cdec.core.spelling.charsmap import CharacterMap, is_mapping
from cdec.core.spelling.reading import ESCAPE, added_tokens, refusal
from cdec.core.spelling.segments import Pieces, Segmented
from cdec.core.spelling.shapes import code_points_of, needed_bytes
from cdec.core.tokens.spec import (
    SPACE_MARK,
    WORDS,
    Spec,
    normalizers,
    pre_tokenizers,
    space_mark,
)
from cdec.core.tokens.vocabulary import Vocabulary

_PENALTY = 10.0
"""By which the library scores an unknown character below the worst piece."""
_KEPT_BYTES, _KEPT = 64 << 20, 256
"""Of masks; masks of bytes, and for each some begins of characters."""
_SQUEEZES = [
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": one} for one in (" ", SPACE_MARK)
] + WORDS
"""Of several spaces one is left: of SentencePiece's files, and where words are marked."""
_WHITE = set("\t\n\x0b\x0c\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000")
_WHITE |= {chr(point) for point in range(0x2000, 0x200B)}
"""White space but the space."""


class Spelled(NamedTuple):
    """What counts of a text and its tokens.

    Attributes:
        cut: Into pieces, as far as characters are whole.
        begun: Bytes of a character that is begun.
        added: Beginnings of added tokens' texts.
        is_spaced: Whether the text ends in a space that must not be followed by another.
        tail: Characters that the normaliser may yet change with what follows.
    """

    cut: Segmented = Segmented()
    begun: bytes = b""
    added: Begun = NONE
    is_spaced: bool = False
    tail: str = ""


class UnigramSpeller(TokenStates[Spelled]):
    """States and masks of what a Unigram tokenizer writes.

    Args:
        vocabulary: Of a model with such a tokenizer.
        spec: ``vocabulary.spec()``. Cost: a second for 32,000 pieces.

    Attributes:
        map: What its normaliser maps characters by; None for nothing.

    Raises:
        CanonicalError: It has parts whose effect on a text is not known here.
    """

    def __init__(self, vocabulary: Vocabulary, spec: Spec) -> None:
        super().__init__(vocabulary)
        self._splits = _splits(spec)
        self._squeezes, self._trims, self.map = _normalised(spec)
        self._added, joins = added_tokens(spec, vocabulary)
        if joins and (self._squeezes or self.map):
            raise refusal("its added tokens are normalised, as spaces and characters are")
        mark = space_mark(spec)
        self._unspelled = {mark, " "} if mark else set()
        if self._trims:
            self._unspelled |= _WHITE
        self._bytes = _byte_tokens(spec)
        texts, scores = _texts(spec, mark, self._unspelled - {" "}, splits=self._splits)
        lowest = min(score for _, score in spec["model"]["vocab"])
        if lowest > _PENALTY:
            raise refusal("all of its pieces have scores above 10")
        self._pieces = Pieces(scores, lowest - _PENALTY)
        left_out = {*self._added.texts, *self._added.holding(), *self._bytes.values()}
        self._text = {
            token: text
            for text, token in texts.items()
            if vocabulary.is_ordinary[token] and token not in left_out
        }
        self._token = np.full(len(self._pieces.nodes), -1, np.int64)
        self._token[[self._pieces.nodes[text] for text in self._text.values()]] = [*self._text]
        self._spaced = self.packed([i for i, text in self._text.items() if text[0] == " "])
        self._double = self.packed([i for i, text in self._text.items() if "  " in text])
        self._joining = self._read_joining()
        self._barred: Recent[NDArray[np.int32]] = Recent(_KEPT)
        self._known, self._mixed = _characters(scores, self._unspelled)
        self._open: Recent[bool] = Recent(_KEPT << 6)
        self._free: Recent[NDArray[np.int32]] = Recent(_KEPT)
        self._breaks = self.packed(sorted(vocabulary.special_token_ids))
        self._rows: Recent[NDArray[np.int32]] = Recent(1 << 30, _KEPT_BYTES)

    @property
    def start(self) -> Spelled:
        """The state before the first token of a text."""
        return Spelled()

    def may_end(self, state: Spelled) -> bool:
        """Say whether a text may end here: behind each whole character that is left as it is.

        Where each word is marked, white space at an end is dropped: no text ends in any.
        """
        if state.begun or (self._trims and state.is_spaced):
            return False
        return self.map is None or self.map.is_kept(state.tail)

    def row(self, state: Spelled) -> NDArray[np.int32]:
        """Return the mask of what may follow, int32[words]: ends, too, where the text may end.

        Cost: some half millisecond for 32,000 pieces, once while it is kept.
        """
        found = self._rows.find(state)
        if found is None:
            found = self._row(state)
            self._rows.put(state, found, found.nbytes)
        return found

    def after(self, state: Spelled, token: int) -> Spelled | None:
        """Return the state after a token; None where the tokenizer writes none such."""
        if token in self._added.texts or token in self.vocabulary.special_token_ids:
            return self._broken(state, token)
        spelled = self.vocabulary.token_bytes[token] if token < self.vocabulary.size else b""
        added = self._added.after(state.added, spelled)
        if added is None or not spelled:
            return None
        if self._bytes.get(spelled) == token:
            return self._after_byte(state._replace(added=added), spelled)
        text = self._text.get(token)
        if text is None or state.begun:
            return None
        if self._squeezes and "  " in " " * state.is_spaced + text:
            return None
        cut, tail = self._pieces.after(self._from(state, text), text), self._kept(state.tail, text)
        if cut is None or tail is None:
            return None
        return Spelled(cut, b"", added, self._squeezes and text[-1] == " ", tail)

    def _broken(self, state: Spelled, token: int) -> Spelled | None:
        """Return the state after a special or an added token: what follows begins anew."""
        if not self.may_end(state):
            return None
        if token not in self._added.texts:
            return Spelled()
        added = self._added.after_added(state.added, token)
        return None if added is None else Spelled(added=added)

    def _from(self, state: Spelled, text: str) -> Segmented:
        """Return where a text is cut from: anew where it is split from what stands before."""
        return Segmented() if self._splits and text[0] == " " else state.cut

    def _kept(self, tail: str, text: str) -> str | None:
        """Return what may yet be changed after a text; None where it is."""
        return "" if self.map is None else self.map.after(tail, text)

    # --- Characters that are spelled byte by byte.

    def _after_byte(self, state: Spelled, byte: bytes) -> Spelled | None:
        begun = state.begun + byte
        if not self._goes_on(state, begun):
            return None
        if len(begun) < needed_bytes(begun[0]):
            return state._replace(begun=begun)
        cut, _ = self._pieces.step(state.cut, begun.decode())
        tail = self._kept(state.tail, begun.decode())
        if tail is None:
            return None
        return Spelled(cut, b"", state.added, tail=tail)

    def _goes_on(self, state: Spelled, begun: bytes) -> bool:
        """Say whether some character that begins with some bytes is spelled by its bytes."""
        if self._is_free(state.tail, begun):
            return True
        points = code_points_of(begun)
        mixed = (char for char in self._mixed if ord(char) in points)
        return any(
            self._pieces.step(state.cut, char)[1] == 0 and self._kept(state.tail, char) is not None
            for char in mixed
        )

    def _is_free(self, tail: str, begun: bytes) -> bool:
        """Say whether a character that no piece holds, and that begins so, may follow a text."""
        points = code_points_of(begun)
        unknown = (chr(point) for point in points if not self._known[point])
        return self._open.get(
            (tail, begun), lambda: any(self._kept(tail, char) is not None for char in unknown)
        )

    def _byte_row(self, state: Spelled) -> NDArray[np.int32]:
        """Return the mask of bytes, int32[words]."""
        key, begun = (state.tail, state.begun), state.begun
        own = [(begun + byte, token) for byte, token in self._bytes.items()]
        row = self._free.get(
            key, lambda: self.packed([i for b, i in own if self._is_free(state.tail, b)])
        )
        if self._mixed:
            row = row | self.packed([i for b, i in own if self._goes_on(state, b)])
        return row

    # --- Masks.

    def _row(self, state: Spelled) -> NDArray[np.int32]:
        row = self._byte_row(state).copy()
        if state.begun:
            return row & ~self.packed(self._added.completing(state.added))
        row |= self._written(state.cut)
        if self._splits:
            row = row & ~self._spaced | self._written(Segmented()) & self._spaced
        if self._squeezes:
            row &= ~(self._double | self._spaced if state.is_spaced else self._double)
        row &= ~self.packed(self._added.completing(state.added))
        if self.map is not None:
            row &= self._barred.get(state.tail, lambda: ~self.packed(self._changed(state.tail)))
        ids = [i for i in self._added.texts if self._broken(state, i) is not None]
        row |= self.packed(ids)
        return np.asarray(row | self._breaks if self.may_end(state) else row)

    def _read_joining(self) -> list[int]:
        """Return the tokens that may be changed with what stands before, or are by themselves."""
        table = self.map
        if table is None:
            return []
        own = self._text.items()
        return [i for i, t in own if table.after("", t) is None or table.joins("a", t)]

    def _changed(self, tail: str) -> list[int]:
        """Return the tokens behind which the text is changed, whatever follows."""
        assert self.map is not None
        is_apart = not self.map.joins(tail, "a") and self.map.is_kept(tail)
        asked = self._joining if is_apart else self._text.keys()
        return [i for i in asked if self._kept(tail, self._text[i]) is None]

    def _written(self, cut: Segmented) -> NDArray[np.int32]:
        tokens = self._token[self._pieces.may_follow(cut)]
        return self.packed(tokens[tokens >= 0])


def _splits(spec: Spec) -> bool:
    """Say whether texts are cut before each space."""
    parts = pre_tokenizers(spec)
    wrong = [part["type"] for part in parts if part["type"] != "Metaspace"]
    if wrong or len(parts) > 1:
        raise refusal(f"its pre-tokenizer has a part of the type {(wrong or ['Metaspace'])[0]}")
    return bool(parts) and bool(parts[0].get("split", True))


def _normalised(spec: Spec) -> tuple[bool, bool, CharacterMap | None]:
    """Return whether of white space one space is left, none at an end, and what else maps texts.

    Other normalisers are refused.
    """
    parts = [part for part in normalizers(spec) if part != ESCAPE]
    maps = list(takewhile(lambda part: part not in _SQUEEZES, parts))
    spaces = parts[len(maps) :]
    wrong = [part for part in maps if not is_mapping(part)]
    wrong += [part for part in spaces if part not in _SQUEEZES]
    if wrong:
        raise refusal(f"its normaliser has a part of the type {wrong[0]['type']}")
    return bool(spaces), WORDS[0] in spaces, CharacterMap(maps) if maps else None


def _byte_tokens(spec: Spec) -> dict[bytes, int]:
    """Return the tokens by which characters are spelled that are no pieces, by their byte."""
    if not spec["model"].get("byte_fallback"):
        return {}
    ids = {piece: i for i, (piece, _) in enumerate(spec["model"]["vocab"])}
    found = {bytes([byte]): ids.get(f"<0x{byte:02X}>", -1) for byte in range(256)}
    if -1 in found.values():
        raise refusal("some bytes have no token")
    return found


def _texts(
    spec: Spec, mark: str | None, unspelled: set[str], *, splits: bool
) -> tuple[dict[str, int], dict[str, float]]:
    """Return the tokens, and the scores, of the pieces that texts may hold, by text."""
    ids: dict[str, int] = {}
    scores: dict[str, float] = {}
    for token, (piece, score) in enumerate(spec["model"]["vocab"]):
        # A space is a mark before the model sees it, and a mark of the text's own is one as well.
        if not piece or (mark and " " in piece):
            continue
        text = piece.replace(mark, " ") if mark else piece
        if not (splits and " " in text[1:]) and unspelled.isdisjoint(text):
            ids[text], scores[text] = token, score
    return ids, scores


def _characters(
    scores: Mapping[str, float], unspelled: set[str]
) -> tuple[NDArray[np.bool_], list[str]]:
    """Return which code points pieces hold, or are never spelled, and which are no pieces."""
    known = np.zeros(0x110000, np.bool_)
    held = {char for text in scores for char in text}
    known[[ord(char) for char in held | unspelled]] = True
    return known, sorted(char for char in held - unspelled if char not in scores)
