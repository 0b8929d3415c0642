"""A prompt record that was checked, and one that failed the checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cdec.core.combine.free_text import FreeText, MarkerLimits
from cdec.core.constraint import NarrowedSet
from cdec.core.errors import CdecError, FieldError, UsageError
from cdec.data.ids import RecordId

Format = Literal["auto", "lines", "json", "jsonl", "csv", "tsv"]
"""``auto``: Parquet, Arrow, saved datasets by content, JSON and CSV by the name, else as lines.

``lines`` are texts, or objects where they begin with a brace; those of ``jsonl`` are objects or
quoted texts; ``json`` is an array of such, or one after the other."""
_PANDAS_INDEX = "__index_level_"

OWN_FIELDS = frozenset(
    {
        *("id", "prompt", "messages", "prefill", "n", "seed", "temperature", "max_tokens", "stop"),
        *("constraint", "candidates", "grammar", "regex", "schema"),
        *("after", "between", "budget", "regions"),
        *("tools", "chat_template_kwargs", "tool_choice", "parallel_tool_calls"),
    }
)
"""Fields a record is read for; all others are passed through."""
DATA_FIELDS = frozenset(
    {"tools", "chat_template_kwargs", "tool_choice", "parallel_tool_calls", "stop"}
)
"""Those of them that are data where a prompt template or a reward reads them."""


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """One checked record; None where it leaves a value to the run's options.

    Attributes:
        id: Its own id, or a hash of its content.
        line: 1-based line in the input.
        prompt: The prompt's text; None where ``messages`` is given.
        messages: Chat messages, each ``{"role": ..., "content": ...}``, a begun answer left out.
        tools: Definitions of functions that the chat template is told; not empty.
        chat_template_kwargs: What else it is told, by the names that it reads.
        tool_choice: Whether the text may call tools (``auto``), has to (``required``, or a name),
            or does not (``none``).
        parallel_tool_calls: Whether it may call several.
        n: Number of draws, at least 1.
        seed: Stands in the place of the run's seed.
        temperature: Greater than 0.
        max_tokens: Most new tokens, at least 1.
        stop: Texts at the first of which its texts end, it left out.
        constraint: Name of one of the run's constraints.
        candidates: Texts or entity ids that alone are allowed.
        narrowed: What is left of sets within its constraint.
        grammar: Grammar text.
        regex: Regular expression.
        schema: JSON Schema as JSON text.
        prefill: The begun answer that texts continue; not empty.
        after: Markers at which the constraint begins; the model writes freely before.
        between: What begins and ends the regions in which the constraint holds.
        budget: Most tokens of free text before a marker that is owed.
        regions: Fewest regions.
        deny: Texts that are left out; requests of batch files alone say so, as of ``top_p``.
        top_p: Mass kept at each step.
        input: The other fields, to be passed through, or all but the id; None where there are none.
    """

    id: RecordId
    line: int
    prompt: str | None = None
    messages: tuple[dict[str, Any], ...] | None = None
    tools: tuple[dict[str, Any], ...] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    n: int | None = None
    seed: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    constraint: str | None = None
    candidates: tuple[str, ...] | None = None
    narrowed: tuple[NarrowedSet, ...] = ()
    grammar: str | None = None
    regex: str | None = None
    schema: str | None = None
    prefill: str | None = None
    after: tuple[str, ...] | None = None
    between: tuple[str, str] | None = None
    budget: int | None = None
    regions: int | None = None
    deny: tuple[str, ...] = ()
    top_p: float | None = None
    input: dict[str, object] | None = None

    @property
    def template_arguments(self) -> dict[str, Any]:
        """What the chat template is told beside the messages, by name."""
        tools = {} if self.tools is None else {"tools": list(self.tools)}
        return {**(self.chat_template_kwargs or {}), **tools}

    @property
    def sources(self) -> dict[str, str]:
        """The text that its constraint is compiled from, by its field; at most one."""
        texts = {"grammar": self.grammar, "regex": self.regex, "schema": self.schema}
        return {field: text for field, text in texts.items() if text is not None}

    def free_text(
        self, default: FreeText | None, limits: MarkerLimits | None = None
    ) -> FreeText | None:
        """Return what the model writes freely for this record; None for nothing.

        Args:
            default: The run's, of which the record's fields replace what they say.
            limits: Of the record's markers; None takes those of ``default``, or the defaults.

        Raises:
            FieldError: What they say together makes no sense.
            LimitError: Markers beyond the limits.
        """
        own = {n: getattr(self, n) for n in ("after", "between", "budget", "regions")}
        given = [name for name, value in own.items() if value is not None]
        try:
            return FreeText.joined(default, **own, limits=limits)
        except UsageError as error:
            if not given:
                raise
            raise FieldError(error.message, hint=error.hint, field=given[0]) from None

    @property
    def brings_constraint(self) -> bool:
        """True where it says by itself what its texts must be."""
        calls = self.tools is not None and self.tool_choice not in (None, "none")
        return bool(self.sources) or self.candidates is not None or calls


def without_prefill(
    messages: tuple[dict[str, Any], ...] | None,
) -> tuple[tuple[dict[str, Any], ...] | None, str | None]:
    """Return chat messages without a last one of the assistant, and its text: a begun answer."""
    if not messages or messages[-1]["role"] != "assistant":
        return messages, None
    return messages[:-1], messages[-1]["content"] or None


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be sampled; its error object takes its place in the output.

    Attributes:
        id: The record's id where it has a good one, else a hash of its content, so that a resumed
            run knows it again.
        line: 1-based line in the input.
        error: What is wrong.
        input: What it brought, where that is kept and could be read.
    """

    id: RecordId
    line: int
    error: CdecError
    input: dict[str, object] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """Chooses the columns of a table that become fields of records: all but an index of pandas.

    Attributes:
        name: Of the input, for messages.
        only: This column alone, and none where it is not there; None for all.
    """

    name: str
    only: str | None = None

    def __call__(self, names: Sequence[str], schema: Any) -> Sequence[str]:
        """Return the columns, as ``ChooseColumns`` says.

        Raises:
            FieldError: Two of one name, or one whose cells are no JSON values.
        """
        if schema is None:
            for column in names:
                if names.count(column) > 1:
                    raise FieldError(
                        f"{self.name} has {names.count(column)} columns {column!r}",
                        hint="give each column a name of its own",
                        line=1,
                        field=column,
                    )
            return names
        from cdec.data.rows.cells import check_columns

        chosen = [name for name in names if not name.startswith(_PANDAS_INDEX)]
        if self.only is not None:
            chosen = [name for name in chosen if name == self.only]
        check_columns(schema, self.name, chosen)
        return chosen
