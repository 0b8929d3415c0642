"""BatchMatcher: states of the texts that an engine writes, and masks over its logits."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cdec.core.constraint import DEAD, DONE
from cdec.core.mask import WORD_BITS, apply_mask, mask_words
from cdec.integrations.cursors import MatcherCursor

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from cdec.core.constraint import Constraint

_MOST_SESSIONS = 256
"""Sessions that wait for new texts; those in use live on with their texts."""
_LOG = logging.getLogger(__name__)


class BatchMatcher:
    """Advances texts and masks logits, a batch of mixed constraints at a time.

    States are int64 tensors on the engine's device. A text whose constraint is None is given up:
    its mask leaves the end alone.

    Args:
        device: The engine's. On ``cpu`` sessions are the host's own; on others sets are followed
            there, and grammars on the host.
        end: The id that ends a text of which nothing else is left.
    """

    def __init__(self, device: torch.device, end: int) -> None:
        self.device = device
        self._name = "cpu" if device.type == "cpu" else str(device)
        self._end = end
        self._waiting: OrderedDict[Constraint, MatcherCursor] = OrderedDict()

    def opened(self, constraint: Constraint) -> MatcherCursor:
        """Return the session in which new texts of a constraint are followed."""
        found = self._waiting.pop(constraint, None)
        if found is None or found.is_full:
            found = MatcherCursor(constraint, self._name)
        self._waiting[constraint] = found
        if len(self._waiting) > _MOST_SESSIONS:
            self._waiting.popitem(last=False)
        return found

    def states(self, values: Sequence[Any]) -> Tensor:
        """Return states, integers or scalars of an earlier call, as one tensor int64[n]."""
        if self._name == "cpu" or all(isinstance(value, int) for value in values):
            return torch.tensor([int(value) for value in values], device=self.device).long()
        on = [torch.as_tensor(value, device=self.device) for value in values]
        return torch.stack(on) if on else torch.zeros(0, dtype=torch.int64, device=self.device)

    def after(
        self, texts: Sequence[MatcherCursor | None], states: Tensor, tokens: Tensor
    ) -> Tensor:
        """Follow one token a text.

        Args:
            texts: n. states, tokens: int64[n], as in ``MatcherCursor.after``.

        Returns:
            int64[n].
        """
        result = torch.where(states == DONE, DONE, torch.full_like(states, DEAD))
        for cursor, at in self._groups(texts):
            moved = cursor.after(self._array(states[at]), self._array(tokens[at]))
            result[at] = self._tensor(moved)
        return result

    def walk(self, cursor: MatcherCursor | None, tokens: Sequence[int]) -> Any:
        """Return the state after all tokens of a text, a scalar."""
        states = self.states([DEAD if cursor is None else cursor.start])
        for token in tokens:
            states = self.after([cursor], states, torch.tensor([token], device=self.device))
        return states[0]

    def apply(
        self,
        logits: Tensor,
        rows: Sequence[int],
        texts: Sequence[MatcherCursor | None],
        states: Tensor,
    ) -> None:
        """Set to -inf what texts do not go on with, in place.

        Args:
            logits: float[m, width].
            rows: n of its rows, the others are free. texts, states: int64[n], of these rows.

        Raises:
            UsageError: The logits are narrower than a constraint's vocabulary.
        """
        mask = self.masks(int(logits.shape[-1]), texts, states)
        if len(rows) == len(logits) and list(rows) == list(range(len(rows))):
            apply_mask(logits, self._array(mask))
            return
        at = torch.tensor(list(rows), device=self.device)
        logits[at] = apply_mask(logits[at], self._array(mask))

    def masks(self, width: int, texts: Sequence[MatcherCursor | None], states: Tensor) -> Tensor:
        """Return packed masks, int32[n, ceil(width / 32)]; none of them is empty."""
        mask = torch.zeros((len(texts), mask_words(width)), dtype=torch.int32, device=self.device)
        for cursor, at in self._groups(texts):
            cursor.require_width(width)
            own = torch.zeros(
                (len(at), cursor.session.words), dtype=torch.int32, device=self.device
            )
            cursor.session.fill_mask(self._array(states[at]), self._array(own))
            used = min(mask.shape[1], own.shape[1])
            mask[at, :used] = own[:, :used]
        self._leave_ends(mask, texts, states)
        return mask

    def _leave_ends(
        self, mask: Tensor, texts: Sequence[MatcherCursor | None], states: Tensor
    ) -> None:
        """Allow the end where nothing is allowed: behind a text that ended itself, or is stuck."""
        empty = ~(mask != 0).any(-1)
        unsound = [i for i, at in enumerate(texts) if at and not at.constraint.facts.is_sound]
        if unsound and bool((empty & (states != DONE))[unsound].any()):
            _LOG.warning(
                "a text was ended where its constraint allows no token, so it is no member of it"
            )
        bit = np.array([1 << self._end % WORD_BITS], np.uint32).view(np.int32)
        word = mask[:, self._end // WORD_BITS]
        word |= torch.where(empty, int(bit[0]), 0).to(torch.int32)

    def _groups(self, texts: Sequence[MatcherCursor | None]) -> list[tuple[MatcherCursor, Tensor]]:
        """Return each session among texts with the positions it holds, int64[k]."""
        found: dict[MatcherCursor, list[int]] = {}
        for i, cursor in enumerate(texts):
            if cursor is not None:
                found.setdefault(cursor, []).append(i)
        return [(cursor, torch.tensor(at, device=self.device)) for cursor, at in found.items()]

    def _array(self, values: Tensor) -> Any:
        """Return a tensor as a session takes it; on the CPU it shares its memory."""
        return values.numpy() if self._name == "cpu" else values

    def _tensor(self, values: NDArray[np.int64] | Tensor) -> Tensor:
        return torch.from_numpy(values) if isinstance(values, np.ndarray) else values
