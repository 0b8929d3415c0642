"""From options to a sampler: which option belongs to which method is read off the samplers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.declaration import LARGEST_COUNT, require_range
from cdec.cli.options.names import in_typed_words
from cdec.cli.options.shared import parse_size
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.options.sampling import SampleOptions
    from cdec.samplers.base import Sampler
    from cdec.samplers.learning.saved.file import TreeFile

METHOD_OPTIONS = {
    "max_tries": "--K",
    "recycle": "--recycle",
    "top_m": "--top-m",
    "beams": "--beams",
    "opportunistic": "--opportunistic",
    "speculate": "--speculate",
    "speculate_threshold": "--speculate-threshold",
    "round": "--round",
    "burn_in": "--burn-in",
    "until_converged": "--until-converged",
    "max_draws": "--max-draws",
    "fallback": "--fallback",
    "abort": "--abort",
    "particles": "--particles",
    "resample_below": "--resample-below",
    "tree_bytes": "--tree-cache",
    "by": "--by",
    "max_evaluations": "--max-evaluations",
    "tree": "--tree",
    "draft": "--draft",
    "gamma": "--gamma",
    "draft_temperature": "--draft-temperature",
    "greedy": "--greedy",
    "divergence": "--divergence",
    "divergence_total": "--divergence-total",
    "cost_ratio": "--cost-ratio",
    "reward": "--reward",
    "branch": "--branch",
    "depth": "--depth",
    "target_tries": "--target-tries",
    "accept_threshold": "--accept-threshold",
    "reward_threshold": "--reward-threshold",
    "verify": "--verify",
    "on_reject": "--on-reject",
}
"""Field of the options, which is also a keyword of the samplers that use it → option typed."""

_LEAST = dict.fromkeys(
    (
        *("speculate", "burn_in", "resample_below", "speculate_threshold"),
        *("draft_temperature", "divergence", "divergence_total", "target_tries"),
        "accept_threshold",
    ),
    0,
)
"""Smallest values that are not 1."""
_CHECKED_ELSEWHERE = frozenset(
    {"until_converged", "fallback", "by", "reward_threshold", "verify", "on_reject"}
)
"""Fields whose values the samplers or Typer check."""
_PARTNERS = frozenset({"draft", "reward", "cost_ratio"})
"""Fields that name what a sampler works with: see ``cli/runs/partners.py``."""

WITHOUT_EFFECT = frozenset({"tree_bytes", "tree"})
"""Fields that change no record; ``tree`` does, and is not resumed."""

WITHOUT_CONSTRAINT = frozenset(
    {"unconstrained", "greedy", "speculative", "mentored", "cdlh", "cdlh-approx", "cdsl"}
)
"""Methods that make sense for the model alone."""


@dataclass(frozen=True)
class Method:
    """A method and its checked options: a sampler, but for what must be opened first.

    Attributes:
        name: As in ``--method``.
        sampler_class: Its sampler.
        keywords: Arguments that the options gave.
    """

    name: str
    sampler_class: Any
    keywords: Mapping[str, Any]

    @property
    def tree(self) -> TreeFile | None:
        """Where the draws of a single record are kept."""
        tree: TreeFile | None = self.keywords.get("tree")
        return tree

    def uses(self, field: str) -> bool:
        """Whether an option of this name means something to the method."""
        return _uses(self.name, self.sampler_class, field)

    def sampler(self, **partners: Any) -> Sampler:
        """Construct the sampler.

        Args:
            partners: Further arguments; those that the method does not take, or that are None, are
                left out.

        Raises:
            UsageError: A value out of range.
        """
        given = {name: value for name, value in partners.items() if value is not None}
        takes = inspect.signature(self.sampler_class).parameters
        own = {name: value for name, value in given.items() if name in takes}
        with in_typed_words(METHOD_OPTIONS):
            sampler: Sampler = self.sampler_class(**{**self.keywords, **own})
        return sampler


def method_of(options: SampleOptions, typed: frozenset[str]) -> Method:
    """Return the method that ``--method`` names.

    Args:
        options: All options.
        typed: Fields that stood on the command line; one that the method does not use is refused,
            while ``cdec.toml`` may set options of several methods.

    Raises:
        UsageError: No such method, an option that it does not use, or a value out of range.
    """
    from cdec.samplers import SAMPLERS

    sampler_class: Any = SAMPLERS.get(options.method)
    if sampler_class is None:
        close = get_close_matches(options.method, SAMPLERS, n=1)
        raise UsageError(
            f"no method {options.method!r}",
            hint=f"did you mean {close[0]!r}?" if close else f"methods: {', '.join(SAMPLERS)}",
        )
    takes = inspect.signature(sampler_class).parameters
    keywords: dict[str, Any] = {}
    for field, flag in METHOD_OPTIONS.items():
        value = getattr(options, field)
        if not _uses(options.method, sampler_class, field):
            if field in typed:
                raise _unused(flag, field, options.method, SAMPLERS)
        elif field not in _PARTNERS and value is not None:
            checked = _checked(field, flag, value)
            keywords |= {field: checked} if field in takes else {}
    if "reward" in takes and options.reward is None:
        raise UsageError(
            f"--method {options.method} needs a reward",
            hint="give --reward coverage, classifier:PATH, regex:PATTERN or module:function",
        )
    _check_beams(options, keywords.get("beams", takes["beams"].default if "beams" in takes else 0))
    return Method(options.method, sampler_class, keywords)


def _check_beams(options: SampleOptions, widest: int | None) -> None:
    if options.method == "beam" and widest is not None and options.n > widest:
        raise UsageError(
            f"-n is {options.n}, and a search of {widest} beams finds no more than {widest} texts",
            hint=f"give --beams {options.n} or more",
        )


def _checked(field: str, flag: str, value: Any) -> Any:
    if field == "tree_bytes":
        return parse_size(value, flag)
    if field == "tree":
        from cdec.samplers.learning.saved.file import TreeFile

        return TreeFile(value)
    if field == "gamma":
        return parse_gamma(value)
    if not isinstance(value, bool) and field not in _CHECKED_ELSEWHERE:
        require_range(flag, value, _LEAST.get(field, 1))
    if field == "accept_threshold" and value > 1:
        raise UsageError(
            f"{flag} is {value}, expected a share from 0 to 1", hint=f"give for example {flag} 0.3"
        )
    return value


def parse_gamma(text: str) -> int | str:
    """Return what ``--gamma`` says: tokens, or ``auto``.

    Raises:
        UsageError: Neither.
    """
    if text == "auto":
        return text
    is_number = text.isascii() and text.isdigit()
    # subtle: Python refuses to read a number of thousands of digits.
    if not is_number or len(text) > 10 or not 1 <= int(text) <= LARGEST_COUNT:
        raise UsageError(
            f"--gamma is {text!r}, expected a number of tokens from 1 to {LARGEST_COUNT}, or auto",
            hint="give for example --gamma 4",
        )
    return int(text)


def _uses(method: str, sampler_class: Any, field: str) -> bool:
    # The samplers know nothing of this: --speculate S is --draft counts --gamma S there.
    is_short = field == "speculate" and method == "speculative"
    return is_short or field in inspect.signature(sampler_class).parameters


def _unused(flag: str, field: str, method: str, samplers: Any) -> UsageError:
    users = [name for name, other in samplers.items() if _uses(name, other, field)]
    return UsageError(
        f"{flag} means nothing to --method {method}",
        hint=f"leave it out, or take --method {' or '.join(users)}",
    )
