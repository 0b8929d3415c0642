"""Ids of records: a hash of the content where a record has none; duplicates; shards by ids."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import orjson

from cdec.core.errors import DuplicateIdError, UsageError
from cdec.core.seeds import content_id

RecordId = str | int


def id_key(record_id: object) -> bytes:
    """Return 16 bytes that stand for an id in tables; the number 1 and the text "1" differ.

    A hash, so a table of a million ids takes about 100 MB however long the ids are; that two
    of a million ids have one key has a probability of about 2^-89.
    """
    return hashlib.blake2b(orjson.dumps(record_id), digest_size=16).digest()


_LINE_BITS = 48


class IdRegistry:
    """The ids seen so far in one input, of one file or of several."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._lines: dict[bytes, int] = {}  # key of an id -> its file's number and its line
        self._repeats: dict[str, int] = {}  # hash -> the last number added to it

    def begin(self, name: str) -> None:
        """Say that ids come from another file now."""
        self._files.append(name)

    def explicit(self, record_id: RecordId, name: str, line: int, *, unit: str = "line") -> None:
        """Note an id that a record gives itself.

        Args:
            record_id: The id.
            name: Name of the input, for messages.
            line: The record's 1-based line.
            unit: What ``line`` counts: lines or rows.

        Raises:
            DuplicateIdError: An earlier line has it.
        """
        place = self._place(line)
        earlier = self._lines.setdefault(id_key(record_id), place)
        if earlier != place:
            number, first = earlier >> _LINE_BITS, earlier & ~(-1 << _LINE_BITS)
            where = f"{unit} {first}"
            if number != len(self._files):
                where = f"{self._files[number - 1]}, {where}"
            raise DuplicateIdError(
                f"{name}, {unit} {line} has the id {record_id!r} of {where}",
                hint="give each record an id of its own: `resume` and joins go by it",
                line=line,
                id=record_id,
            )

    def generated(self, content: object, line: int) -> str:
        """Return the id of a record that gives none: its hash, ``-1``, ``-2`` added on repeats."""
        base = content_id(content)
        candidate, place = base, self._place(line)
        while self._lines.setdefault(id_key(candidate), place) != place:
            repeats = self._repeats[base] = self._repeats.get(base, 0) + 1
            candidate = f"{base}-{repeats}"
        return candidate

    def _place(self, line: int) -> int:
        return len(self._files) << _LINE_BITS | line


_FORM = re.compile(r"(\d{1,9})/(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Shard:
    """The records whose id has one remainder when it is hashed.

    A record is in exactly one of the ``count`` shards, whatever its place, its neighbours and the
    format of the file: the number 7 and the text "7", which a CSV cannot tell apart, are in one.

    Attributes:
        index: From 1 to ``count``.
        count: How many shards there are.

    Raises:
        UsageError: ``index`` is none of them.
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise UsageError(
                f"`shard` is {self.index}/{self.count}; shards are counted from 1/{self.count} to"
                f" {self.count}/{self.count}",
                hint="run every one of them once",
            )

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``1/8``, the first of eight shards.

        Raises:
            UsageError: It is none.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"`shard` is {text!r}, which is no shard", hint="1/8 is the first of eight"
            )
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def has(self, record_id: RecordId) -> bool:
        """Say whether the shard has a record: the head of SHA-256 of its id, modulo ``count``."""
        digest = hashlib.sha256(str(record_id).encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.index - 1
