"""A third kind of artifact: texts of so many bytes, in any tokens. Plain Python, no set and no
grammar; what a kind of constraint needs stands here, and nothing else knows of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import require, require_length
from cdec.core.artifacts.opened import StoredConstraint
from cdec.core.artifacts.read import ArtifactFile, ArtifactKind
from cdec.core.artifacts.write import write_artifact
from cdec.core.constraint import Facts
from cdec.core.device_session import on_device
from cdec.core.mask import allowed_of_masks, forced_of_masks, mask_words, pack_mask
from cdec.core.session import DEAD, DONE, Session
from cdec.core.tokens.vocabulary import Vocabulary


def compile_length(least: int, most: int, vocabulary: Vocabulary, path: Path) -> Path:
    """Write the artifact of all texts of ``least`` to ``most`` bytes."""
    columns = {
        "bounds": np.array([least, most], np.int64),
        "vocabulary_offsets": vocabulary.byte_offsets,
        "vocabulary_bytes": vocabulary.flat_bytes,
    }
    metadata = {
        "cdec.vocabulary_hash": vocabulary.vocabulary_hash,
        "cdec.vocabulary_size": str(vocabulary.size),
        "cdec.eos": json.dumps(list(vocabulary.eos_token_ids)),
    }
    write_artifact(path, "length", columns, metadata)
    return path


def check_two(columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Refuse another number of bounds than two."""
    require_length(columns, "bounds", 2, "bound below and above")


def check_length(columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Refuse bounds that no text has."""
    least, most = columns["bounds"].tolist()
    require(0 <= least <= most, "bounds", "two rising counts of bytes")


class LengthConstraint(StoredConstraint):
    """The texts of ``least`` to ``most`` bytes."""

    of_kind = Facts(kind="length", is_sound=True, takes_bytes=True, has_speculation_keys=True)
    artifact = ArtifactKind(
        {"bounds": "int64", "vocabulary_offsets": "int64", "vocabulary_bytes": "uint8"},
        check_two,
        check_length,
        1,
    )
    max_tokens: int

    def __init__(
        self, least: int, most: int, vocabulary: Vocabulary, metadata: Mapping[str, str]
    ) -> None:
        self.least, self.most = least, most
        self.max_tokens = most
        self.vocabulary = vocabulary
        self.metadata = metadata
        tokens = sorted(filter(None, vocabulary.token_bytes), key=len, reverse=True)
        self._spelt = re.compile(b"(?:%s)*" % b"|".join(map(re.escape, tokens)), re.DOTALL)

    @classmethod
    def from_file(cls, file: ArtifactFile, vocabulary: Vocabulary) -> LengthConstraint:
        least, most = file.arrays["bounds"].tolist()
        return cls(least, most, vocabulary, file.metadata)

    @property
    def facts(self) -> Facts:
        return replace(self.of_kind, metadata=self.metadata)

    def session(self, device: str = "cpu") -> Session:
        return on_device(LengthSession(self), device)

    def accepts(self, text: bytes) -> bool | None:
        return self.least <= len(text) <= self.most and bool(self._spelt.fullmatch(text))

    def statistics(self) -> dict[str, int | float]:
        return {"least": self.least, "most": self.most}


class LengthSession(Session):
    """States are counts of bytes."""

    device = "cpu"

    def __init__(self, constraint: LengthConstraint) -> None:
        vocabulary = constraint.vocabulary
        self.words = mask_words(vocabulary.width)
        self._least, self._most = constraint.least, constraint.most
        self._bytes = np.zeros(vocabulary.width, np.int64)
        self._bytes[: vocabulary.size] = [len(token) for token in vocabulary.token_bytes]
        self._letters = set(b"".join(vocabulary.token_bytes))
        self._ends = np.array(vocabulary.eos_token_ids, np.int64)

    def start(self, n: int) -> NDArray[np.int64]:
        return np.zeros(n, np.int64)

    def _table(self, states: Any) -> NDArray[np.int64]:
        """Return the state after every token, int64[n, width]."""
        at = np.asarray(states)[:, None]
        after = np.where(self._bytes > 0, at + self._bytes, DEAD)
        after[after > self._most] = DEAD
        after[:, self._ends] = np.where((at >= self._least) & (at <= self._most), DONE, DEAD)
        after[np.asarray(states) < 0] = DEAD
        return after

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        tokens = np.asarray(token_ids)
        known = (tokens >= 0) & (tokens < len(self._bytes))
        table = self._table(states)
        return np.where(known, table[np.arange(len(tokens)), np.where(known, tokens, 0)], DEAD)

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        mask[:] = pack_mask(self._table(states) != DEAD)

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        tokens = np.asarray(token_ids)
        flat = self.advance(np.repeat(states, tokens.shape[1]), tokens.reshape(-1))
        return (flat != DEAD).reshape(tokens.shape)

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return allowed_of_masks(self.fill_mask, np.asarray(states), self.words)

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        at = np.asarray(states)
        return (at == DONE) | ((at >= self._least) & (at <= self._most))

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return forced_of_masks(self.fill_mask, np.asarray(states), self.words, self._ends)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        after = np.asarray(states) + [len(text) for text in texts]
        strange = np.array([not self._letters.issuperset(text) for text in texts], np.bool_)
        return np.where((np.asarray(states) < 0) | (after > self._most) | strange, DEAD, after)

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        return np.asarray(states)
