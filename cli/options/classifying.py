"""The options of ``cdec classify``: where labels come from, and how they are shown."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cdec.cli.frame.declaration import Declared
from cdec.cli.options import shared
from cdec.cli.options.constraint import ArtifactOptions, ConstraintOptions
from cdec.cli.options.decoding import TemperatureOptions
from cdec.cli.options.model import ModelOptions
from cdec.cli.options.prompts import PromptOptions
from cdec.compilers.sets.report import LeadingSpace

LABELS = "Labels"


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(
    PromptOptions, ConstraintOptions, ArtifactOptions, TemperatureOptions, ModelOptions
):
    """Options of ``cdec classify``; the documented defaults stand here and in the bases."""

    label_file: Annotated[
        str | None,
        Declared(
            "Labels, one a line, or JSONL, CSV, Parquet; or an artifact, ending in .arrow.",
            metavar="LABELS",
            positional=True,
        ),
    ] = None
    labels: Annotated[
        str | None,
        Declared(
            "Labels between commas; those that hold one go into a file.",
            LABELS,
            metavar="A,B,...",
            common=True,
        ),
    ] = None
    field: Annotated[
        str | None,
        Declared("Field or column of LABELS with the texts; `text` if not given.", LABELS),
    ] = None
    id_field: Annotated[
        str | None,
        Declared("Field or column of LABELS with the ids; line numbers if not given.", LABELS),
    ] = None
    suffix: Annotated[
        str,
        Declared(
            "Text that ends every label, in the place of the end of the text.",
            LABELS,
            common=True,
        ),
    ] = ""
    leading_space: Annotated[
        LeadingSpace,
        Declared("Whether a label begins with a space when tokenised.", LABELS),
    ] = "auto"
    top: Annotated[
        int | None,
        Declared(
            "Show the N most probable labels; all if not given.",
            shared.OUTPUT,
            metavar="N",
            at_least=1,
            common=True,
        ),
    ] = None
    calibrate: Annotated[
        Literal["none", "contextual"],
        Declared(
            "`contextual` divides by the labels' probabilities without content.",
            shared.METHOD,
            common=True,
        ),
    ] = "none"
    content_free: Annotated[
        list[str],
        Declared(
            "Stands for content with --calibrate: in the places of the template, or as the whole "
            "prompt without one; repeatable. N/A if not given.",
            shared.METHOD,
            metavar="TEXT",
        ),
    ] = dataclasses.field(default_factory=list)
    batch_size: Annotated[
        int,
        Declared("Prompts classified together; changes no result.", shared.METHOD, at_least=1),
    ] = 16
    format: Annotated[
        Literal["jsonl", "csv", "table"],
        Declared("A record a prompt, or a row a label.", shared.OUTPUT, common=True),
    ] = "jsonl"
    output: Annotated[
        Path | None,
        Declared(
            "Write to this file, as its name says: .jsonl, or .csv and .tsv with a row a label; "
            "stdout if not given.",
            shared.OUTPUT,
            metavar="FILE",
            common=True,
            typed_only=True,
        ),
    ] = None
    force: shared.ForceOption = False
    keep_input: shared.KeepInputOption = False
    fields: shared.FieldsOption = None
    strict: shared.StrictOption = False
    max_bad: shared.MaxBadOption = shared.DEFAULT_MAX_BAD
    progress: shared.ProgressOption = None
