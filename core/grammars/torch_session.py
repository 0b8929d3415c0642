"""TorchGrammarSession: a grammar's decoding run whose states and masks lie on a torch device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.core.grammars.session import GrammarSession
    from cdec.core.grammars.state_view import StateView

__all__ = ["TorchGrammarSession"]


class TorchGrammarSession:
    """The CPU's session with tensors at its doors: parsing is work for the host.

    States and tokens, a few bytes each, go to the host; a mask is copied to the device once.

    Args:
        session: The session on the host.
        device: As the caller named it.
    """

    def __init__(self, session: GrammarSession, device: str) -> None:
        self.device = device
        self._session = session
        self._on = torch.empty(0, device=device.removeprefix("torch:")).device

    def start(self, n: int) -> Tensor:
        """Return ``n`` states before the first byte, int64[n]."""
        return self._put(self._session.start(n))

    def advance(self, states: Any, token_ids: Any) -> Tensor:
        """Follow one token a state, int64[n]; DEAD where it is not allowed, DONE after an end."""
        return self._put(self._session.advance(_host(states), _host(token_ids)))

    def fill_mask(self, states: Any, mask: Tensor) -> None:
        """Overwrite ``mask`` int32[n, ceil(width / 32)] with the exact masks of ``states``."""
        shape = (len(states), self._session.words)
        if mask.dtype != torch.int32 or tuple(mask.shape) != shape:
            raise UsageError(
                f"the mask of {shape[0]} states must be int32{list(shape)}, not "
                f"{mask.dtype}{list(mask.shape)}",
                hint="Use allocate_mask(n, vocabulary.width, session.device).",
            )
        host = np.empty(shape, np.int32)
        self._session.fill_mask(_host(states), host)
        mask.copy_(torch.from_numpy(host))

    def check(self, states: Any, token_ids: Any) -> Tensor:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        return self._put(self._session.check(_host(states), _host(token_ids)))

    def allowed(self, states: Any) -> tuple[Tensor, Tensor]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        offsets, ids = self._session.allowed(_host(states))
        return self._put(offsets), self._put(ids)

    def is_complete(self, states: Any) -> Tensor:
        """Say where the text so far is in the language (or DONE), bool[n]."""
        return self._put(self._session.is_complete(_host(states)))

    def forced(self, states: Any) -> tuple[Tensor, Tensor]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        offsets, ids = self._session.forced(_host(states))
        return self._put(offsets), self._put(ids)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> Tensor:
        """Follow bytes that need not be tokens, one text a state, int64[n]."""
        return self._put(self._session.advance_bytes(_host(states), texts))

    def speculation_keys(self, states: Any) -> Tensor:
        """Return what a next token may be learnt for: int64[n]."""
        return self._put(self._session.speculation_keys(_host(states)))

    def describe(self, state: int) -> StateView:
        """Return a state as plain data, for messages."""
        return self._session.describe(state)

    def viable_terminals(self, state: int) -> list[int]:
        """Return the terminals that may be under way, or begin, at a state."""
        return self._session.viable_terminals(state)

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of the session's states, and of the engine's memos."""
        return self._session.statistics()

    def _put(self, array: Any) -> Tensor:
        return torch.from_numpy(array).to(self._on)


def _host(values: Any) -> Any:
    """Return an argument as numpy."""
    return values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
