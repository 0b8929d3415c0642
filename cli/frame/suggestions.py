"""What was perhaps meant: the near command and the near option."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from cdec.cli.frame.declaration import parameters_of
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.cli.frame.spellings import words_of
from cdec.core.errors import UsageError


def refuse_unknown_option(error: Exception, command: str, parameters: Iterable[Any]) -> None:
    """Turn the parser's error about an unknown option into one that says what there is.

    Args:
        error: Any error of the parser; another one is left as it is.
        command: The command that was typed.
        parameters: The parser's, of that command.

    Raises:
        UsageError: ``error`` is about an unknown option.
    """
    found = vars(error)
    if "possibilities" not in found:
        return
    typed = str(found["option_name"])
    own = [word for each in parameters for word in (*each.opts, *each.secondary_opts)]
    near = near_option(typed, own)
    others = [name for name in COMMANDS if name != command and typed in _words(name)]
    hints = [f"did you mean {near}?"] if near else []
    if others:
        has = "has" if len(others) == 1 else "have"
        hints.append(f"{', '.join(f'cdec {name}' for name in others[:3])} {has} it")
    hints.append(f"see `cdec {command} --help-all`")
    raise UsageError(f"cdec {command} has no option {typed}", hint="; ".join(hints)) from None


def near_option(typed: str, words: Sequence[str]) -> str | None:
    """Return the option that was perhaps meant: one that goes on from what was typed, or is close.

    Args:
        typed: With its dashes.
        words: All that may be typed, dashes included.
    """
    longer = sorted((word for word in words if word.startswith(typed)), key=len)
    if longer and len(typed) > 2:
        return longer[0]
    close = get_close_matches(typed, [word for word in words if word.startswith("--")], n=1)
    return close[0] if close else None


def refuse_unknown_command(words: Sequence[str]) -> None:
    """Refuse a first word that is no command.

    Args:
        words: The command line after the program's name.

    Raises:
        UsageError: It is none.
    """
    name = words[0]
    if name in COMMANDS:
        return
    if name == "help":
        about = words[1] if len(words) > 1 and words[1] in COMMANDS else None
        command = f"cdec {about} --help" if about else "cdec --help"
        raise UsageError("help is an option, no command", hint=f"type {command}")
    close = get_close_matches(name, COMMANDS, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    raise UsageError(f"cdec has no command {name!r}", hint=f"{meant}see `cdec --help`")


def _words(command: str) -> set[str]:
    names = parameters_of(options_class_of(command))
    return {word for name in names for word in words_of(name)}
