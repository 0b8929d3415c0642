"""Sessions that are others but for what a test changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdec.core.constraint import Session


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
