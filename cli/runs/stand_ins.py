"""What stands in for a draft model and a reward while a sampler's other options are checked."""

from __future__ import annotations

from typing import Any


def stand_ins(*, draft: bool, reward: bool) -> dict[str, Any]:
    """Return a sampler's arguments ``draft`` and ``reward``, those asked for; nothing is loaded.

    Args:
        draft: Whether the draft is a model.
        reward: Whether the method has a reward.
    """
    found: dict[str, Any] = {}
    if draft:
        from cdec.core.models.tabular import TabularModel
        from cdec.core.tokens.vocabulary import Vocabulary

        # A model whose every text ends at once.
        found["draft"] = TabularModel(lambda prefix: [1.0], Vocabulary([b""], [0], [0]))
    if reward:
        from cdec.samplers.rewards import REWARDS

        found["reward"] = REWARDS["regex"](".")
    return found
