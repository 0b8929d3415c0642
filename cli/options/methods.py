"""Options of methods, as ``METHODS`` declares them, and of drafts."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal

from cdec.cli.frame.declaration import Details, NumberOrWord, flag_of, option, several
from cdec.cli.options.model import WarpingOptions
from cdec.cli.options.shared import DRAFTS, METHOD, REWARDS, names_model
from cdec.core.errors import UsageError
from cdec.core.options import Option
from cdec.samplers.facts import ABOUT
from cdec.samplers.method import Method
from cdec.samplers.options import COUNTS, LOOKUP
from cdec.samplers.registry import METHODS

MEASURE = "measure"
_MEASURED = f" `{MEASURE}` times both at the start."
_OF_DRAFTS = frozenset(
    {
        *("draft", "gamma", "draft_temperature", "cost_ratio"),
        *("counts", "freeze_counts", "count_threshold"),
    }
)
_LITERAL: Any = Literal


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """Options of the method and the number of samples."""

    method: str = option(
        "disc",
        "How texts are drawn; see Methods.",
        METHOD,
        metavar="NAME",
        decides=True,
        common=True,
        details=lambda name: details_of(name),
    )
    n: int = option(1, "Samples a prompt.", METHOD, at_least=1, decides=True, common=True)


_NAMES_MODEL: Mapping[str, Callable[[str], bool]] = {
    "draft": lambda value: value not in (COUNTS, LOOKUP) and names_model(value),
    "reward": lambda value: value.startswith("classifier:"),
}
"""Options of methods that may name a model, and whether a value does."""


@cache
def method_parameters() -> Mapping[str, Option]:
    """Return the options of all methods, by name."""
    users: dict[str, dict[str, Option]] = {}
    for name, method in METHODS.items():
        for each in method.options:
            if not each.python_only:
                users.setdefault(each.name, {})[name] = each
    return {name: _parameter(list(found), list(found.values())) for name, found in users.items()}


def _parameter(users: Sequence[str], options: Sequence[Option]) -> Option:
    """Return the option of a command for what some methods, ``users``, each declare."""
    option = options[0]
    is_shared = all(other.default == option.default for other in options)
    is_measured = option.name == "cost_ratio"
    said = option.help + (_MEASURED if is_measured else "")
    named = "all methods" if len(users) == len(METHODS) else ", ".join(users)
    # Bounds are those of the method that is chosen, which checks them and has its own manifest.
    return Option(
        name=option.name,
        type=_type(option),
        default=_default(option) if is_shared else None,
        help=f"{named}: {said[0].lower()}{in_option_words(said[1:])}",
        panel=_panel(users, option.name),
        metavar=f"{option.metavar}|{MEASURE}" if is_measured else option.metavar,
        common=any(each.common for each in options),
        typed_only=option.typed_only,
        names_model=_NAMES_MODEL.get(option.name),
        decides=False,
    )


def named_method(name: str) -> Method:
    """Return what is declared of a method.

    Raises:
        UsageError: There is none of this name.
    """
    method = METHODS.get(name)
    if method is None:
        close = get_close_matches(name, METHODS, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"no method {name!r}", hint=f"{meant}`cdec methods` lists them")
    return method


def options_said(method: Method) -> dict[str, str]:
    """Return what is said of each option of a method, with its default there."""
    return {
        option.name: f"{in_option_words(option.help)}{_shown_default(option)}"
        for option in method.options
        if not option.python_only
    }


def _shown_default(option: Option) -> str:
    default = _default(option)
    return "" if default in (None, False) else f"  [default: {default}]"


def facts_of(method: Method) -> list[tuple[str, str]]:
    """Return what is said of a method itself, by name: law, weight, needs, cost."""
    about = ABOUT[method.name]
    return [
        ("law", in_option_words(about.law_in_full)),
        ("log_weight", in_option_words(about.weight_in_full)),
        ("needs", ", ".join(method.needs) or "nothing"),
        ("cost", in_option_words(about.cost_in_full)),
    ]


def details_of(name: str | None) -> list[Details]:
    """Return what help says of a method, or of all of them for None.

    Raises:
        UsageError: There is none of this name.
    """
    if name is None:
        rows = [(each.name, ABOUT[each.name].summary) for each in METHODS.values()]
        return [Details("Methods (--method NAME --help adds what one takes)", rows)]
    method = named_method(name)
    said = in_option_words(ABOUT[method.name].summary)
    return [
        Details(f"Method {name}", [("draws", said), *facts_of(method)]),
        Details(f"Options of {name}", options=options_said(method)),
    ]


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


def _panel(users: Sequence[str], name: str) -> str:
    """Return the section of the help in which an option stands."""
    if name == "reward" or all(METHODS[user].needs_reward for user in users):
        return REWARDS
    is_of_drafts = name in _OF_DRAFTS or all(METHODS[user].needs_draft for user in users)
    return DRAFTS if is_of_drafts else METHOD


def in_option_words(text: str) -> str:
    """Return a help of the library with options for the parameters that it names."""
    groups = (ChoiceOptions, MethodOptions, WarpingOptions)
    named = {field.name for each in groups for field in dataclasses.fields(each)}
    named |= {option.name for method in METHODS.values() for option in method.options}
    return re.sub("`([A-Za-z_]+)`", lambda m: flag_of(m[1]) if m[1] in named else m[0], text)


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """The options of all methods; how a draft model is loaded, and where counts are kept.

    Attributes:
        given: Option of some method → its value, of those that were typed or stand in
            ``cdec.toml``; the others have the default of the method that is chosen.
    """

    given: Mapping[str, Any] = several(method_parameters)

    draft_revision: str | None = option(None, "Commit, tag or branch of the draft.", DRAFTS)
    draft_dtype: str | None = option(
        None, "As --dtype, for the draft; that of --dtype if not given.", DRAFTS
    )
    save_counts: Path | None = option(
        None,
        "Write the counts at the end of the run; the file of --counts may be named again.",
        DRAFTS,
        metavar="FILE",
        typed_only=True,
    )
