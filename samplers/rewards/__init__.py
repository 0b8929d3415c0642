"""Rewards: scores of generated texts; one kind a file, listed in REWARDS, built from a spec.

Read ``base``, which also scores what was drawn, then a kind (``coverage``, ``classifier``,
``pattern``, ``function``). Others import ``build_reward`` and ``Reward``; ``lookahead`` draws with
them.
"""

from __future__ import annotations

import inspect
import re
from difflib import get_close_matches
from typing import Any

from cdec.core.errors import UsageError
from cdec.samplers.rewards.base import Reward
from cdec.samplers.rewards.classifier import ClassifierReward
from cdec.samplers.rewards.coverage import CoverageReward
from cdec.samplers.rewards.function import FunctionReward, file_hint
from cdec.samplers.rewards.pattern import PatternReward

__all__ = ["REWARDS", "Reward", "build_reward", "fields_read"]

REWARDS: dict[str, type[Reward]] = {
    "coverage": CoverageReward,
    "classifier": ClassifierReward,
    "regex": PatternReward,
    "function": FunctionReward,
}
"""Kind → class. What follows the kind's colon in a spec is the class's argument."""

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_FORMS = "coverage, classifier:[pair:]PATH_OR_NAME, regex:PATTERN, module:function"


def build_reward(spec: str, **options: Any) -> Reward:
    """Build the reward that a spec names.

    Args:
        spec: ``coverage``, ``coverage:past``, ``classifier:PATH_OR_NAME``, ``regex:PATTERN`` or
            ``module:function``; ``classifier:pair:PATH_OR_NAME`` for prompt and text;
            ``function:module:function`` for a module that is named like a kind. Importing a module
            runs it: take specs from the command line, never from a record.
        options: Keyword arguments of the kind's class.

    Raises:
        UsageError: No such kind, an argument that makes no sense or that is missing, or an option
            that the kind does not have.
        CdecError: What the kind needs cannot be had: a model, an extra.
    """
    kind, argument = _kind(spec)
    if kind not in REWARDS:
        close = get_close_matches(kind, REWARDS, n=1)
        meant = f"did you mean {close[0]!r}?" if close else f"rewards: {_FORMS}"
        raise UsageError(f"no reward {spec!r}", hint=file_hint(spec) or meant)
    reward = REWARDS[kind]
    known = [*inspect.signature(reward).parameters][1:]
    for option in options:
        if option not in known:
            raise UsageError(
                f"the reward {kind} has no option {option!r}",
                hint=f"its options: {', '.join(known)}" if known else "it has none",
                option=option,
            )
    return reward(argument, **options)


def fields_read(spec: str) -> frozenset[str] | None:
    """Return the fields of records that a reward reads; None where they may be any.

    Args:
        spec: As in ``build_reward``; nothing is imported or loaded for it.
    """
    reward = REWARDS.get(_kind(spec)[0])
    return frozenset() if reward is None else reward.reads


def _kind(spec: str) -> tuple[str, str]:
    """Return the kind that a spec names, in ``REWARDS`` or not, and its argument."""
    kind, _, argument = spec.partition(":")
    return ("function", spec) if kind not in REWARDS and _is_function(spec) else (kind, argument)


def _is_function(spec: str) -> bool:
    """Whether a spec reads ``module:function`` and is no misspelt kind."""
    kind = spec.partition(":")[0]
    return bool(_FUNCTION.fullmatch(spec)) and not get_close_matches(kind, REWARDS, 1, 0.8)
