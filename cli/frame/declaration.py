"""Options of commands as they are declared: what help, cdec.toml, checks and manifests ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from cdec.core.errors import UsageError
from cdec.core.options import LARGEST_COUNT, limits_of

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


GENERAL = "General"


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


@dataclass(frozen=True)
class Declared:
    """What an option is beside its name, type and default.

    Attributes:
        help: One or two sentences.
        panel: The section of the help in which it stands.
        metavar: What stands for the value in the help; None for the type's name.
        at_least: Smallest value; None for any.
        at_most: Largest value; that of a whole number is ``LARGEST_COUNT`` if this is None.
        decides: Whether it changes what records say: such options stand in the manifest.
        typed_only: Whether ``cdec.toml`` must not set it, as it writes or replaces a file or runs
            code: the folder may have been downloaded.
        names_model: Whether a value names a model or tokenizer to load, which ``cdec.toml`` may do
            once somebody confirmed it; None where none does.
        positional: Whether it is an argument, told by its place.
        has_key: Of an argument: whether ``cdec.toml`` may give it, as it gives options.
        common: Whether it stands in the short help; ``--help-all`` shows the others too.
        details: Returns what help says of a value that is typed; of all values for None.
    """

    help: str
    panel: str = GENERAL
    _: KW_ONLY
    metavar: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    decides: bool = False
    typed_only: bool = False
    names_model: Callable[[str], bool] | None = None
    positional: bool = False
    has_key: bool = False
    common: bool = False
    details: Callable[[str | None], Sequence[Details]] | None = None


@dataclass(frozen=True)
class Limits:
    """Says that a field is a dataclass of limits, each of which is an option.

    Attributes:
        panel: The section of the help in which they stand.
    """

    panel: str


@dataclass(frozen=True)
class Several:
    """Says that a field is a mapping of the options that were given, of those listed.

    Attributes:
        parameters: Returns the options, by name.
    """

    parameters: Callable[[], Mapping[str, Parameter]]


@dataclass(frozen=True)
class Parameter:
    """An option or argument of a command.

    Attributes:
        name: Of the field, or of the option within it.
        type: Of its values.
        default: ``MISSING`` where it must be given.
        declared: All else.
        within: The field that holds it beside others; None for a field of its own.
    """

    name: str
    type: Any
    default: Any
    declared: Declared
    within: str | None = None

    @property
    def key(self) -> str:
        """The key in ``cdec.toml``: the long name without dashes."""
        return flag_of(self.name).removeprefix("--")

    def check(self, value: Any) -> None:
        """Refuse a number out of range.

        Raises:
            UsageError: It is.
        """
        if self.declared.at_least is not None:
            require_range(flag_of(self.name), value, self.declared.at_least, self.declared.at_most)


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """What every command takes; commands add fields, each ``Annotated`` with ``Declared``."""

    quiet: Annotated[bool, Declared("Print errors only.", common=True)] = False
    debug: Annotated[bool, Declared("Print tracebacks.", typed_only=True)] = False
    trust_config: Annotated[
        bool,
        Declared(
            "Let the cdec.toml of this folder name models, now and until it is changed.",
            typed_only=True,
        ),
    ] = False


OptionsT = TypeVar("OptionsT", bound=CommonOptions)


def parameters_of(options_class: type[CommonOptions]) -> Mapping[str, Parameter]:
    """Return the options and arguments of a command, by the names of their fields."""
    return _parameters_of(options_class)  # type: ignore[arg-type]  # a class is hashable


@cache
def _parameters_of(options_class: type[Any]) -> dict[str, Parameter]:
    hints = get_type_hints(options_class, include_extras=True)
    found: dict[str, Parameter] = {}
    for field in dataclasses.fields(options_class):
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        kind, declared = get_args(hints[field.name])
        if isinstance(declared, Limits):
            found |= {p.name: p for p in _limits(field.name, kind, default, declared.panel)}
        elif isinstance(declared, Several):
            several = declared.parameters().items()
            found |= {name: dataclasses.replace(p, within=field.name) for name, p in several}
        else:
            found[field.name] = Parameter(field.name, kind, default, declared)
    return found


def _limits(field: str, kind: Any, default: Any, panel: str) -> Iterator[Parameter]:
    """Yield the options of a dataclass of limits; one that is not given is that of ``default``."""
    for limit in limits_of(kind):
        if not limit.python_only:
            shown = _shown(getattr(default, limit.name), limit.unit)
            declared = Declared(f"{limit.help.removesuffix('.')}; {shown} if not given.", panel)
            yield Parameter(limit.name, limit.type | None, None, declared, field)


def _shown(limit: float, unit: str) -> str:
    """Return a limit for people: ``4 MiB``, ``4 KiB``, ``20 million``, ``500``."""
    if unit == "bytes" and limit < 1 << 20:
        return f"{limit / (1 << 10):g} KiB"
    if unit == "bytes":
        return f"{limit / (1 << 20):g} MiB"
    return f"{limit / 1e6:g} million" if limit % 1e6 == 0 else f"{limit:.0f}"


def options_from(options_class: type[OptionsT], values: Mapping[str, Any]) -> OptionsT:
    """Return a command's options, with what fields hold together put there.

    Args:
        options_class: The dataclass.
        values: What was typed or stands in ``cdec.toml``, by the names of ``parameters_of``.

    Raises:
        UsageError: A number is too small or too large.
    """
    known = parameters_of(options_class)
    own: dict[str, Any] = {}
    within: dict[str, dict[str, Any]] = {}
    for name in filter(values.__contains__, known):
        field = known[name].within
        if field is None:
            known[name].check(values[name])
            own[name] = values[name]
        else:
            within.setdefault(field, {})[name] = values[name]
    options = options_class(**own)
    held: dict[str, Any] = {}
    for field, given in within.items():
        before = getattr(options, field)
        is_mapping = isinstance(before, Mapping)
        held[field] = given if is_mapping else dataclasses.replace(before, **given)
    return dataclasses.replace(options, **held)


def deciding(options: CommonOptions) -> dict[str, object]:
    """Return the values of the options that decide what records say, by name."""
    own = [p for p in parameters_of(type(options)).values() if p.within is None]
    return {p.name: getattr(options, p.name) for p in own if p.declared.decides}


def require_range(flag: str, value: float | None, least: float, most: float | None = None) -> None:
    """Refuse a number out of range.

    Args:
        flag: What it was typed for.
        value: None is in range.
        least: Smallest value.
        most: Largest value; that of a whole number is ``LARGEST_COUNT`` if this is None.

    Raises:
        UsageError: It is too small or too large.
    """
    if value is None:
        return
    if not value >= least:
        raise UsageError(
            f"{flag} is {value}, expected at least {least:g}",
            hint=f"give {flag} a number of {least:g} or more, or leave it out",
        )
    if isinstance(value, int) and value > (LARGEST_COUNT if most is None else most):
        raise UsageError(
            f"{flag} is {value}, expected at most {LARGEST_COUNT}",
            hint=f"give {flag} a smaller number, or leave it out",
        )
