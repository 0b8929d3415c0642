"""The token sequences that a tokenizer writes, token by token.

A state holds what counts of the text before: the guesses of where pre-tokens ended (``splits``),
the last token, the begin of a character, of an added token's text, and what may yet be composed. A
token may follow where a guess lives behind it: one that a pre-token ended before it, or one that it
did not, and then byte pair encoding must leave the two tokens apart (``merges``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import offsets_of
from cdec.core.recent import Recent
from cdec.core.spelling.added import NONE, Begun
from cdec.core.spelling.base import Plain, TokenStates, spelling_columns
from cdec.core.spelling.composition import is_normal, stands_alone
from cdec.core.spelling.composition import tail_of as tail_of_text
from cdec.core.spelling.reading import Spelling
from cdec.core.spelling.shapes import code_points_of, needed_bytes

_WITHIN, _ACROSS = 0, 1
"""Whether the character that is begun stands in the pre-token of the one before, or begins one."""
_NOWHERE = -1
"""Place before the first character of a text."""
Guess: TypeAlias = "tuple[int, int, bytes | None]"
"""Place, one of the two above, and the pre-token's text where a whole token may stand for it."""
_NO_TOKEN = -1
_SIMPLE, _TOLD = 1, 2
"""How the library follows a token behind a plain state: by its shape, or as it is told."""
_KEPT_BYTES = 64 << 20
"""Of masks."""
_KEPT, _KEPT_LANDINGS = 256, 1 << 16
"""Parts of masks, and steps of guesses."""


class Spelled(NamedTuple):
    """What counts of a text and its tokens.

    Attributes:
        guesses: Those that live, ascending.
        token: The last one, or -1 where a text or a part of it begins.
        begun: Bytes of a character that is begun.
        added: Beginnings of added tokens' texts.
        tail: Characters that may yet be composed with others.
    """

    guesses: tuple[Guess, ...]
    token: int = _NO_TOKEN
    begun: bytes = b""
    added: Begun = NONE
    tail: str = ""


class _Tailed(NamedTuple):
    """Shapes that end in the begin of a character.

    Attributes:
        numbers: int64[n] of these shapes.
        tails: int64[n] number of their begin.
        has_text: bool[n] whether characters stand before it.
        goes_on: bool[tails, places] whether some character that begins so may stand at a place, in
            the same pre-token.
    """

    numbers: NDArray[np.int64]
    tails: NDArray[np.int64]
    has_text: NDArray[np.bool_]
    goes_on: NDArray[np.bool_]


START = Spelled(((_NOWHERE, _ACROSS, None),))


def _flat(lists: Sequence[Iterable[int]]) -> NDArray[np.int32]:
    return np.array([each for some in lists for each in some], np.int32)


