"""Help and suggestions: what a command's help shows; the near command, option or file."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cdec.cli.frame.declaration import Details, parameters_of, words_of
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.core.errors import CdecError, InputMissingError, UsageError
from cdec.core.files.remote import file_system, is_url, meant_url
from cdec.core.options import Option


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
    if instead := _INSTEAD.get((command, typed)):
        hints = [f"{instead};"]
    elif others:
        has = "has" if len(others) == 1 else "have"
        hints.append(f"{', '.join(f'cdec {name}' for name in others[:3])} {has} it;")
    hints.append(f"see `cdec {command} --help-all`")
    raise UsageError(f"cdec {command} has no option {typed}", hint=" ".join(hints)) from None


_INSTEAD = {
    ("classify", "--tools"): "a call has arguments, and labels are whole texts: how probable calls "
    "of a function are, cdec mass --tools FILE --tool-choice NAME says",
    ("trace", "--tools"): "cdec sample --tools FILE --trace t.jsonl writes a trace of calls",
}
"""Command and option → what is meant, where the option of other commands means nothing to it."""


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
    """
    name = words[0]
    if name in COMMANDS:
        return
    if name == "help":
        about = words[1] if len(words) > 1 and words[1] in COMMANDS else None
        command = f"cdec {about} --help" if about else "cdec --help"
        raise UsageError("help is an option, no command", hint=f"type {command}")
    meant = _MEANT.get(name) or tuple(get_close_matches(name, COMMANDS, n=1))
    offered = " or ".join(f"`cdec {command}`" for command in meant)
    did_you = f"did you mean {offered}? " if meant else ""
    raise UsageError(f"cdec has no command {name!r}", hint=f"{did_you}see `cdec --help`")


_RANK = ("sample --method topn", "classify")
_MEANT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("generate", "decode", "draw", "complete", "predict"), ("sample",)),
    **dict.fromkeys(("rank", "top", "topn", "search", "retrieve"), _RANK),
    **dict.fromkeys(("validate", "verify", "match"), ("check",)),
    **dict.fromkeys(("perplexity", "logprob", "evaluate"), ("score",)),
    **dict.fromkeys(("show", "info", "stats"), ("inspect",)),
    "compile": tuple(name for name in COMMANDS if name.startswith("compile-")),
}
"""What other tools call something → what it is called here; a near name is found without."""
_SEVERAL = "name several inputs by an -i each, or by a pattern in quotes (-i 'a/*.csv')"


def refuse_extra_words(words: Sequence[str], command: str, parameters: Iterable[Any]) -> None:
    """Refuse words that a command has no place for, with the option that takes them.

    Args:
        words: Those that are left over.
        command: The command that was typed.
        parameters: The parser's, of that command.
    """
    if not words:
        return
    options = {word: parameter for parameter in parameters for word in parameter.opts}
    artifacts = [word for word in words if word.endswith(".arrow")]
    hints = [f"an artifact is -a {artifacts[0]}"] if artifacts and "-a" in options else []
    if "-i" in options and not options["-i"].multiple:
        hints.append("texts come on stdin, or with -i FILE")
    elif "-i" in options:
        texts = [word for word in words if not _may_be_file(word)]
        hints += [_typed_prompt(texts)] if texts else []
        hints += [_SEVERAL] if len(texts) + len(artifacts) < len(words) else []
    hints.append(f"see `cdec {command} --help`")
    found = ", ".join(map(repr, words))
    message = f"cdec {command} has no place for {found}"
    raise UsageError(message, hint="; ".join(hints)) from None


def _may_be_file(word: str) -> bool:
    """Whether a word is the name of a file rather than a text."""
    return os.path.lexists(word) or not (" " in word or Path(word).suffix in ("", "."))


def _typed_prompt(texts: Sequence[str]) -> str:
    """Return how texts are typed as prompts: words without quotes are one."""
    prompts = list(texts) if any(" " in text for text in texts) else [" ".join(texts)]
    shown = [text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..." for text in prompts]
    return "a prompt is " + " ".join(f"--prompt {shlex.quote(text)}" for text in shown)


_SHOWN = 80
"""Characters of a prompt that are shown."""


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


HELP_ALL = "help_all"
"""Name of the parameter that every command has for ``--help-all``."""
_WORDS, _ALL = "cdec.words", "cdec.all"
"""Keys of what a context carries: the words of the command line, and whether all is shown."""
_FIRST = ("-a,", "-i,")
"""Short names of options that lead their section, wherever a dataclass inherits them from."""
_PLACES = {"Arguments": -1, "General": 1}
"""Sections that do not stand in the order of their first option."""


def _show_all(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit(0)


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=_show_all,
        show_default=False,
        help="Show every option and exit.",
    ),
]


class SectionedCommand(TyperCommand):
    """A command whose plain help groups options by their ``rich_help_panel``.

    Plain help, because help must hold no control codes where stdout is a file or ``NO_COLOR`` is
    set, and because it is read in a tenth of the time. ``--help`` shows the options that are
    declared common, and what is declared of the value of an option that is typed beside it.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words: help is printed before their values are known."""
        ctx.meta[_WORDS] = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            name, parameters = str(self.name), self.get_params(ctx)
            refuse_unknown_option(error, name, parameters)
            if "unexpected extra argument" in str(error):
                _, extra, _ = self.make_parser(ctx).parse_args(list(ctx.meta[_WORDS]))
                refuse_extra_words(extra, name, parameters)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section a panel, in the order of the options, what is read first of all."""
        declared = parameters_of(options_class_of(str(self.name)))
        shows_all = ctx.meta.get(_ALL, False)
        details = [] if shows_all else list(_details(declared, ctx.meta.get(_WORDS, ())))
        apart = {name for section in details for name in section.options}
        columns: dict[str, str] = {}
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            columns[parameter.name] = record[0]
            if parameter.name not in apart and (shows_all or _is_common(declared, parameter.name)):
                default = "Arguments" if parameter.param_type_name == "argument" else "General"
                panel = getattr(parameter, "rich_help_panel", None) or default
                sections.setdefault(panel, []).append(record)
        for section in details:
            rows = [*section.rows, *((columns[n], said) for n, said in section.options.items())]
            if rows:
                sections[section.title] = rows
        for panel, records in sorted(sections.items(), key=lambda item: _PLACES.get(item[0], 0)):
            with formatter.section(panel):
                formatter.write_dl(sorted(records, key=lambda row: not row[0].startswith(_FIRST)))


def _is_common(declared: Mapping[str, Option], name: str) -> bool:
    """Whether the short help shows a parameter; the parser's own are not declared."""
    own = declared.get(name)
    return own is None or own.common or own.positional


def _details(declared: Mapping[str, Option], words: tuple[str, ...]) -> Iterator[Details]:
    """Yield the sections about values that are typed, or about all values where none is."""
    for parameter in declared.values():
        if parameter.details is not None:
            yield from parameter.details(_typed_value(parameter.name, words))


def _typed_value(name: str, words: tuple[str, ...]) -> str | None:
    """Return the value that stands behind an option; the last one where there are several."""
    found = None
    for flag in words_of(name):
        for word, following in zip(words, (*words[1:], ""), strict=True):
            if word == flag:
                found = following
            elif word.startswith(f"{flag}="):
                found = word.removeprefix(f"{flag}=")
    return found or None
