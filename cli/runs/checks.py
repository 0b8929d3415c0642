"""What several commands refuse before they open anything: numbers, warping, prompts, fields."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cdec.cli.options.shared import refuse_terminal
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.options.decoding import WarpingOptions
    from cdec.cli.options.prompts import PromptOptions
    from cdec.core.models.warping import Warping

_NEARLY_GREEDY = (
    "give a small one such as 0.01, which leaves nearly all mass to the most probable tokens"
)


def check_warping(options: WarpingOptions, *, instead: str = _NEARLY_GREEDY) -> None:
    """Refuse a distribution that the model would refuse, in the words that were typed.

    Args:
        options: Temperature, top-k and top-p.
        instead: What to give in the place of a temperature of 0.

    Raises:
        UsageError: One of them is out of range.
    """
    if options.temperature == 0:
        raise UsageError("--temperature is 0, which gives no distribution", hint=instead)
    try:
        warping_of(options)
    except UsageError as error:
        error.hint = error.hint or "leave it out for the model's own distribution"
        raise


def warping_of(options: WarpingOptions) -> Warping:
    """Return how the options warp the model's distribution."""
    # Imports numpy, which no help needs.
    from cdec.core.models.warping import Warping

    return Warping(options.temperature, options.top_k, options.top_p)


def check_prompts(
    options: PromptOptions, typed: frozenset[str], *, unconstrained: UsageError | None
) -> None:
    """Refuse prompts from two places, from a terminal, or that nothing can hold to a constraint.

    Args:
        options: Where prompts come from.
        typed: Fields that stood on the command line.
        unconstrained: What is wrong with prompts that bring no constraint of their own, as those of
            ``--prompt``; the first record of an input is looked at later.

    Raises:
        UsageError: One of these.
    """
    if options.prompt and "input" in typed:
        raise UsageError("--prompt and --input were both given", hint="give one of them")
    if options.prompt and unconstrained is not None:
        raise unconstrained
    if not options.prompt and options.input == "-":
        refuse_terminal(
            "prompts (text or JSONL lines)", "give --prompt TEXT or -i FILE, or pipe them in"
        )


def parse_fields(text: str | None, known: Sequence[str], what: str) -> Sequence[str] | None:
    """Return the names in ``--fields``; None keeps every field.

    Args:
        text: As typed.
        known: Every name there is.
        what: What has these fields, such as ``sample``.

    Raises:
        UsageError: An unknown name, or none.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise UsageError(
                f"--fields has {name!r}, which no {what} has",
                hint=f"did you mean {close[0]!r}?" if close else ", ".join(known),
            )
    if not names:
        raise UsageError(f"--fields is {text!r}", hint="name the fields to keep")
    return names
