"""Options of given texts: records for a model, or texts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cdec.cli.frame.declaration import limits, option
from cdec.cli.options.shared import (
    INPUT,
    InputFormat,
    idle_option,
    input_format_option,
    no_header_option,
)
from cdec.data.input.source import PROMPT_LIMITS, InputLimits


@dataclass(frozen=True, kw_only=True)
class TextRecordOptions:
    """Records of texts that a model reads."""

    input: str = option(
        "-",
        "Texts or samples: lines, JSON, JSONL, tables; `-` is stdin.",
        INPUT,
        metavar="FILE",
        common=True,
    )
    input_format: InputFormat = input_format_option()
    no_header: bool = no_header_option()
    field: str = option("text", "Field with the text (JSONL).", INPUT, common=True)
    idle: int = idle_option()
    input_limits: InputLimits = limits(PROMPT_LIMITS, INPUT)


@dataclass(frozen=True, kw_only=True)
class TextFormatOptions:
    """Format of texts in a file that artifacts are made of, or checked against."""

    format: Literal["auto", "text", "json", "jsonl", "csv", "parquet", "arrow"] = option(
        "auto", "Format of the texts.", INPUT, common=True
    )
    field: str | None = option(
        None,
        "Field or column with the texts (JSON, JSONL, CSV, Parquet, Arrow).",
        INPUT,
        common=True,
    )
    no_header: bool = no_header_option()
