"""From options to a sampler: which option belongs to which method is read off the samplers."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from cdec.cli.options import parse_size, require_at_least
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.sample_options import SampleOptions
    from cdec.samplers.base import Sampler
    from cdec.samplers.counts import Counts

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
}
"""Field of the options, which is also a keyword of the samplers that use it → option typed."""

_LEAST = {"speculate": 0, "speculate_threshold": 0.0, "burn_in": 0, "resample_below": 0.0}
"""Smallest values that are not 1."""
_CHECK_THEMSELVES = frozenset({"until_converged", "fallback", "by"})
"""Fields whose values the samplers check."""

WITHOUT_EFFECT = frozenset({"tree_bytes", "tree"})
"""Fields that change no record; ``tree`` does, and is not resumed."""

WITHOUT_CONSTRAINT = frozenset({"unconstrained", "greedy"})
"""Methods that make sense for the model alone."""


def build_sampler(
    options: SampleOptions, typed: frozenset[str], counts: Counts | None = None
) -> Sampler:
    """Construct the sampler that ``--method`` names.

    Args:
        options: All options.
        typed: Fields that stood on the command line; one that the method does not use is refused,
            while ``cdec.toml`` may set options of several methods.
        counts: What speculation begins with.

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
    used = inspect.signature(sampler_class).parameters
    keywords: dict[str, Any] = {}
    for field, flag in METHOD_OPTIONS.items():
        value = getattr(options, field)
        if field not in used:
            if field in typed:
                raise _unused(flag, field, options.method, SAMPLERS)
        elif value is not None:
            keywords[field] = _checked(field, flag, value)
    if "counts" in used:
        keywords["counts"] = counts
    sampler: Sampler = sampler_class(**keywords)
    widest = getattr(sampler, "beams", None)
    if options.method == "beam" and widest is not None and options.n > widest:
        raise UsageError(
            f"-n is {options.n}, and a search of {widest} beams finds no more than {widest} texts",
            hint=f"give --beams {options.n} or more",
        )
    return sampler


def _checked(field: str, flag: str, value: Any) -> Any:
    if field == "tree_bytes":
        return parse_size(value, flag)
    if field == "tree":
        from cdec.samplers.tree_file import TreeFile

        return TreeFile(value)
    if not isinstance(value, bool) and field not in _CHECK_THEMSELVES:
        require_at_least(value, _LEAST.get(field, 1), flag)
    return value


def _unused(flag: str, field: str, method: str, samplers: Any) -> UsageError:
    users = [
        name for name, other in samplers.items() if field in inspect.signature(other).parameters
    ]
    return UsageError(
        f"{flag} means nothing to --method {method}",
        hint=f"leave it out, or take --method {' or '.join(users)}",
    )
