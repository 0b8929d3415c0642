"""The options of ``cdec mass`` and ``cdec score``, which measure under a constraint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cdec.cli.frame.declaration import Declared
from cdec.cli.options import shared
from cdec.cli.options.constraint import ArtifactOptions, ConstraintOptions
from cdec.cli.options.decoding import DecodingOptions, WarpingOptions
from cdec.cli.options.model import ModelOptions
from cdec.cli.options.prompts import PromptOptions
from cdec.cli.options.texts import TextRecordOptions
from cdec.samplers.options import ROUND
from cdec.samplers.request import MAX_NEW_TOKENS


@dataclass(frozen=True, kw_only=True)
class MassOptions(PromptOptions, ConstraintOptions, ArtifactOptions, DecodingOptions, ModelOptions):
    """Options of ``cdec mass``; the documented defaults stand here and in the bases."""

    candidates: Annotated[
        int,
        Declared(
            "Candidates drawn for each prompt; the estimate is their mean.",
            shared.METHOD,
            metavar="N",
            common=True,
        ),
    ] = 256
    until_converged: Annotated[
        float | None,
        Declared(
            "Stop earlier where the certified bounds of the log mass are at most W nats apart; "
            "such a record has bounds and no estimate, since a stopped mean is biased.",
            shared.METHOD,
            metavar="W",
            common=True,
        ),
    ] = None
    round: Annotated[
        int,
        Declared(
            "Candidates that are drawn before a record learns from them; decides results.",
            shared.METHOD,
            metavar="N",
        ),
    ] = ROUND.default
    remember: Annotated[
        bool,
        Declared(
            "Let candidates learn from those before; if not, they are independent.", shared.METHOD
        ),
    ] = True
    tree: Annotated[
        Path | None,
        Declared(
            "Keep what a single prompt's candidates learnt in this file, and begin with what "
            "it holds, as in cdec sample. Written when all is drawn.",
            shared.METHOD,
            metavar="FILE.arrow",
            typed_only=True,
        ),
    ] = None
    strict: shared.StrictOption = False
    max_bad: shared.MaxBadOption = shared.DEFAULT_MAX_BAD
    json: Annotated[
        bool,
        Declared("Print JSON lines on a terminal too, not a table.", shared.OUTPUT, common=True),
    ] = False
    progress: shared.ProgressOption = None


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(
    TextRecordOptions, ConstraintOptions, ArtifactOptions, WarpingOptions, ModelOptions
):
    """Options of ``cdec score``; the documented defaults stand here and in the bases."""

    max_new_tokens: Annotated[
        int | None,
        Declared(
            "Longest member; the set's or the model's own limit if not given.",
            shared.METHOD,
            at_least=MAX_NEW_TOKENS.at_least,
        ),
    ] = None
    candidates: Annotated[
        int,
        Declared(
            "Masked candidates drawn for each prompt, to narrow the bounds of Q.",
            shared.METHOD,
            metavar="N",
            at_least=0,
        ),
    ] = 0
    seed: Annotated[
        int,
        Declared("Of the candidates.", shared.METHOD, at_least=0, at_most=math.inf),
    ] = 0
    prompt: Annotated[
        str | None,
        Declared(
            "What stands before the texts of records that have no `prompt`.",
            shared.PROMPTS,
            metavar="TEXT",
            common=True,
        ),
    ] = None
    prompt_file: Annotated[
        str | None,
        Declared(
            "A file that is this prompt, newlines included; `-` is stdin.",
            shared.PROMPTS,
            metavar="FILE",
        ),
    ] = None
    prompts: Annotated[
        str | None,
        Declared(
            "Records as cdec sample read them: gives each sample the prompt of its `id`.",
            shared.PROMPTS,
            metavar="FILE",
            common=True,
        ),
    ] = None
    template: shared.TemplateOption = None
    end: Annotated[
        bool,
        Declared("Without artifact: count the end of the text as an event.", shared.METHOD),
    ] = True
    batch_size: Annotated[
        int,
        Declared(
            "Texts scored together, or more where they share a prompt.", shared.METHOD, at_least=1
        ),
    ] = 64
    fields: shared.FieldsOption = None
    progress: shared.ProgressOption = None
    strict: shared.StrictOption = False
    max_bad: shared.MaxBadOption = shared.DEFAULT_MAX_BAD
