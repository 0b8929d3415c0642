"""Options of commands as they are declared: what help, cdec.toml, checks and manifests ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from cdec.core.options import Option

SPELLINGS: dict[str, tuple[str, ...]] = {
    "K": ("--K", "-K"),
    "artifact": ("--artifact", "-a"),
    "cheapest": ("--cheapest", "-k"),
    "conjoined": ("--and",),
    "sets": ("--set",),
    "input": ("--input", "-i"),
    "listing": ("--list",),
    "model": ("--model", "-m"),
    "n": ("-n", "--n"),
    "output": ("--output", "-o"),
    "path": ("-o",),
    "quiet": ("--quiet", "-q"),
    "refs": ("--ref",),
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
    options: Mapping[str, str] = field(default_factory=dict)


class NumberOrWord(str):
    """The text of an option that is a number or a word; in ``cdec.toml`` it may be a number."""

    __slots__ = ()


def option(default: Any, help: str, panel: str = "General", **declared: Any) -> Any:
    """Return the field of a dataclass of a command's options, which has its name and type.

    Args:
        default: The value where nothing is given; ``MISSING`` where it must be.
        help: One or two sentences.
        panel: The section of the help.
        declared: Of the ``Option``, where it is more; it decides nothing if nobody says so.
    """
    told = {"decides": False, "help": help, "panel": panel} | declared
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=told)
    return field(default=default, metadata=told)


def group(kind: Callable[[], Any], *, common: bool = True) -> Any:
    """Return the field of a dataclass of options that holds another such dataclass, ``kind``.

    Args:
        kind: The dataclass.
        common: Whether the short help shows those of its options that say so.
    """
    return field(default_factory=kind, metadata={"group": None, "common": common})


def limits(default: Any, panel: str) -> Any:
    """Return the field that holds a dataclass of limits, each an option without a default.

    Args:
        default: The limits where nothing is given, which the help tells.
        panel: The section of the help.
    """
    return field(default_factory=lambda: default, metadata={"group": panel})


def several(declared: Callable[[], Mapping[str, Option]]) -> Any:
    """Return the field that holds those options that were given, by name, of the ones declared."""
    return field(default_factory=dict, metadata={"several": declared})


@cache
def options_of(declaring: Any) -> tuple[Option, ...]:
    """Return the options that the fields of a dataclass declare, those of its groups included."""
    types = get_type_hints(declaring)
    found: list[Option] = []
    for each in fields(declaring):
        told, kind = each.metadata, types[each.name]
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if "group" in told:
            own = options_of(kind)
            if told["group"] is not None:
                own = tuple(_limit_of(o, default, told["group"]) for o in own if not o.python_only)
            shown = told.get("common", True)
            found += (
                replace(o, within=(each.name, *o.within), common=o.common and shown) for o in own
            )
        elif "several" in told:
            found += (replace(o, within=(each.name,)) for o in told["several"]().values())
        else:
            found.append(Option(name=each.name, type=_bare(kind), default=default, **told))
    return tuple(found)


def _limit_of(option: Option, limits: Any, panel: str) -> Option:
    """Return a limit as an option of a command: what it is if not given stands in its help."""
    shown = _shown(getattr(limits, option.name), option.unit)
    said = f"{option.help.removesuffix('.')}; {shown} if not given."
    return replace(option, default=None, help=said, panel=panel)


def _shown(limit: float, unit: str) -> str:
    """Return a limit for people: ``4 MiB``, ``4 KiB``, ``20 million``, ``500``."""
    if unit == "bytes" and limit < 1 << 20:
        return f"{limit / (1 << 10):g} KiB"
    if unit == "bytes":
        return f"{limit / (1 << 20):g} MiB"
    return f"{limit / 1e6:g} million" if limit % 1e6 == 0 else f"{limit:.0f}"


def _bare(kind: Any) -> Any:
    """Return a type without None."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    return reduce(or_, (part for part in get_args(kind) if part is not NoneType))


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
GroupT = TypeVar("GroupT")


def parameters_of(options_class: Any) -> Mapping[str, Option]:
    """Return the options and arguments of a command, or of a group of them, by name."""
    return {option.name: option for option in options_of(options_class)}


def key_of(option: Option) -> str:
    """Return the key of an option in ``cdec.toml``: the long name without dashes."""
    return flag_of(option.name).removeprefix("--")


def options_from(options_class: type[GroupT], values: Mapping[str, Any]) -> GroupT:
    """Return the options of a command, or of a group, with what fields hold together put there.

    Args:
        options_class: The dataclass.
        values: What was typed or stands in ``cdec.toml``, by the names of ``parameters_of``.

    Raises:
        UsageError: A number is too small or too large.
    """
    known = parameters_of(options_class)
    nested: dict[str, Any] = {}
    for name in filter(values.__contains__, known):
        if known[name].is_bounded:
            known[name].check(values[name])
        place = nested
        for step in known[name].within:
            place = place.setdefault(step, {})
        place[name] = values[name]
    required = {name for name, each in known.items() if each.default is MISSING}
    options = options_class(**{name: nested.pop(name) for name in required})
    filled: GroupT = _replaced(options, nested)
    return filled


def _replaced(group: Any, values: Mapping[str, Any]) -> Any:
    """Return a dataclass with other values, those of its groups in dicts of their own."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        before = getattr(group, name)
        is_group = dataclasses.is_dataclass(before) and isinstance(value, dict)
        found[name] = _replaced(before, value) if is_group else value
    return replace(group, **found)


def value_named(options: CommonOptions, name: str) -> Any:
    """Return the value of an option; None where the command has no such option."""
    declared = parameters_of(type(options)).get(name)
    return None if declared is None else value_of(options, declared)


def value_of(options: object, option: Option) -> Any:
    """Return the value that an option has."""
    for step in option.within:
        options = getattr(options, step)
    return (
        options.get(option.name) if isinstance(options, Mapping) else getattr(options, option.name)
    )


def deciding(options: CommonOptions) -> dict[str, object]:
    """Return the values of the options that decide what records say, by name."""
    declared = parameters_of(type(options)).values()
    return {each.name: value_of(options, each) for each in declared if each.decides}
