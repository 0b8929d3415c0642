"""The options of methods, as ``METHODS`` declares them; what a command adds for drafts."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from cdec.cli.frame.declaration import CommonOptions, Declared, NumberOrWord, Parameter, Several
from cdec.cli.frame.spellings import flag_of
from cdec.cli.options.decoding import WarpingOptions
from cdec.cli.options.shared import DRAFTS, METHOD, REWARDS
from cdec.core.options import Option
from cdec.samplers.registry import METHODS

MEASURE = "measure"
_MEASURED = f" `{MEASURE}` times both at the start."
_OF_DRAFTS = frozenset({"draft", "gamma", "draft_temperature", "cost_ratio", "counts"})
_LITERAL: Any = Literal


def _methods() -> str:
    """Return what ``--method`` may be, one clause."""
    groups: dict[str, list[str]] = {}
    for name, method in METHODS.items():
        two = "; with two models " if method.needs_draft else ""
        groups.setdefault("; with a reward " if method.needs_reward else two, []).append(name)
    return "".join(f"{said}{_listed(names)}" for said, names in groups.items()) + "."


def _listed(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions(CommonOptions):
    """Which method, and how many samples."""

    method: Annotated[str, Declared(_methods(), METHOD, decides=True)] = "disc"
    n: Annotated[int, Declared("Samples a prompt.", METHOD, at_least=1, decides=True)] = 1


@cache
def method_parameters() -> Mapping[str, Parameter]:
    """Return the options of all methods, by name."""
    users: dict[str, dict[str, Option]] = {}
    for name, method in METHODS.items():
        for option in method.options:
            if not option.python_only:
                users.setdefault(option.name, {})[name] = option
    return {name: _parameter(list(found), list(found.values())) for name, found in users.items()}


def _parameter(users: Sequence[str], options: Sequence[Option]) -> Parameter:
    """Return the option of a command for what some methods, ``users``, each declare."""
    option = options[0]
    is_shared = all(other.default == option.default for other in options)
    default = _default(option) if is_shared else None
    said = option.help + (_MEASURED if option.name == "cost_ratio" else "")
    declared = Declared(
        f"{', '.join(users)}: {said[0].lower()}{_in_typed_words(said[1:])}",
        _panel(users, option.name),
        metavar=_metavar(option),
    )
    kind = _type(option)
    return Parameter(option.name, kind if default is not None else kind | None, default, declared)


def _type(option: Option) -> Any:
    """Return the type of what is typed."""
    if option.unit == "bytes":
        return str
    if option.name == "cost_ratio" or (option.words and int in option.type):
        return NumberOrWord
    if option.words:
        return str if option.metavar else _LITERAL[option.words]
    return option.type


def _default(option: Option) -> Any:
    if option.unit == "bytes":
        return f"{option.default >> 20}MiB"
    is_mixed = _type(option) is NumberOrWord and option.default is not None
    return NumberOrWord(option.default) if is_mixed else option.default


def _metavar(option: Option) -> str | None:
    if option.name == "cost_ratio":
        return f"{option.metavar}|{MEASURE}"
    return option.metavar or None


def _panel(users: Sequence[str], name: str) -> str:
    """Return the section of the help in which an option stands."""
    if all(METHODS[user].needs_reward for user in users):
        return REWARDS
    is_of_drafts = name in _OF_DRAFTS or all(METHODS[user].needs_draft for user in users)
    return DRAFTS if is_of_drafts else METHOD


def _in_typed_words(text: str) -> str:
    """Return a help of the library with options for the parameters that it names."""
    classes = (ChoiceOptions, MethodOptions, WarpingOptions)
    named = {field.name for each in classes for field in dataclasses.fields(each)}
    named |= {option.name for method in METHODS.values() for option in method.options}
    return re.sub("`([A-Za-z_]+)`", lambda m: flag_of(m[1]) if m[1] in named else m[0], text)


@dataclass(frozen=True, kw_only=True)
class MethodOptions(CommonOptions):
    """The options of all methods; how a draft model is loaded, and where counts are kept.

    Attributes:
        given: Option of some method → its value, of those that were typed or stand in
            ``cdec.toml``; the others have the default of the method that is chosen.
    """

    given: Annotated[Mapping[str, Any], Several(method_parameters)] = field(default_factory=dict)

    draft_revision: Annotated[
        str | None, Declared("Commit, tag or branch of the draft.", DRAFTS)
    ] = None
    draft_dtype: Annotated[
        str | None, Declared("As --dtype, for the draft; that of --dtype if not given.", DRAFTS)
    ] = None
    save_counts: Annotated[
        Path | None,
        Declared(
            "Write the counts at the end of the run; the file of --counts may be named again.",
            DRAFTS,
            metavar="FILE",
        ),
    ] = None
