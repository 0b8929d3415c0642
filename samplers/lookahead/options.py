"""Checks of the options that the samplers with a reward share."""

from __future__ import annotations

from cdec.core.errors import UsageError
from cdec.core.models.base import LanguageModel
from cdec.samplers.drafts.run import DraftOptions
from cdec.samplers.options import COUNTS, LOOKUP
from cdec.samplers.rewards.base import Reward


def require_reward(reward: object) -> Reward:
    """Return a reward.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(reward, Reward):
        raise UsageError(
            f"`reward` is {reward!r}, expected a Reward",
            hint="Build one with cdec.samplers.rewards.build_reward('coverage'); "
            "on the command line --reward coverage.",
            option="reward",
        )
    return reward


def require_draft_model(draft: object, depth: int, cost_ratio: float | None) -> DraftOptions:
    """Return the options of a greedy draft model that runs ``depth`` tokens ahead.

    Raises:
        UsageError: It is no language model, or ``cost_ratio`` is out of range.
    """
    if draft in (COUNTS, LOOKUP):
        raise UsageError(
            f"`draft` is {draft!r}: it proposes a token here and there, and a lookahead needs the "
            "most probable next token after any text, which only a language model knows",
            hint="Load a smaller model of the same vocabulary with cdec.core.load_model.",
            option="draft",
        )
    options = None
    if isinstance(draft, LanguageModel):
        options = DraftOptions.of(draft, depth, 0.0, cost_ratio=cost_ratio)
    if options is None:
        raise UsageError(
            f"`draft` is {draft!r}, expected a language model",
            hint="Load a smaller model of the same vocabulary with cdec.core.load_model; "
            "on the command line --draft PATH.",
            option="draft",
        )
    return options
