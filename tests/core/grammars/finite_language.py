"""Finite languages of grammars, and walks along their masks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD, DONE, Constraint, Facts, Session
from cdec.core.mask import allocate_mask, mask_words, pack_mask, unpack_mask
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.grammar_cases import random_split

# --- A finite language of byte strings as a constraint: any tokens may spell a text. Plain
# Python.


class FiniteSession(Session):
    """States are the prefixes of texts, by number."""

    device = "cpu"

    def __init__(self, texts: Iterable[bytes], vocabulary: Vocabulary) -> None:
        self.texts = set(texts)
        self.prefixes = sorted({text[:n] for text in self.texts for n in range(len(text) + 1)})
        self.number = {prefix: i for i, prefix in enumerate(self.prefixes)}
        self.vocabulary = vocabulary
        self.words = mask_words(vocabulary.width)

    def start(self, n: int) -> NDArray[np.int64]:
        return np.full(n, self.number[b""], np.int64)

    def _step(self, state: int, token: int) -> int:
        if not 0 <= state < len(self.prefixes) or not 0 <= token < self.vocabulary.size:
            return DEAD
        prefix = self.prefixes[state]
        if token in self.vocabulary.eos_token_ids:
            return DONE if prefix in self.texts else DEAD
        added = self.vocabulary.token_bytes[token]
        return self.number.get(prefix + added, DEAD) if added else DEAD

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        pairs = zip(np.asarray(states).tolist(), np.asarray(token_ids).tolist(), strict=True)
        return np.array([self._step(state, token) for state, token in pairs], np.int64)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        pairs = zip(np.asarray(states).tolist(), texts, strict=True)
        return np.array(
            [self.number.get(self.prefixes[state] + text, DEAD) for state, text in pairs], np.int64
        )

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        tokens = np.asarray(token_ids)
        rows = [
            [self._step(state, token) != DEAD for token in row]
            for state, row in zip(np.asarray(states).tolist(), tokens.tolist(), strict=True)
        ]
        return np.array(rows, np.bool_).reshape(tokens.shape)

    def _allowed(self, states: Any) -> NDArray[np.bool_]:
        every = np.tile(np.arange(self.vocabulary.width), (len(states), 1))
        return self.check(states, every)

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        mask[:] = pack_mask(self._allowed(states))

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        allowed = self._allowed(states)
        offsets = np.concatenate([[0], np.cumsum(allowed.sum(axis=1))]).astype(np.int64)
        return offsets, allowed.nonzero()[1].astype(np.int32)

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        return np.array(
            [
                s == DONE or (0 <= s < len(self.prefixes) and self.prefixes[s] in self.texts)
                for s in np.asarray(states).tolist()
            ],
            np.bool_,
        )

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        lists = []
        for row in self._allowed(states):
            ids = row.nonzero()[0].tolist()
            ends = [t for t in ids if t in self.vocabulary.eos_token_ids]
            events = [t for t in ids if t not in ends] + ends[:1]
            lists.append(events if len(events) == 1 else [])
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int64)
        return offsets, np.array([t for part in lists for t in part], np.int32)

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        return np.asarray(states)


class FiniteLanguage(Constraint):
    """The constraint of these texts."""

    facts = Facts(
        kind="grammar",
        is_sound=True,
        has_speculation_keys=True,
        takes_bytes=True,
        metadata={"cdec.digest": "finite"},
    )

    def __init__(self, texts: Iterable[bytes], vocabulary: Vocabulary) -> None:
        self.texts = frozenset(texts)
        self.vocabulary = vocabulary

    def session(self, device: str = "cpu") -> FiniteSession:
        return FiniteSession(self.texts, self.vocabulary)

    def accepts(self, text: bytes) -> bool | None:
        return text in self.texts


# --- Walks of texts through grammar sessions, byte by byte or token by token.


def walk(session: Any, ids: Any) -> np.ndarray:
    """Return the state after the tokens, int64[1]."""
    states = session.start(1)
    for token in ids:
        states = session.advance(states, np.array([token]))
        if states[0] == DEAD:
            break
    return states


def accepts(session: Any, text: bytes, vocabulary: Any = None, rng: Any = None) -> bool:
    """Say whether a session accepts a text, as single bytes or split into tokens at random.

    Without ``vocabulary`` token ids 0 to 255 must be the bytes.
    """
    ids = list(text) if vocabulary is None else random_split(text, vocabulary, rng)
    return bool(session.is_complete(walk(session, ids))[0])


def alive_bytes(session: Any, text: bytes) -> bool:
    """Say whether a session allows a text as single bytes."""
    return bool(walk(session, list(text))[0] != DEAD)


def completes(session: Any, state: int, alphabet: np.ndarray, most: int = 3000) -> bool:
    """Say whether bytes of an alphabet (int64) lead from a state to a complete text.

    Raises:
        AssertionError: ``most`` states do not suffice to know.
    """
    seen, front = {state}, [state]
    while front:
        at = np.array(front, np.int64)
        if session.is_complete(at).any():
            return True
        after = session.advance(np.repeat(at, len(alphabet)), np.tile(alphabet, len(at)))
        front = sorted(set(after.tolist()) - seen - {DEAD})
        seen.update(front)
        assert len(seen) < most
    return False


def mask_of(session: Any, states: Any, width: int) -> np.ndarray:
    """Return the mask of one state, bool[width]."""
    mask = allocate_mask(1, width)
    session.fill_mask(states, mask)
    return np.asarray(unpack_mask(mask, width)[0])
