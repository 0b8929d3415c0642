"""What ``check`` says of each text: accepted, or refused at which byte and for want of what."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdec.cli.texts.rejection import Rejection, first_rejected_byte
from cdec.core.constraint import DEAD

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.constraint import Constraint


@dataclass(frozen=True)
class Checker:
    """An opened artifact with what is forced around its members.

    Attributes:
        constraint: The artifact.
        heads: Bytes that may stand before a member: prefix and leading space.
        tail: Bytes that stand after a member.
        shown: How many continuations a refusal lists.
    """

    constraint: Constraint
    heads: Sequence[bytes]
    tail: bytes
    shown: int

    @classmethod
    def open(cls, file: ArtifactFile, shown: int) -> Checker:
        """Open an artifact with the token bytes it holds; no tokenizer is needed."""
        from cdec.core.artifacts.kinds import bind_artifact

        settings = json.loads(file.metadata.get("cdec.options", "{}"))
        heads = [bytes.fromhex(head) for head in settings.get("heads", [""])]
        tail = bytes.fromhex(settings.get("suffix_bytes", ""))
        return cls(bind_artifact(file), heads, tail, shown)

    def texts(self, texts: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Return one verdict a text."""
        for text in texts:
            data = text.encode()
            if self.constraint.accepts(data):
                yield {"text": text, "valid": True, **self.constraint.annotations(data)}
            else:
                yield {"text": text, "valid": False, **self._refusal(self._furthest(data))}

    def token_rows(self, rows: Iterable[Sequence[int]]) -> Iterator[dict[str, Any]]:
        """Return one verdict a row of token ids; end ids may close a row."""
        for row in rows:
            yield {"token_ids": list(row)} | self._token_verdict(row)

    def _furthest(self, text: bytes) -> Rejection:
        """Return the best of the walks over each way in which the member may begin."""
        best = Rejection(byte=-1)
        for head in self.heads:
            where = first_rejected_byte(self.constraint, head + text + self.tail)
            where.byte = max(where.byte - len(head), 0)
            if where.byte > best.byte:
                best = where
            elif where.byte == best.byte:
                best.continuations |= where.continuations
                best.may_end = best.may_end or where.may_end
        return best

    def _refusal(self, where: Rejection) -> dict[str, Any]:
        continuations = sorted(where.continuations, key=lambda piece: (len(piece), piece))
        return {
            "byte": where.byte,
            "allowed": [piece.decode("utf-8", "replace") for piece in continuations[: self.shown]],
            "allowed_count": len(continuations),
            "may_end": where.may_end,
        }

    def _token_verdict(self, row: Sequence[int]) -> dict[str, Any]:
        import numpy as np

        session = self.constraint.session("cpu")
        states = session.start(1)
        for position, token_id in enumerate(row):
            after = session.advance(states, np.array([token_id], np.int64))
            if int(after[0]) == DEAD:
                return self._token_refusal(session.allowed(states)[1], row, position, states)
            states = after
        if not bool(session.is_complete(states)[0]):
            return self._token_refusal(session.allowed(states)[1], row, len(row), states)
        text = self.constraint.member_text(row)
        shown = text.decode("utf-8", "replace")
        return {"valid": True, "text": shown, **self.constraint.annotations(text)}

    def _token_refusal(
        self, allowed: Any, row: Sequence[int], position: int, states: Any
    ) -> dict[str, Any]:
        session = self.constraint.session("cpu")
        return {
            "valid": False,
            "position": position,
            "byte": len(self.constraint.vocabulary.decode(row[:position])),
            "allowed_ids": allowed[: self.shown].tolist(),
            "allowed_count": len(allowed),
            "may_end": bool(session.is_complete(states)[0]),
        }
