"""Shard: one of n parts of an input, told by the ids of records alone."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from cdec.core.errors import UsageError
from cdec.data.ids import RecordId

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
        """Whether a record is in this shard: the head of SHA-256 of its id, modulo ``count``."""
        digest = hashlib.sha256(str(record_id).encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.index - 1
