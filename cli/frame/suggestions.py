"""What was perhaps meant: the near command, the near option, the near file."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cdec.cli.frame.declaration import parameters_of
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.cli.frame.spellings import words_of
from cdec.core.errors import CdecError, InputMissingError, UsageError
from cdec.core.files.remote import file_system, is_url, meant_url


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
        hints.append(f"{', '.join(f'cdec {name}' for name in others[:3])} {has} it;")
    hints.append(f"see `cdec {command} --help-all`")
    raise UsageError(f"cdec {command} has no option {typed}", hint=" ".join(hints)) from None


def near_option(typed: str, words: Sequence[str]) -> str | None:
    """Return the option that was perhaps meant: one that goes on from what was typed, or is close.

    Args:
        typed: With its dashes.
        words: All that may be typed, dashes included.
    """
    longer = sorted((word for word in words if word.startswith(typed)), key=len)
    if longer and len(typed) > 2:
        return longer[0]
    # Without the dashes, which would make all short names alike.
    names = [word.removeprefix("--") for word in words if word.startswith("--")]
    close = get_close_matches(typed.lstrip("-"), names, n=1)
    return f"--{close[0]}" if close else None


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


def on_several(message: str, parameters: Iterable[Any]) -> str:
    """Return how several inputs are typed, where more words stand there than a command takes.

    Args:
        message: The parser's.
        parameters: The parser's, of the command.
    """
    is_input = any("-i" in parameter.opts and parameter.multiple for parameter in parameters)
    if not is_input or "unexpected extra argument" not in message:
        return ""
    return "name several inputs by an -i each, or by a pattern in quotes (-i 'a/*.csv'); "


def suggest_file(error: CdecError) -> None:
    """Let an error about a file that is not there offer the near file of the same folder."""
    named = error.details.get("path")
    if not isinstance(error, InputMissingError) or not isinstance(named, str):
        return
    near = near_url(named) if is_url(named) else near_file(Path(named)) or meant_url(named)
    if near is not None:
        error.hint = f"did you mean {shlex.quote(str(near))}?"


def near_file(path: Path) -> Path | None:
    """Return the file of the same folder that was perhaps meant; None where nothing is near.

    Args:
        path: Of a file that is not there.
    """
    if path.exists() or not path.name:
        return None
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in itertools.islice(entries, _MOST_FILES)]
    except OSError:
        return None
    shown = sorted(name for name in names if not name.startswith("."))
    close = get_close_matches(path.name, shown, n=1, cutoff=0.75)
    same = [name for name in shown if path.stem and Path(name).stem == path.stem]
    found = (close or same)[:1]
    return path.parent / found[0] if found else None


def near_url(url: str) -> str | None:
    """Return the URL of the same folder that was perhaps meant; None where nothing is near.

    Args:
        url: Of a file that is not there.
    """
    folder, _, typed = url.rpartition("/")
    if url.startswith("http") or folder.endswith("/"):
        return None
    try:
        system, path = file_system(folder)
        names = [name.rpartition("/")[2] for name in system.ls(path, detail=False)[:_MOST_FILES]]
    except Exception:  # it is an error's hint, whatever the file system raises
        return None
    close = get_close_matches(typed, [name for name in names if name != typed], n=1, cutoff=0.75)
    return f"{folder}/{close[0]}" if close else None


_MOST_FILES = 10_000
"""Files of a folder that are looked at."""


def _words(command: str) -> set[str]:
    names = parameters_of(options_class_of(command))
    return {word for name in names for word in words_of(name)}
