"""What ``check`` says of texts under a grammar: accepted, or refused where and for want of what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cdec.cli.texts.grammar_walk import Place, describe_place, follow, line_and_column
from cdec.core.constraint import DEAD, DONE

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint

_TEXTS_A_SESSION = 100
"""A session remembers the states of its texts: it is renewed so that memory stays flat."""


@dataclass(frozen=True)
class GrammarChecker:
    """An opened grammar.

    Attributes:
        constraint: The artifact, perhaps with a lookahead.
        shown: How many continuations a refusal lists.
    """

    constraint: Constraint
    shown: int

    def texts(self, texts: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """Return one verdict a text."""
        for session, text in self._sessions(texts):
            start = int(session.start(1)[0])
            place = follow(session, start, text)
            shown = {"text": text.decode("utf-8", "replace")}
            complete = bool(session.is_complete(np.array([place.state], np.int64))[0])
            if place.byte == len(text) and complete:
                yield {**shown, "valid": True}
                continue
            line, column = line_and_column(text, place.byte)
            where = {"byte": place.byte, "line": line, "column": column}
            yield {**shown, "valid": False, **where, **self._here(session, place)}

    def token_rows(self, rows: Iterable[Sequence[int]]) -> Iterator[dict[str, Any]]:
        """Return one verdict a row of token ids; end ids may close a row."""
        for session, row in self._sessions(rows):
            yield {"token_ids": list(row)} | self._token_verdict(session, row)

    def _token_verdict(self, session: Any, row: Sequence[int]) -> dict[str, Any]:
        state = int(session.start(1)[0])
        position = 0
        for position, token_id in enumerate(row):
            after = _advance(session, state, token_id)
            if after == DEAD:
                return self._token_refusal(session, row, position, state)
            state = after
        if state != DONE and not bool(session.is_complete(np.array([state], np.int64))[0]):
            return self._token_refusal(session, row, len(row), state)
        text = self.constraint.member_text(row)
        return {"valid": True, "text": text.decode("utf-8", "replace")}

    def _token_refusal(
        self, session: Any, row: Sequence[int], position: int, state: int
    ) -> dict[str, Any]:
        byte = len(self.constraint.vocabulary.decode(row[:position]))
        ids = session.allowed(np.array([state], np.int64))[1]
        return {
            "valid": False,
            "position": position,
            "byte": byte,
            "allowed_ids": ids[: self.shown].tolist(),
            **self._here(session, Place(state, byte)),
        }

    def _here(self, session: Any, place: Place) -> dict[str, Any]:
        return describe_place(self.constraint, session, place, self.shown)

    def _sessions(self, items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        session: Any = None
        for number, item in enumerate(items):
            if number % _TEXTS_A_SESSION == 0:
                session = self.constraint.session("cpu")
            yield session, item


def _advance(session: Any, state: int, token_id: int) -> int:
    states = np.array([state], np.int64)
    return int(session.advance(states, np.array([token_id], np.int64))[0])
