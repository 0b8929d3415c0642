"""Table of what may be put around any method, WRAPPERS; and the place where drafts are opened.

Samplers find here by name what they know nothing of. It is imported where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdec.samplers.drafts.base import DraftOptions
    from cdec.samplers.request import Request


def imported(home: str) -> Any:
    """Return what stands at ``module:name``."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Wrapper:
    """A way of drawing around a method: it may ask for other requests, and change samples.

    Attributes:
        home: ``module:Class``, made of a sampler once and called for each batch: see ``Wrapping``
            in ``base``.
        applies: Whether it is asked for, by the sampler's options or by requests.
    """

    home: str
    applies: Callable[[Any, Sequence[Request]], bool]


WRAPPERS = (
    Wrapper(
        "cdec.samplers.free.draws:FreeTextDrawing",
        lambda sampler, requests: any(request.free is not None for request in requests),
    ),
    Wrapper(
        "cdec.samplers.rewards.base:ScoredDrawing",
        lambda sampler, requests: sampler.reward is not None and not sampler.method.needs_reward,
    ),
)
"""Wrappers that draw around every method, the innermost first."""


def draft_of(
    options: Mapping[str, Any], *, is_verified: bool = True, decides: bool = False
) -> DraftOptions | None:
    """Return the draft that a sampler's options name; None where they name none.

    Args:
        options: ``draft``, ``gamma``, ``draft_temperature``, ``cost_ratio``, ``max_walks``, perhaps
            ``counts``.
        is_verified: Whether the target verifies proposals; else a draft only looks ahead.
        decides: Whether what is drawn depends on what is proposed.

    Raises:
        UsageError: It is neither a language model nor a kind of draft.
    """
    if options.get("draft") is None:
        return None
    found: DraftOptions = imported("cdec.samplers.drafts.named:named_draft")(
        options, is_verified, decides
    )
    return found
