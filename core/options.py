"""Option: a parameter, declared once: type, default, bounds, unit, help; limits are such, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, get_type_hints

from cdec.core.errors import UsageError

LARGEST_COUNT = 2**31 - 1
"""Largest whole number where no other bound is declared: counts are kept as int32."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A parameter of a method, a function or a command, from which these are built.

    None is a value of every option whose default is None.

    Attributes:
        name: The keyword in Python.
        also: A second keyword in Python; "" for none.
        type: int, float, bool, str, Path, a tuple of words of which one is given, or a tuple of
            int and words, such as ``(int, "auto")``; of a command's option any type that a text can
            be read as, without the None that a default of None stands for.
        default: Taken where nothing is given; None where the method does without, or needs it;
            ``MISSING`` where a command needs it.
        help: One or two sentences; other parameters stand in backquotes.
        unit: Of the value: tokens, candidates, nats, bytes, ...; "" for none.
        metavar: What stands for the value in a usage line; "" for the type's name.
        at_least: Smallest value. at_most: Largest value; that of a whole number is
            ``LARGEST_COUNT`` if this is None.
        above: The value is larger than this. below: It is smaller than this.
        infinite: Whether inf is a value.
        typed_only: Whether ``cdec.toml`` must not set it, as it writes or replaces a file or runs
            code: the folder may have been downloaded.
        opened: Whether Python takes an object (a model, a reward, a file of counts), of which a
            command line takes the name; an object is checked by what uses it.
        decides: Whether it changes what records say.
        python_only: Whether it has no place on a command line.
        common: Whether it stands in a command's short help.
        expected: What a value outside the bounds is told to be, in place of the bounds.
        hint: What to do about a value that is refused, in place of the usual.
        panel: The section of a command's help in which it stands.
        positional: Whether it is an argument of a command, told by its place.
        has_key: Of an argument: whether ``cdec.toml`` may give it, as it gives options.
        one_of: What one of several options gives; one that is typed puts those of ``cdec.toml``
            aside. "" for nothing.
        names_model: Whether a value names a model or tokenizer to load, which ``cdec.toml`` may do
            once somebody confirmed it; None where none does.
        details: Returns the sections of help about a value that is typed; of all values for None.
        within: Names of the fields of a command's options that lead to the group it is in.
    """

    name: str
    type: Any
    default: Any = None
    help: str = ""
    unit: str = ""
    metavar: str = ""
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    infinite: bool = False
    typed_only: bool = False
    opened: bool = False
    decides: bool = True
    python_only: bool = False
    common: bool = False
    expected: str = ""
    hint: str = ""
    also: str = ""
    panel: str = "General"
    positional: bool = False
    has_key: bool = False
    one_of: str = ""
    names_model: Callable[[str], bool] | None = None
    details: Callable[[str | None], Any] | None = None
    within: tuple[str, ...] = ()

    @property
    def is_bounded(self) -> bool:
        """Whether some values of the type are too small or too large."""
        return any(each is not None for each in (self.at_least, self.above, self.below))

    @property
    def words(self) -> tuple[str, ...]:
        """The words that may be given; empty where any value of the type may."""
        parts = self.type if isinstance(self.type, tuple) else ()
        return tuple(part for part in parts if isinstance(part, str))

    def check(self, value: Any) -> Any:
        """Return a value that the option can have; a float for whole numbers of a float option.

        Raises:
            UsageError: It has another type, or is out of bounds.
        """
        if self.opened or (value is None and self.default is None) or value in self.words:
            return value
        if self.type is bool:
            return self._flag(value)
        if self.type is int:
            return self._count(value)
        if self.type is float:
            return self._number(value)
        if isinstance(self.type, tuple):
            return self._count_or_word(value)
        if isinstance(value, self.type):
            return value
        raise self._refusal(value, f"a {self.type.__name__}", f"Give `{self.name}` such a value.")

    def _flag(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise self._refusal(value, "True or False", f"Give `{self.name}` one of these.")

    def _count(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._refusal(value, "an integer", f"Give `{self.name}` a whole number.")
        self._require_least(value)
        if self.at_most is not None and value > self.at_most:
            raise self._refusal(
                value,
                f"an integer of at most {self.at_most:d}",
                f"Give `{self.name}` a value of {self.at_most:d} or less: memory grows with it.",
            )
        if self.at_most is None and value > LARGEST_COUNT:
            raise self._refusal(
                value,
                f"at most {LARGEST_COUNT}",
                f"give `{self.name}` a smaller number, or leave it out",
            )
        return value

    def _number(self, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number:
            self._require_least(value)
        number = float(value) if is_number else math.nan
        fits = (
            (self.at_most is None or number <= self.at_most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
            and (math.isfinite(number) or (self.infinite and number == math.inf))
        )
        if fits:
            return number
        hint = f"Give `{self.name}` such a number, or leave it out for the default."
        raise self._refusal(value, self._bounds(), self.hint or hint)

    def _count_or_word(self, value: Any) -> Any:
        if int not in self.type:
            words = ", ".join(self.words)
            hint = self.hint or f"Leave it out for {self.default}."
            raise self._refusal(value, f"one of {words}", hint)
        least = 0 if self.at_least is None else self.at_least
        is_count = isinstance(value, int) and not isinstance(value, bool)
        if is_count and least <= value <= LARGEST_COUNT:
            return value
        named = f"{self.unit} from {least:d} to {LARGEST_COUNT}, or {' or '.join(self.words)}"
        hint = f"give for example `{self.name}` {self.default}"
        raise self._refusal(value, f"a number of {named}", hint)

    def _require_least(self, value: float) -> None:
        # subtle: a NaN is not at least anything.
        if self.at_least is not None and not value >= self.at_least:
            raise self._refusal(
                value,
                f"at least {self.at_least:g}",
                f"give `{self.name}` a number of {self.at_least:g} or more, or leave it out",
            )

    def _bounds(self) -> str:
        bounds = (
            ("of {:g} or more", self.at_least),
            ("of {:g} or less", self.at_most),
            ("above {:g}", self.above),
            ("below {:g}", self.below),
        )
        said = [form.format(bound) for form, bound in bounds if bound is not None]
        return self.expected or f"a number {' and '.join(said) or 'that is finite'}"

    def _refusal(self, value: object, expected: str, hint: str) -> UsageError:
        return UsageError(
            f"`{self.name}` is {value!r}, expected {expected}", hint=hint, option=self.name
        )


def limit(default: float, help: str, **declared: Any) -> Any:
    """Return the field of a dataclass of limits: an option with the field's name and type.

    Args:
        default: The limit where nothing is given.
        help: What it bounds, one sentence.
        declared: Of the ``Option``, where it is more than a number of 1 or more.
    """
    usual = {"at_least": 1, "at_most": math.inf, "infinite": True, "decides": False}
    return field(default=default, metadata=usual | {"help": help} | declared)


@cache
def limits_of(declaring: Any) -> tuple[Option, ...]:
    """Return the options that the fields of a dataclass of limits declare."""
    types = get_type_hints(declaring)
    return tuple(
        Option(name=found.name, type=types[found.name], default=found.default, **found.metadata)
        for found in fields(declaring)
    )


def check_limits(limits: object) -> None:
    """Check an instance of a dataclass of limits.

    Raises:
        UsageError: One is out of bounds.
    """
    kind: Any = type(limits)
    for declared in limits_of(kind):
        declared.check(getattr(limits, declared.name))
