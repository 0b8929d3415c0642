"""FreePart: free text up to a marker, as a constraint that ends itself there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.free.free_text import shown
from cdec.core.combine.free.markers import Markers
from cdec.core.combine.free.session import FreeSession
from cdec.core.combine.free.table import FreeTable, Reached
from cdec.core.combine.healing import SortedTokens
from cdec.core.constraint import Constraint
from cdec.core.device_session import on_device
from cdec.core.errors import UsageError
from cdec.core.session import DEAD, DONE, Session


class FreePart(Constraint):
    """Any text up to the end of its first marker, or any whole text without one.

    Members are what the model may write before the constraint begins; only tokens are left out in
    which a marker ends and that go on as no member of the constraint begins. The text may end
    without a marker, but for one that is forced into it.

    Args:
        inner: What begins behind the marker.
        markers: At least one, none of them empty.
        tokens: Of ``inner.vocabulary``; None sorts them.
        most: Tokens that it may have.
        strict: Whether tokens are left out; if not, all are allowed, for methods without masks.

    Attributes:
        table: Its states.
        first: The state it begins in.
    """

    kind = "free text"
    ends_itself = True
    max_tokens: int

    def __init__(
        self,
        inner: Constraint,
        markers: Sequence[str],
        tokens: SortedTokens | None = None,
        *,
        most: int = 256,
        strict: bool = True,
    ) -> None:
        self.vocabulary = inner.vocabulary
        opens = _Opening(inner, strict=strict)
        self.table = FreeTable(
            inner.vocabulary,
            Markers([marker.encode() for marker in markers]),
            opens,
            tokens or SortedTokens(inner.vocabulary),
        )
        self.first = 0
        self.max_tokens = most
        self._places: dict[tuple[int, int], FreePart] = {}

    def at(self, state: int, most: int) -> FreePart:
        """Return at most so many tokens of what is free from a state of the markers on."""
        key = state, most
        if key not in self._places:
            part = object.__new__(FreePart)
            part.vocabulary, part.table, part._places = self.vocabulary, self.table, self._places
            part.first, part.max_tokens = state, most
            self._places[key] = part
        return self._places[key]

    def forced_at(self, state: int, most: int) -> FreePart:
        """Return what spells the rest of the marker that stands begun at a state.

        Raises:
            UsageError: No tokens spell the marker from its beginning on.
        """
        if not self.table.at(self.table.forced).tokens.size:
            marker = shown(self.table.markers.texts[0].decode())
            raise UsageError(
                f"no tokens of the model's vocabulary spell the marker {marker}, into which free "
                "text is to be forced",
                hint="give another marker, or leave `budget` and `regions` out",
            )
        return self.at(state + self.table.forced, most)

    def state_after(self, text: bytes) -> int:
        """Return the state after bytes without a marker, from the beginning on."""
        state = self.table.markers.follow(0, text)
        # What holds a marker was struck out where the text was drawn.
        return state if isinstance(state, int) else 0

    def read(self, token_ids: Sequence[int]) -> int | Reached:
        """Return the marker that tokens drawn from here reached, or the state of the markers."""
        read = self.table.read(self.first, token_ids)
        return read if isinstance(read, Reached) else read % self.table.forced

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(FreeSession(self.table, self.first, self.max_tokens), device)

    def accepts(self, text: bytes) -> bool | None:
        """Return True: any text may be written."""
        return True


class _Opening:
    """Whether a member of a constraint begins with given bytes, and tokens can go on from there."""

    def __init__(self, inner: Constraint, *, strict: bool) -> None:
        self._inner = inner
        self._strict = strict
        self._session: Session | None = None

    def __call__(self, texts: Sequence[bytes]) -> NDArray[np.bool_]:
        if not self._strict:
            return np.ones(len(texts), np.bool_)
        if not self._inner.takes_bytes:
            return np.zeros(len(texts), np.bool_)
        if self._session is None:
            self._session = self._inner.session("cpu")
        session = self._session
        states = np.asarray(session.advance_bytes(session.start(len(texts)), list(texts)))
        opens = (states != DEAD) & (states != DONE)
        offsets, _ = session.allowed(states[opens])
        opens[opens] = np.diff(np.asarray(offsets)) > 0
        return np.asarray(opens)
