"""StartedConstraint: the members of a constraint that begin with bytes standing there already."""

from __future__ import annotations

from collections.abc import Sequence

from cdec.core.combine.free.started_session import StartedSession
from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import Constraint
from cdec.core.device_session import on_device
from cdec.core.session import DEAD, Session


class StartedConstraint(WrappedConstraint):
    """The members of a constraint that begin with given bytes, of which tokens spell the rest.

    The bytes are the end of a token that belongs to what stands before. Texts are whole.

    Args:
        inner: Any kind; where none of its members begins so, or it is walked by tokens alone, no
            token is allowed.
        begun: At least one byte.
    """

    def __init__(self, inner: Constraint, begun: bytes) -> None:
        super().__init__(inner)
        self.begun = begun

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(self._started(self.inner.session("cpu")), device)

    def session_for_texts(self) -> Session:
        """Start a run on the host that follows texts known beforehand."""
        return self._started(self.inner.session_for_texts())

    def with_lookahead(self, lookahead: int | None) -> StartedConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return StartedConstraint(self.inner.with_lookahead(lookahead), self.begun)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member, with what it was begun with."""
        return self.begun + self.vocabulary.decode(token_ids)

    def content(self, text: bytes) -> bytes | None:
        """Return the member that the drawn ``text`` ends; None where it is none of them."""
        return self.inner.content(self.begun + text)

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return what is drawn of a member."""
        wholes = self.inner.whole_texts(text)
        return [whole[len(self.begun) :] for whole in wholes if whole.startswith(self.begun)]

    def whole_text(self, text: bytes) -> bytes:
        """Return what a model would write for a text, behind what it was begun with."""
        return self.inner.whole_text(text).removeprefix(self.begun)

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return None: the first token is not one of the member's own."""
        return None

    def _started(self, session: Session) -> StartedSession:
        first = DEAD
        if self.takes_bytes:
            first = int(session.advance_bytes(session.start(1), [self.begun])[0])
        return StartedSession(session, first)
