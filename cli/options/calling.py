"""Options of tools that texts call."""

from __future__ import annotations

from dataclasses import dataclass

from cdec.cli.frame.declaration import option
from cdec.cli.options.shared import CONSTRAINT, THE_CONSTRAINT, refuse_unused


@dataclass(frozen=True, kw_only=True)
class ToolOptions:
    """Tools that texts call, in the place of an artifact."""

    tools: str | None = option(
        None,
        "Functions that texts call, as chat models are given them, in the place of an artifact; "
        "the chat template is told, too.",
        CONSTRAINT,
        metavar="FILE",
        one_of=THE_CONSTRAINT,
    )
    tool_choice: str = option(
        "required",
        "auto: texts may call; required: they have to; a name: this function.",
        CONSTRAINT,
        metavar="auto|required|NAME",
        decides=True,
    )
    tool_style: str | None = option(
        None,
        "How calls are written: hermes, mistral, llama3, qwen, harmony, pythonic, json; as the "
        "model's chat template tells if not given.",
        CONSTRAINT,
        metavar="STYLE",
        decides=True,
    )
    parallel_calls: bool = option(
        False, "Texts may call several tools at once.", CONSTRAINT, decides=True
    )

    @property
    def flags(self) -> tuple[str, ...]:
        """Options of sources that these stand for: calls are schemas."""
        return ("--schema",) if self.tools is not None else ()

    def refuse_unused(self, typed: frozenset[str]) -> None:
        """Refuse what says how tools are called where there are none.

        Raises:
            UsageError: Such an option was typed.
        """
        if self.tools is None:
            refuse_unused(("tool_choice", "parallel_calls"), typed, "without --tools")
