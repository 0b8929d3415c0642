"""The options that say where given texts come from: records for a model, or texts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cdec.cli.frame.declaration import CommonOptions, Declared, Limits
from cdec.cli.options.shared import (
    DEFAULT_IDLE_MS,
    INPUT,
    IdleOption,
    InputFormatOption,
    NoHeaderOption,
)
from cdec.data.input.source import PROMPT_LIMITS, InputLimits


@dataclass(frozen=True, kw_only=True)
class TextRecordOptions(CommonOptions):
    """Records of texts that a model reads."""

    input: Annotated[
        str,
        Declared(
            "Texts or samples: lines, JSON, JSONL, tables; `-` is stdin.",
            INPUT,
            metavar="FILE",
            common=True,
        ),
    ] = "-"
    input_format: InputFormatOption = "auto"
    no_header: NoHeaderOption = False
    field: Annotated[str, Declared("Field with the text (JSONL).", INPUT, common=True)] = "text"
    idle: IdleOption = DEFAULT_IDLE_MS
    input_limits: Annotated[InputLimits, Limits(INPUT)] = PROMPT_LIMITS


@dataclass(frozen=True, kw_only=True)
class TextFormatOptions(CommonOptions):
    """How texts stand in a file that artifacts are made of, or checked against."""

    format: Annotated[
        Literal["auto", "text", "json", "jsonl", "csv", "parquet", "arrow"],
        Declared("Format of the texts.", INPUT, common=True),
    ] = "auto"
    field: Annotated[
        str | None,
        Declared(
            "Field or column with the texts (JSON, JSONL, CSV, Parquet, Arrow).", INPUT, common=True
        ),
    ] = None
    no_header: NoHeaderOption = False
