"""Short help: which options a command's help shows, and in which sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cdec.cli.frame.declaration import Details, Parameter, parameters_of
from cdec.cli.frame.registry import options_class_of
from cdec.cli.frame.spellings import words_of
from cdec.cli.frame.suggestions import refuse_extra_words, refuse_unknown_option

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


def _is_common(declared: Mapping[str, Parameter], name: str) -> bool:
    """Whether the short help shows a parameter; the parser's own are not declared."""
    own = declared.get(name)
    return own is None or own.declared.common or own.declared.positional


def _details(declared: Mapping[str, Parameter], words: tuple[str, ...]) -> Iterator[Details]:
    """Yield the sections about values that are typed, or about all values where none is."""
    for parameter in declared.values():
        if parameter.declared.details is not None:
            yield from parameter.declared.details(_typed_value(parameter.name, words))


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
