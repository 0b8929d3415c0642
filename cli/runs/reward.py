"""The reward of a run: what it may be, and how it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.cli.runs.models import named_by
from cdec.core.errors import ConfigError, FieldError, UsageError

if TYPE_CHECKING:
    from cdec.cli.options.sampling import SampleOptions
    from cdec.cli.runs.method import ChosenMethod
    from cdec.samplers.rewards import Reward

_SAFE = ("coverage", "classifier", "regex")
"""Rewards that run no code of whoever names them."""


def refuse_code(options: SampleOptions, typed: frozenset[str]) -> None:
    """Refuse a reward that runs code unless it stood on the command line.

    Raises:
        ConfigError: ``cdec.toml`` names one.
    """
    spec = options.given.get("reward")
    if spec is None or "reward" in typed or spec.partition(":")[0] in _SAFE:
        return
    if ":" in spec:
        raise ConfigError(
            f"cdec.toml: the reward {spec!r} runs code and may stand on the command line only",
            hint=f"remove it there and type --reward {spec} where it is wanted",
            key="reward",
        )


def fields_of_reward(method: ChosenMethod) -> frozenset[str] | None:
    """Return the fields of records that the reward of a method reads; None for any."""
    spec = method.values.get("reward")
    if spec is None:
        return frozenset()
    from cdec.samplers.rewards import fields_read

    return fields_read(spec)


def build_reward(options: SampleOptions, method: ChosenMethod) -> Reward | None:
    """Build the reward of a method that uses one; a classifier is loaded.

    Raises:
        UsageError: No such reward, or one that reads fields of records, which --prompt has not.
        CdecError: What it needs cannot be had.
    """
    spec = method.values.get("reward")
    if spec is None:
        return None
    from cdec.samplers.rewards import build_reward

    is_model = spec.partition(":")[0] == "classifier"
    with named_by("--reward", spec):
        reward = build_reward(spec, **({"device": options.device} if is_model else {}))
    if options.has_texts:
        _require_no_fields(reward)
    return reward


def _require_no_fields(reward: Reward) -> None:
    """Refuse a reward that would fail for every text of ``--prompt``.

    Raises:
        UsageError: It reads fields.
    """
    try:
        reward.check(None)
    except FieldError as error:
        raise UsageError(
            f"--prompt gives a text and no fields: {error.message}",
            hint="give JSON records with -i FILE in place of --prompt, which have the field "
            f"{error.details['field']!r}",
        ) from error