class Speller(TokenStates[Spelled]):
    """States and masks of what a tokenizer writes.

    Args:
        spelling: The tokenizer.
    """

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling.vocabulary)
        self._spelling = spelling
        self._splits, self._shapes = spelling.splits, spelling.shapes
        self._beginnings = {t[:n] for t in spelling.wholes for n in range(1, len(t) + 1)}
        self._follows = spelling.merges.row
        self._firsts: dict[tuple[int, int], list[NDArray[np.int32]]] = {}
        self._placed: dict[tuple[int, int], NDArray[np.int32]] = {}
        self._leading = [i for i, p in enumerate(spelling.parts) if p is not None and p.lead]
        self._possible: dict[bytes, NDArray[np.int64]] = {}
        self._is_whole = np.array([not lead for lead in self._shapes.leads], np.bool_)
        self._tails = sorted(set(self._shapes.tails) - {b""})
        self._tailed = self._read_tails()
        self._breaks = self.packed(sorted(self.vocabulary.special_token_ids))
        self._joining = self._read_joining() if spelling.is_composed else []
        self._rows: Recent[NDArray[np.int32]] = Recent(1 << 30, _KEPT_BYTES)
        self._guessed: Recent[tuple[NDArray[np.int32], NDArray[np.int32]]] = Recent(_KEPT)
        self._barred: Recent[NDArray[np.int32]] = Recent(_KEPT)
        self._landings: Recent[tuple[Guess, ...]] = Recent(_KEPT_LANDINGS)
        self._is_read = {
            i for i, token in enumerate(self.vocabulary.token_bytes) if token in self._beginnings
        }
        self._tail_ids, self._tail_texts = {"": 0}, [""]

    @property
    def start(self) -> Spelled:
        """The state before the first token of a text."""
        return START

    def may_end(self, state: Spelled) -> bool:
        """Say whether a text may end here, or whether a special or added token may follow."""
        if state.begun:
            return False
        ends, wholes = self._splits.may_end, self._spelling.wholes
        return any(
            p == _NOWHERE or (ends[p] and text not in wholes) for p, _, text in state.guesses
        )

    def row(self, state: Spelled) -> NDArray[np.int32]:
        """Return the mask of what may follow, int32[words]: ends, too, where the text may end.

        Cost: some 10 microseconds for 131,072 tokens, once while it is kept, beside that of
        ``Merges.row``.
        """
        found = self._rows.find(state)
        if found is None:
            found = self._row(state)
            self._rows.put(state, found, found.nbytes)
        return found

    def after(self, state: Spelled, token: int) -> Spelled | None:
        """Return the state after a token; None where the tokenizer writes none such."""
        if token in self._spelling.added.texts:
            return self._after_added(state, token)
        parts = self._spelling.parts[token] if token < self.vocabulary.size else None
        if parts is None:
            return None if token not in self.vocabulary.special_token_ids else self._broken(state)
        tail = state.tail
        if self._spelling.is_composed:
            composed = self._composed(state, token)
            if composed is None:
                return None
            tail = composed
        added = self._spelling.added.after(state.added, self.vocabulary.token_bytes[token])
        guesses = self._guesses_after(state, token)
        if added is None or not guesses:
            return None
        begun = parts.tail if parts.text or not state.begun else state.begun + parts.lead
        if not parts.text and state.begun and len(begun) == needed_bytes(begun[0]):
            begun = parts.tail
        return Spelled(guesses, token, begun, added, tail)

    def _broken(self, state: Spelled) -> Spelled | None:
        """Return the state after a special token: what follows begins anew."""
        return START if self.may_end(state) else None

    def _after_added(self, state: Spelled, token: int) -> Spelled | None:
        added = self._spelling.added.after_added(state.added, token)
        if added is None or not self.may_end(state):
            return None
        tail = ""
        if self._spelling.is_composed and self._spelling.added_join:
            text = state.tail + self.vocabulary.token_bytes[token].decode()
            if not is_normal(text):
                return None
            tail = tail_of_text(text)
        return START._replace(added=added, tail=tail)

    # --- What the library follows (``native/canonical``).

    def columns(self) -> tuple[Any, ...]:
        """Return the tokenizer as the library has it, and which tokens it follows itself."""
        splits, shapes = self._splits, self._shapes
        cells = [to for row in splits.across for to in row]
        lengths = (shapes.sequences >= 0).sum(axis=1)
        index = {tail: number for number, tail in enumerate(self._tails)} | {b"": -1}
        tail_classes = [self._classes_of(tail) for tail in self._tails]
        kind, tail_of = self._kinds()
        return spelling_columns(
            *(self.words, self.vocabulary, splits.first, splits.within.reshape(-1)),
            *(offsets_of([len(to) for to in cells]), _flat(cells), splits.may_end),
            *(offsets_of(lengths), shapes.sequences[shapes.sequences >= 0].astype(np.int32)),
            np.array([index[tail] for tail in shapes.tails], np.int32),
            *(offsets_of([len(each) for each in tail_classes]), _flat(tail_classes)),
            *(~self._is_whole, shapes.of, kind, tail_of, *self._spelling.merges.columns()),
        )

    def _kinds(self) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Return of tokens how the library follows them behind plain states, and their tails."""
        kind = np.zeros(self.vocabulary.width, np.uint8)
        tail_of = np.zeros(self.vocabulary.width, np.int32)
        told = self._is_read | set(self._joining)
        kind[[*self.vocabulary.special_token_ids, *self._spelling.added.texts]] = _TOLD
        begins = self._spelling.added.may_begin
        for token, parts in enumerate(self._spelling.parts):
            if parts is None or kind[token] == _TOLD:
                continue
            is_plain = parts.text and not parts.lead and not parts.tail and token not in told
            is_simple = is_plain and not begins(self.vocabulary.token_bytes[token])
            kind[token] = _SIMPLE if is_simple else _TOLD
            if is_simple and self._spelling.is_composed:
                tail_of[token] = self._tail_id(tail_of_text(parts.text))
        return kind, tail_of

    def _tail_id(self, tail: str) -> int:
        number = self._tail_ids.setdefault(tail, len(self._tail_texts))
        if number == len(self._tail_texts):
            self._tail_texts.append(tail)
        return number

    def plain(self, state: Spelled) -> Plain | None:
        """Return a state where no character, no added token and no whole token is begun."""
        if state.begun or state.added:
            return None
        for place, way, text in state.guesses:
            if text is not None or way != (_ACROSS if place == _NOWHERE else _WITHIN):
                return None
        places = tuple(sorted(place for place, _, _ in state.guesses))
        return Plain(places, self._tail_id(state.tail), state.token)

    def state_of(self, plain: Plain) -> Spelled:
        """Return the state that is ``plain`` in the library."""
        guesses = [(p, _ACROSS if p == _NOWHERE else _WITHIN, None) for p in plain.places]
        tail = self._tail_texts[plain.tail]
        return Spelled(tuple(sorted(guesses, key=repr)), plain.token, tail=tail)

    def tail_masks(self, tail: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the masks of what keeps a text normal, and of what may break it off."""
        state = START._replace(tail=self._tail_texts[tail])
        barred = self._uncomposed(state) if self._spelling.is_composed else []
        texts = self._spelling.added.texts
        ids = [token for token in texts if self._after_added(state, token) is not None]
        return ~self.packed(barred), self._breaks | self.packed(ids)

    # --- Guesses.

    def _guesses_after(self, state: Spelled, token: int) -> tuple[Guess, ...]:
        """Return the guesses that live behind a token that is text."""
        parts = self._spelling.parts[token]
        assert parts is not None
        if bool(state.begun) != bool(parts.lead):
            return ()
        follows = state.token != _NO_TOKEN and self._has(self._follows(state.token), token)
        # What is behind depends on the token's shape alone, but where its text is read.
        shape = int(self._shapes.of[token])
        key = state.guesses, state.begun, follows, token if token in self._is_read else ~shape
        known = self._landings.find(key)
        if known is None:
            known = self._behind(state, token, follows=follows)
            self._landings.put(key, known)
        return known

    def _behind(self, state: Spelled, token: int, *, follows: bool) -> tuple[Guess, ...]:
        found: set[Guess] = set()
        for place, how, text in state.guesses:
            if state.begun:
                ways = [how] if follows else []
            else:
                ways = [_WITHIN] if follows and place != _NOWHERE else []
                if text not in self._spelling.wholes:
                    ways.append(_ACROSS)
            for way in ways:
                is_new = way == _ACROSS and not state.begun
                read = self._read_on(None if is_new else text, token, is_new=is_new)
                found |= {(*at, read) for at in self._landed(place, way, state.begun, token)}
        return tuple(sorted(found, key=repr))

    def _read_on(self, text: bytes | None, token: int, *, is_new: bool) -> bytes | None:
        """Return the text of a pre-token after a token, where a whole token may stand for it."""
        own = self.vocabulary.token_bytes[token]
        if is_new:
            # A token that merges do not make is the whole pre-token itself.
            text = b"" if self._spelling.merges.is_made[token] else None
        whole = None if text is None else text + own
        return whole if whole in self._beginnings else None

    def _landed(self, place: int, way: int, begun: bytes, token: int) -> set[tuple[int, int]]:
        """Return the places behind a token, with how the character goes on that it begins."""
        parts = self._spelling.parts[token]
        assert parts is not None
        text, tail, places = parts.text, parts.tail, {place}
        if begun:
            whole = begun + parts.lead
            if len(whole) < needed_bytes(whole[0]) and not text and not tail:
                return {(place, way)} if self._may_go_on(place, way, whole) else set()
            try:
                text = whole.decode() + text
            except UnicodeDecodeError:
                return set()
            characters = self._spelling.characters
            if len(text) <= len(parts.text) or (
                characters is not None and characters[ord(text[0])]
            ):
                return set()
        if not text:
            return {(place, way)} if self._may_go_on(place, way, tail) else set()
        chars = self._shapes.classes[[ord(char) for char in text]].tolist()
        places = {int(first[chars[0]]) for first in self._first(place, way)} - {-1}
        for char in chars[1:]:
            places = {int(self._splits.within[at, char]) for at in places} - {-1}
        if tail:
            return {(at, _WITHIN) for at in places if self._may_go_on(at, _WITHIN, tail)}
        return {(at, _WITHIN) for at in places}

    def _first(self, place: int, way: int) -> list[NDArray[np.int32]]:
        """Return the places after the first character of a token, int32[classes] for each guess."""
        found = self._firsts.get((place, way))
        if found is None:
            if place == _NOWHERE:
                found = [self._splits.first]
            elif way == _WITHIN:
                found = [self._splits.within[place]]
            else:
                targets = self._splits.across[place]
                most = max(map(len, targets), default=0)
                found = [
                    np.array([to[k] if k < len(to) else -1 for to in targets], np.int32)
                    for k in range(most)
                ]
            self._firsts[place, way] = found
        return found

    def _may_go_on(self, place: int, way: int, begun: bytes) -> bool:
        """Say whether some character that begins with some bytes may stand at a place."""
        classes = self._classes_of(begun)
        return any(bool((first[classes] >= 0).any()) for first in self._first(place, way))

    def _classes_of(self, begun: bytes) -> NDArray[np.int64]:
        """Return the classes of the characters that begin with some bytes."""
        found = self._possible.get(begun)
        if found is None:
            points = code_points_of(begun)
            classes = self._shapes.classes[points.start : points.stop].astype(np.int64)
            if self._spelling.characters is not None:
                classes = classes[~self._spelling.characters[points.start : points.stop]]
            found = self._possible[begun] = np.unique(classes)
        return found

    # --- Masks.

    def _row(self, state: Spelled) -> NDArray[np.int32]:
        if state.begun:
            row = self.packed([i for i in self._leading if self._guesses_after(state, i)])
        else:
            across, within = self._guessed.get(state.guesses, lambda: self._guessed_rows(state))
            row = across.copy()
            if state.token != _NO_TOKEN:
                row |= within & self._follows(state.token)
        if state.added:
            row &= ~self.packed(self._spelling.added.completing(state.added))
        if self._spelling.is_composed:
            key = state.tail, state.begun
            row &= self._barred.get(key, lambda: ~self.packed(self._uncomposed(state)))
        if self.may_end(state):
            row |= self._breaks
            texts = self._spelling.added.texts
            if texts:
                ids = [i for i in texts if self._after_added(state, i) is not None]
                row |= self.packed(ids)
        return row

    def _guessed_rows(self, state: Spelled) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the masks of what may follow across a boundary, and within a pre-token."""
        across, within = np.zeros(self.words, np.int32), np.zeros(self.words, np.int32)
        for place, _, text in state.guesses:
            if text not in self._spelling.wholes:
                across |= self._place_row(place, _ACROSS)
            if place != _NOWHERE:
                within |= self._place_row(place, _WITHIN)
        return across, within

    def _uncomposed(self, state: Spelled) -> list[int]:
        """Return the tokens behind which the text is not normal."""
        return [i for i in self._joining if self._composed(state, i) is None]

    def _place_row(self, place: int, way: int) -> NDArray[np.int32]:
        """Return the mask of the tokens that may follow a place where no character is begun."""
        found = self._placed.get((place, way))
        if found is None:
            shapes = self._shapes
            lives = np.zeros(len(shapes.leads), np.bool_)
            for first in self._first(place, way):
                lives |= self._live_shapes(shapes.walk(self._splits, first), first)
            lives &= self._is_whole
            chosen = np.append(lives, False)[shapes.of]  # the last is that of no text
            found = self._placed[place, way] = self.packed(np.flatnonzero(chosen))
        return found

    def _live_shapes(self, at: NDArray[np.int32], first: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Say of shapes with the places behind them whether the character begun there may go on."""
        lives = at >= 0
        numbers, tails, has_text, goes_on = self._tailed
        begins = np.array([(first[self._classes_of(tail)] >= 0).any() for tail in self._tails])
        # subtle: the place DEAD_PLACE is none, and picks the last, which does not count.
        behind = lives[numbers] & goes_on[tails, at[numbers]]
        lives[numbers] = np.where(has_text, behind, begins[tails]) if len(begins) else False
        return lives

    def _read_tails(self) -> _Tailed:
        """Return the shapes that end in the begin of a character, and where that may go on."""
        shapes = self._shapes
        index = {tail: number for number, tail in enumerate(self._tails)}
        numbers = [number for number, tail in enumerate(shapes.tails) if tail]
        tails = np.array([index[shapes.tails[number]] for number in numbers], np.int64)
        longest = shapes.sequences.shape[1]
        has_text = shapes.sequences[numbers, 0] >= 0 if longest else np.zeros(len(tails), np.bool_)
        within = self._splits.within
        goes_on = [(within[:, self._classes_of(tail)] >= 0).any(axis=1) for tail in self._tails]
        rows = np.array(goes_on, np.bool_).reshape(len(goes_on), len(within))
        return _Tailed(np.array(numbers, np.int64), tails, np.asarray(has_text), rows)

    def _has(self, row: NDArray[np.int32], token: int) -> bool:
        return bool(row[token >> 5] >> (token & 31) & 1)

    # --- Composition.

    def _read_joining(self) -> list[int]:
        """Return the tokens that may be composed with what stands before, or are no normal text."""
        found = []
        for token, parts in enumerate(self._spelling.parts):
            if parts is not None and not parts.text.isascii():
                if parts.lead or not stands_alone(parts.text[0]) or not is_normal(parts.text):
                    found.append(token)
            elif parts is not None and parts.lead:
                found.append(token)
        return found

    def _composed(self, state: Spelled, token: int) -> str | None:
        """Return what may yet be composed after a token; None where the text is not normal."""
        parts = self._spelling.parts[token]
        assert parts is not None
        text = parts.text
        if state.begun:
            whole = state.begun + parts.lead
            if len(whole) >= needed_bytes(whole[0]):
                text = whole.decode("utf-8", "replace") + text
        if not text:
            return state.tail
        if not text.isascii() and not is_normal(state.tail + text):
            return None
        return tail_of_text(state.tail + text)
