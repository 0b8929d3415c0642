"""Options of commands as they are declared: what help, cdec.toml, checks and manifests ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cdec.core.options import Option, option, options_of

SPELLINGS: dict[str, tuple[str, ...]] = {
    "K": ("--K", "-K"),
    "artifact": ("--artifact", "-a"),
    "conjoined": ("--and",),
    "input": ("--input", "-i"),
    "model": ("--model", "-m"),
    "n": ("-n", "--n"),
    "output": ("--output", "-o"),
    "path": ("-o",),
    "quiet": ("--quiet", "-q"),
}
"""Parameter → the words that stand for it, where they are not ``--`` and the name with dashes."""


def words_of(name: str) -> tuple[str, ...]:
    """Return the words by which a parameter is typed: ``top_k`` gives ``--top-k``."""
    return SPELLINGS.get(name, ("--" + name.replace("_", "-"),))


def flag_of(name: str) -> str:
    """Return the word that messages use for a parameter: ``K`` gives ``--K``."""
    words = words_of(name)
    return next((word for word in words if word.startswith("--")), words[0])


@dataclass(frozen=True)
class Details:
    """A section of help about one value of an option, or about all its values.

    Attributes:
        title: The heading.
        rows: Names, with what is said of each.
        options: What is said, in this section alone, of options by their parameter's name.
    """

    title: str
    rows: Sequence[tuple[str, str]] = ()
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)


class NumberOrWord(str):
    """The text of an option that is a number or a word; in ``cdec.toml`` it may be a number."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """The options of every command, which lists its own and groups that it shares with others."""

    quiet: bool = option(False, "Print errors only.", common=True)
    debug: bool = option(False, "Print tracebacks.", typed_only=True)
    trust_config: bool = option(
        False,
        "Let the cdec.toml of this folder name models, now and until it is changed.",
        typed_only=True,
    )


OptionsT = TypeVar("OptionsT", bound=CommonOptions)


def parameters_of(options_class: Any) -> Mapping[str, Option]:
    """Return the options and arguments of a command, or of a group of them, by name."""
    return {option.name: option for option in options_of(options_class)}


def key_of(option: Option) -> str:
    """Return the key of an option in ``cdec.toml``: the long name without dashes."""
    return flag_of(option.name).removeprefix("--")


def options_from(options_class: type[OptionsT], values: Mapping[str, Any]) -> OptionsT:
    """Return a command's options, with what fields hold together put there.

    Args:
        options_class: The dataclass.
        values: What was typed or stands in ``cdec.toml``, by the names of ``parameters_of``.

    Raises:
        UsageError: A number is too small or too large.
    """
    known = parameters_of(options_class)
    nested: dict[str, Any] = {}
    for name in filter(values.__contains__, known):
        if known[name].at_least is not None:
            known[name].check(values[name])
        place = nested
        for field in known[name].within:
            place = place.setdefault(field, {})
        place[name] = values[name]
    required = {name for name, each in known.items() if each.default is dataclasses.MISSING}
    options = options_class(**{name: nested.pop(name) for name in required})
    filled: OptionsT = _replaced(options, nested)
    return filled


def _replaced(group: Any, values: Mapping[str, Any]) -> Any:
    """Return a dataclass with other values, those of its groups in dicts of their own."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        before = getattr(group, name)
        is_group = dataclasses.is_dataclass(before) and isinstance(value, dict)
        found[name] = _replaced(before, value) if is_group else value
    return dataclasses.replace(group, **found)


def value_named(options: CommonOptions, name: str) -> Any:
    """Return the value of an option; None where the command has no such option."""
    declared = parameters_of(type(options)).get(name)
    return None if declared is None else value_of(options, declared)


def value_of(options: object, option: Option) -> Any:
    """Return the value that an option has."""
    for field in option.within:
        options = getattr(options, field)
    return (
        options.get(option.name) if isinstance(options, Mapping) else getattr(options, option.name)
    )


def deciding(options: CommonOptions) -> dict[str, object]:
    """Return the values of the options that decide what records say, by name."""
    declared = parameters_of(type(options)).values()
    return {each.name: value_of(options, each) for each in declared if each.decides}
