"""Tools that the command line names: read, and the constraint of their calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from cdec.cli.runs.constraints import TakesConstraint, refuse_other_constraints
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.calling import ToolOptions
    from cdec.cli.options.quoting import SpanOfOptions
    from cdec.core.constraint import Constraint
    from cdec.integrations.records.tools import ToolCalls


class CallsTools(TakesConstraint, Protocol):
    """Options of a command whose texts may be held to calls of tools."""

    @property
    def calling(self) -> ToolOptions:
        """The tools."""


def typed_tools(
    options: CallsTools, read: Collection[str | None], beside: Mapping[str, bool] | None = None
) -> ToolCalls | None:
    """Return the tools that the command line names, read; None for none.

    Args:
        options: Of the command.
        read: Its other inputs, ``-`` for stdin.
        beside: What else says what texts are held to, by its words: whether it was given.

    Raises:
        UsageError: They are no list of functions, or stand beside another constraint, free text,
            or options that mean nothing without them.
        CdecError: The file cannot be read.
    """
    from cdec.cli.runs.files import require_input
    from cdec.compilers.schemas.options import SchemaLimits
    from cdec.data.prompts.templates import read_text_file
    from cdec.integrations.records.tools import ToolCalls

    typed, file = options.calling, options.calling.tools
    if file is None:
        return None
    refuse_other_constraints(options, "--tools", beside or {})
    if file == "-" and "-" in read:
        what = "--tools is stdin, from which the input is read as well"
        raise UsageError(what, hint="name one of the files")
    require_input(file)
    most, how = SchemaLimits().max_schema_bytes, "give fewer functions, or shorter schemas"
    calls = ToolCalls(
        read_text_file(file, max_bytes=most, what="list of tools", hint=how),
        choice=typed.tool_choice,
        style=typed.tool_style,
        parallel=typed.parallel_calls,
    )
    try:
        assert calls.listed is not None
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}", hint=error.hint) from None
    return calls


class ChecksTexts(CallsTools, Protocol):
    """Options of ``cdec check``, as far as calls are concerned."""

    @property
    def input(self) -> str:
        """Where texts come from."""

    @property
    def tokenizer(self) -> str | None:
        """For which calls are compiled."""

    @property
    def quoting(self) -> SpanOfOptions:
        """Documents of records."""


def checked_calls(options: ChecksTexts, run: Run) -> Constraint:
    """Return the constraint of calls that ``cdec check`` is asked about, as a tokenizer has them.

    Raises:
        CdecError: As ``typed_tools`` and ``compiled_calls``.
    """
    from cdec.cli.runs.tokenizer import load_vocabulary
    from cdec.core.models.loading import chat_template_of
    from cdec.integrations.records.tools import compiled_calls

    calls = typed_tools(options, (options.input,), options.quoting.given)
    assert calls is not None  # it is asked
    vocabulary, _ = load_vocabulary(options.tokenizer, None, None)
    template = chat_template_of(options.tokenizer)
    constraint, notices = compiled_calls(calls, template, vocabulary)
    run.console.warn(notices)
    return constraint
