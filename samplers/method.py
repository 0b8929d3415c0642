"""Declarations of methods: options and needs, before a sampler is imported."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from cdec.core.options import Option


@dataclass(frozen=True, kw_only=True)
class Method:
    """Declaration of a method, known before its sampler is imported.

    Attributes:
        name: As in ``METHODS``.
        home: ``module:Class`` of its sampler.
        options: What its constructor takes.
        masks: Whether constraints forbid events while walking.
        needs_constraint: Whether it makes no sense for the model alone.
        needs_draft: Whether a draft has to be given.
        needs_reward: Whether a reward has to be given.
        named_drafts: Drafts that are no models and that it can use.
        streams: Whether one prompt fills a batch by itself: prompts then come one by one, each
            written when it is done, unless a batch size is given.
    """

    name: str
    home: str
    options: tuple[Option, ...]
    masks: bool = True
    needs_constraint: bool = True
    needs_draft: bool = False
    needs_reward: bool = False
    named_drafts: tuple[str, ...] = ()
    streams: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of what has to be given: constraint, draft, reward."""
        needs = (self.needs_constraint, self.needs_draft, self.needs_reward)
        return tuple(
            name
            for name, needed in zip(("constraint", "draft", "reward"), needs, strict=True)
            if needed
        )

    def option(self, name: str) -> Option | None:
        """Return the option of this name; None where the method has none."""
        return next((option for option in self.options if option.name == name), None)

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every option: those given, checked, and the others' defaults.

        Args:
            values: By option's name; objects such as models and rewards are not looked at.

        Raises:
            UsageError: A value out of range.
            TypeError: The method has no such option, or it is given under both of its names.
        """
        names = {option.also or option.name: option.name for option in self.options}
        given = {names.get(name, name): value for name, value in values.items()}
        known = {option.name for option in self.options}
        if unknown := sorted(set(given) - known):
            close = get_close_matches(unknown[0], known, n=1)
            near = f"; did you mean {close[0]!r}?" if close else f"; it has {sorted(known)}"
            raise TypeError(f"{self.name} has no option {unknown[0]!r}{near}")
        if len(given) < len(values):
            raise TypeError(f"{self.name} was given one option under two names: {sorted(values)}")
        return {
            option.name: option.check(given.get(option.name, option.default))
            for option in self.options
        }

    def signature(self) -> inspect.Signature:
        """Return the signature of the sampler's constructor: all keywords."""
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [inspect.Parameter(each.name, kind, default=each.default) for each in self.options]
        )
