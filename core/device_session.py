"""Sessions of the host for callers on a torch device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdec.core.session import Session, require_tensor_mask

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DeviceSession", "on_device"]


def on_device(session: Session, device: str) -> Session:
    """Return a session of the host as it is for ``cpu``, else a ``DeviceSession`` over it."""
    return session if device == "cpu" else DeviceSession(session, device)


class DeviceSession(Session):
    """A session whose states and masks lie on a device, while its work is done on the host.

    States and tokens, a few bytes each, go to the host; a mask is copied to the device once.

    Args:
        session: The session on the host.
        device: As the caller named it.
    """

    def __init__(self, session: Session, device: str) -> None:
        import torch

        self.device = device
        self.words = session.words
        self._session = session
        self._on = torch.empty(0, device=device.removeprefix("torch:")).device

    def start(self, n: int) -> Tensor:
        return self._put(self._session.start(n))

    def advance(self, states: Any, token_ids: Any) -> Tensor:
        return self._put(self._session.advance(_host(states), _host(token_ids)))

    def fill_mask(self, states: Any, mask: Tensor) -> None:
        """Overwrite ``mask`` with exact masks; one of another shape or type is a UsageError."""
        import torch

        host = np.empty(require_tensor_mask(mask, len(states), self.words), np.int32)
        self._session.fill_mask(_host(states), host)
        mask.copy_(torch.from_numpy(host))

    def check(self, states: Any, token_ids: Any) -> Tensor:
        return self._put(self._session.check(_host(states), _host(token_ids)))

    def allowed(self, states: Any) -> tuple[Tensor, Tensor]:
        offsets, ids = self._session.allowed(_host(states))
        return self._put(offsets), self._put(ids)

    def is_complete(self, states: Any) -> Tensor:
        return self._put(self._session.is_complete(_host(states)))

    def forced(self, states: Any) -> tuple[Tensor, Tensor]:
        offsets, ids = self._session.forced(_host(states))
        return self._put(offsets), self._put(ids)

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> Tensor:
        return self._put(self._session.advance_bytes(_host(states), texts))

    def speculation_keys(self, states: Any) -> Tensor:
        return self._put(self._session.speculation_keys(_host(states)))

    def fewest_tokens(self, states: Any) -> Tensor:
        return self._put(self._session.fewest_tokens(_host(states)))

    def fewest_ahead(self, states: Any) -> Tensor:
        return self._put(self._session.fewest_ahead(_host(states)))

    def statistics(self) -> Mapping[str, int]:
        """Return counts of what the session of the host holds."""
        return self._session.statistics()

    def _put(self, array: Any) -> Tensor:
        import torch

        return torch.from_numpy(array).to(self._on)


def _host(values: Any) -> Any:
    """Return an argument as numpy."""
    from torch import Tensor

    return values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
