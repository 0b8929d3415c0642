"""The Constraint and Session protocols, where any constraint meets any sampler, and their laws.

A *constraint* is an opened artifact. A *session* is one decoding run over it, on one device. A
batch of *states* is an opaque int64 array on the session's device: equal integers are equal states,
so mixed depths, beams, forks, rollback and caches are plain indexing.

Laws, for every session (checked by ``tests/laws/sessions.py`` for every kind of constraint):

1.  For every state and every token: mask bit set ⇔ token in ``allowed`` ⇔ ``check`` is true ⇔
    ``advance`` does not give DEAD. Padding ids are never allowed.
2.  No reachable state before the end has an empty mask, unless the constraint says its soundness
    is unproved; DONE and DEAD have an empty mask, and ``advance`` from them gives DEAD.
3.  Every member's canonical tokenisation is accepted token by token, and its last state is
    complete (or DONE, where the constraint ends members itself).
4.  End-of-sequence ids are allowed exactly in complete states that are not DONE; each gives DONE.
5.  ``forced`` lists the allowed end event or token where it is the only one (several ids of one end
    event count as one), and nothing elsewhere.
6.  A batch gives what single rows give.

On ``cpu`` a session takes and gives numpy arrays; on a torch device, torch tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

DEAD = -1
"""State after a token that was not allowed."""
DONE = -2
"""State after an end-of-sequence id, or after the last token of a member that ends itself."""

States: TypeAlias = Any
"""int64[n], numpy on ``cpu``, a torch tensor on a device."""


class Session(Protocol):
    """One decoding run over a constraint; every array lies on the session's device."""

    device: str

    def start(self, n: int) -> States:
        """Return ``n`` states at the beginning, int64[n]."""

    def advance(self, states: States, token_ids: Any) -> States:
        """Follow one token a state; DEAD where it is not allowed, DONE after an end."""

    def fill_mask(self, states: States, mask: Any) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""

    def check(self, states: States, token_ids: Any) -> Any:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""

    def allowed(self, states: States) -> tuple[Any, Any]:
        """Return the allowed tokens, ragged and sorted: offsets int64[n + 1], ids int32[...]."""

    def is_complete(self, states: States) -> Any:
        """Say where the text so far is a member (or DONE), bool[n]."""

    def forced(self, states: States) -> tuple[Any, Any]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""


@runtime_checkable
class Constraint(Protocol):
    """An opened artifact: a set of texts that samples must belong to."""

    vocabulary: Vocabulary

    @property
    def kind(self) -> str:
        """``set`` or ``grammar``."""

    @property
    def max_tokens(self) -> int | None:
        """Tokens of the longest member, end event not counted; None where unbounded."""

    @property
    def is_sound(self) -> bool:
        """Whether every allowed token is proved to have a completion."""

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device."""

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone: the tokens' bytes without forced prefix and suffix."""

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text, as a model writes it, without forced prefix and suffix.

        None where it lacks them: then it is no member, whatever ``accepts`` says of its middle.
        """

    def accepts(self, text: bytes) -> bool | None:
        """Check a finished member by a path independent of the session; None if out of time."""

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return fields that samples of this text carry, such as ``entity_ids``."""
