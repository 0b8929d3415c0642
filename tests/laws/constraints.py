"""Constraints to test laws on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from cdec.core.constraint import (
    DONE,
    Constraint,
    Session,
    candidates_of,
    text_verdicts,
    token_verdicts,
)
from cdec.core.errors import EmptySetError, FieldError, UsageError

# --- Reusable checks of the laws in ``cdec.core.constraint``, for every kind of constraint.

Row = tuple[int, ...]
_MEMBERS = 12
"""Members that are looked at: each costs several sessions."""


def assert_constraint_laws(
    constraint: Constraint, members: Sequence[Row], prefixes: Sequence[Row]
) -> None:
    """Check every law of a constraint.

    Args:
        constraint: Any kind.
        members: Token sequences of members.
        prefixes: Token sequences that are allowed.
    """
    members = members[:_MEMBERS]
    session = constraint.session("cpu")
    _assert_texts(constraint, members)
    _assert_verdicts(constraint, members, prefixes)
    _assert_lists(constraint, members)
    _assert_lookahead(constraint, prefixes)
    assert constraint.max_tokens is None or all(len(m) <= constraint.max_tokens for m in members)
    if not constraint.facts.ends_itself:
        states = states_along(
            session, [prefix for prefix in prefixes if not _ends(constraint, prefix)]
        )
        assert (states != DONE).all()
    if constraint.facts.takes_bytes:
        _assert_bytes(constraint, members)
    else:
        with pytest.raises(UsageError):
            session.advance_bytes(session.start(1), [b"a"])
    if constraint.facts.has_speculation_keys:
        other = constraint.session("cpu")
        keys = session.speculation_keys(states_along(session, prefixes))
        backwards = other.speculation_keys(states_along(other, prefixes[::-1]))
        assert keys.tolist() == backwards.tolist()[::-1]
    assert session.statistics()["states"] >= 0


def states_along(session: Session, rows: Sequence[Row]) -> np.ndarray:
    """Return the states after rows of tokens, int64[n]."""
    found = []
    for row in rows:
        state = session.start(1)
        for token in row:
            state = session.advance(state, np.array([token]))
        found.append(int(state[0]))
    return np.array(found, np.int64)


def _ends(constraint: Constraint, row: Row) -> bool:
    return bool(row) and row[-1] in constraint.vocabulary.eos_token_ids


def _assert_texts(constraint: Constraint, members: Sequence[Row]) -> None:
    for member in members:
        text, whole = constraint.member_text(member), constraint.vocabulary.decode(member)
        own = [constraint.text_of_token(token) for token in member]
        if None not in own:
            assert text == b"".join([constraint.member_text(()), *filter(None, own)])
        assert constraint.accepts(text) is not False
        assert constraint.text_of(text) == text
        wholes = constraint.whole_texts(text)
        assert whole in wholes and text in {constraint.content(each) for each in wholes}
        ids = constraint.token_ids_of(text)
        if ids is not None:
            session = constraint.session("cpu")
            assert session.is_complete(states_along(session, [tuple(ids)]))[0]
            assert constraint.vocabulary.decode(ids) in wholes


def _assert_verdicts(
    constraint: Constraint, members: Sequence[Row], prefixes: Sequence[Row]
) -> None:
    texts = [constraint.member_text(member) for member in members]
    for text, found in zip(texts, text_verdicts(constraint, texts), strict=True):
        assert found["valid"] and found["text"] == text.decode("utf-8", "replace")
    for member, found in zip(members, token_verdicts(constraint, members), strict=True):
        assert found["valid"] and tuple(found["token_ids"]) == member
    session = constraint.session("cpu")
    rows = [row for row in prefixes if not _ends(constraint, row)][:_MEMBERS]
    complete = session.is_complete(states_along(session, rows)).tolist()
    said = [found["valid"] for found in token_verdicts(constraint, rows, shown=2)]
    assert said == complete
    width = constraint.vocabulary.width
    (outside,) = token_verdicts(constraint, [[width]])
    assert not outside["valid"] and (outside["position"], outside["byte"]) == (0, 0)


def _assert_lists(constraint: Constraint, members: Sequence[Row]) -> None:
    texts = {constraint.member_text(member) for member in members}
    texts = {text for text in texts if text.decode("utf-8", "replace").encode() == text}
    if constraint.listed is None:
        with pytest.raises(FieldError):
            candidates_of(constraint, ["a"])
        return
    if (kept := constraint.listed.member_rows()) is not None:
        tokens, offsets = kept
        rows = [tuple(part.tolist()) for part in np.split(tokens, offsets[1:-1])]
        assert rows == sorted(set(rows))
        assert {row for row in members if not _ends(constraint, row)} <= set(rows)
        assert all(found["valid"] for found in token_verdicts(constraint, rows))
    for text in sorted(texts)[:3]:
        only = constraint.listed.candidates([text.decode()])
        assert only.accepts(text) is not False
        assert all(only.accepts(other) is not True for other in texts - {text})
        try:
            fewer = constraint.deny_texts([text])
        except EmptySetError:
            continue
        assert fewer is not None and fewer.accepts(text) is False
        assert all(fewer.accepts(other) is not False for other in texts - {text})


def _assert_lookahead(constraint: Constraint, prefixes: Sequence[Row]) -> None:
    if not constraint.facts.has_terminals:
        with pytest.raises(UsageError):
            constraint.with_lookahead(0)
        return
    same = constraint.with_lookahead(constraint.facts.lookahead).session("cpu")
    own = constraint.session("cpu")
    rows = [row for row in prefixes if not _ends(constraint, row)][:_MEMBERS]
    for there, here in zip(states_along(same, rows), states_along(own, rows), strict=True):
        allowed = [s.allowed(np.array([at]))[1] for s, at in ((same, there), (own, here))]
        np.testing.assert_array_equal(*allowed)


def _assert_bytes(constraint: Constraint, members: Sequence[Row]) -> None:
    session = constraint.session("cpu")
    starts = session.start(len(members))
    spelt = [constraint.vocabulary.decode(member) for member in members]
    after = session.advance_bytes(starts, spelt)
    assert session.is_complete(after).all()


# --- Sessions that are others but for what a test changes.


class WrappedSession(Session):
    """Answers as the session within does."""

    def __init__(self, inner: Session) -> None:
        self.inner = inner
        self.device = inner.device
        self.words = inner.words

    def start(self, n: int) -> Any:
        return self.inner.start(n)

    def advance(self, states: Any, token_ids: Any) -> Any:
        return self.inner.advance(states, token_ids)

    def fill_mask(self, states: Any, mask: Any) -> None:
        self.inner.fill_mask(states, mask)

    def check(self, states: Any, token_ids: Any) -> Any:
        return self.inner.check(states, token_ids)

    def allowed(self, states: Any) -> tuple[Any, Any]:
        return self.inner.allowed(states)

    def is_complete(self, states: Any) -> Any:
        return self.inner.is_complete(states)

    def forced(self, states: Any) -> tuple[Any, Any]:
        return self.inner.forced(states)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> Any:
        return self.inner.advance_bytes(states, texts)

    def speculation_keys(self, states: Any) -> Any:
        return self.inner.speculation_keys(states)

    def statistics(self) -> Mapping[str, int]:
        return self.inner.statistics()
