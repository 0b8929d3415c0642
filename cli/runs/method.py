"""The method of a run with its options and reward: what ``METHODS`` declares, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.config import FILE_NAME
from cdec.cli.frame.declaration import NumberOrWord, flag_of
from cdec.cli.options.methods import MEASURE, named_method
from cdec.cli.options.shared import parse_size
from cdec.cli.runs.tokenizer import named_by
from cdec.core.errors import ConfigError, FieldError, UsageError
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS

if TYPE_CHECKING:
    from cdec.cli.options.methods import ChoiceOptions
    from cdec.samplers.learning.saved import TreeFile
    from cdec.samplers.rewards import Reward


_EITHER = frozenset({"divergence", "divergence_total"})
"""Of these, what is typed wins over the other in ``cdec.toml``."""


@dataclass(frozen=True)
class ChosenMethod:
    """A method and the values of its options, which are in range and go together.

    Attributes:
        declared: Its entry in ``METHODS``.
        values: Of all its options; drafts, rewards and files by name, until they are opened.
        is_measured: Whether the cost ratio is to be measured.
    """

    declared: Method
    values: Mapping[str, Any]
    is_measured: bool

    @classmethod
    def of(
        cls, choice: ChoiceOptions, given: Mapping[str, Any], typed: frozenset[str]
    ) -> ChosenMethod:
        """Return the method that ``--method`` names.

        Args:
            choice: The method, and how many samples.
            given: Options of methods that were typed or stand in ``cdec.toml``.
            typed: Options that stood on the command line; one that the method does not use is
                refused, while ``cdec.toml`` may set options of several methods.

        Raises:
            UsageError: No such method, an option that it does not use, one that it needs and that
                is not given, a value out of range, or values that do not go together.
        """
        method = named_method(choice.method)
        _refuse_unused(method, given, typed)
        beside = _EITHER - typed if _EITHER & typed else frozenset()
        read = {
            name: _read(name, value)
            for name, value in given.items()
            if method.option(name) is not None and name not in beside
        }
        if method.needs_reward and "reward" not in read:
            raise UsageError(
                f"--method {method.name} needs a reward",
                hint="give --reward coverage, classifier:PATH, regex:PATTERN or module:function",
            )
        values = method.checked(read)
        _sampler_class(method).require_consistent(values)
        _require_beams(method, choice.n, values)
        return cls(method, values, given.get("cost_ratio") == MEASURE)

    def uses(self, name: str) -> bool:
        """Say whether the method has an option."""
        return self.declared.option(name) is not None

    @property
    def tree(self) -> TreeFile | None:
        """The file of the draws of a single record."""
        path: Path | None = self.values.get("tree")
        if path is None:
            return None
        from cdec.samplers.learning.saved import TreeFile

        return TreeFile(path)

    def manifest(self) -> dict[str, object]:
        """Return the values that decide what records say, by what is typed for them."""
        deciding = [option for option in self.declared.options if option.decides]
        shown = {option.name: _shown(self.values[option.name]) for option in deciding}
        if self.is_measured and "cost_ratio" in shown:
            shown["cost_ratio"] = MEASURE
        return {flag_of(name).strip("-"): value for name, value in shown.items()}


def _sampler_class(method: Method) -> Any:
    from cdec.samplers.registry import SAMPLERS

    return SAMPLERS[method.name]


def _refuse_unused(method: Method, given: Mapping[str, Any], typed: frozenset[str]) -> None:
    """Refuse options of other methods that were typed."""
    for name in given:
        if name in typed and method.option(name) is None:
            users = [each.name for each in METHODS.values() if each.option(name) is not None]
            raise UsageError(
                f"{flag_of(name)} means nothing to --method {method.name}",
                hint=f"leave it out, or take --method {' or '.join(users)}",
            )


def _read(name: str, value: Any) -> Any:
    """Return what an option's text says, where the command line takes a text for it."""
    if name == "cost_ratio":
        return parse_cost_ratio(value)
    if name == "tree_cache":
        return parse_size(value, flag_of(name))
    if isinstance(value, NumberOrWord):
        # subtle: Python refuses to read a number of thousands of digits, and 0 is none here.
        is_number = value.isascii() and value.isdigit() and 0 < len(value.lstrip("0")) <= 10
        return int(value) if is_number else str(value)
    return value


def _require_beams(method: Method, n: int, values: Mapping[str, Any]) -> None:
    """Refuse to ask a beam search for more texts than it can find."""
    widest = values.get("beams")
    if method.name == "beam" and widest is not None and n > widest:
        raise UsageError(
            f"-n is {n}, and a search of {widest} beams finds no more than {widest} texts",
            hint=f"give --beams {n} or more",
        )


def _shown(value: Any) -> object:
    """Return a value as JSON has it; it has no infinity, which would read as not given."""
    if isinstance(value, Path):
        return str(value)
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def parse_cost_ratio(text: str | None) -> float | None:
    """Return the number that was typed; None for none, and for ``measure``.

    Raises:
        UsageError: It is neither a number above 0 nor ``measure``.
    """
    if text is None or text == MEASURE:
        return None
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not 0.0 < ratio < math.inf:
        raise UsageError(
            f"--cost-ratio is {text!r}, expected a number above 0, or measure",
            hint="give for example --cost-ratio 0.2",
        )
    return ratio


_SAFE = ("coverage", "classifier", "regex")
"""Rewards that run no code of whoever names them."""


def refuse_code(given: Mapping[str, Any], typed: frozenset[str], file: object = FILE_NAME) -> None:
    """Refuse a reward that runs code unless it stood on the command line.

    Args:
        given: Options of methods.
        typed: Options that stood on the command line.
        file: That gives the others.

    Raises:
        ConfigError: The file names one.
    """
    spec = given.get("reward")
    if spec is None or "reward" in typed or spec.partition(":")[0] in _SAFE:
        return
    if ":" in spec:
        raise ConfigError(
            f"{file}: the reward {spec!r} runs code and may stand on the command line only",
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


def build_reward(method: ChosenMethod, *, device: str, has_fields: bool) -> Reward | None:
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
        reward = build_reward(spec, **({"device": device} if is_model else {}))
    if not has_fields:
        _require_no_fields(reward)
    return reward


def _require_no_fields(reward: Reward) -> None:
    """Refuse a reward that would fail for every text of ``--prompt``."""
    try:
        reward.check(None)
    except FieldError as error:
        raise UsageError(
            f"--prompt gives a text and no fields: {error.message}",
            hint="give JSON records with -i FILE in place of --prompt, which have the field "
            f"{error.details['field']!r}",
        ) from error
