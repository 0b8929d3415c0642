"""The options of ``cdec sample``, which ``cdec run`` shares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options import shared
from cdec.cli.options.aligned import AlignedOptions
from cdec.cli.options.constraint import ArtifactOptions, ConstraintOptions
from cdec.cli.options.decoding import DecodingOptions
from cdec.cli.options.drafts import DraftOptions, RewardOptions
from cdec.cli.options.grammar_limits import RecordGrammarOptions
from cdec.cli.options.model import ModelOptions
from cdec.cli.options.prompts import PromptOptions
from cdec.cli.options.speculation import SpeculationOptions


@dataclass(frozen=True, kw_only=True)
class MethodOptions(CommonOptions):
    """Which method, what disc, beam and masked take, and how many samples."""

    method: Annotated[
        str,
        Declared(
            "unconstrained, greedy, masked, beam, disc, asap, exact, smc or topn; with two "
            "models speculative or mentored; with a reward cdlh, cdlh-approx or cdsl.",
            shared.METHOD,
            decides=True,
        ),
    ] = "disc"
    max_tries: Annotated[
        int,
        Declared(
            "disc (up to 4,194,304), and exact past its budget (65,536): candidates tried.",
            shared.METHOD,
        ),
    ] = 4
    recycle: Annotated[
        bool,
        Declared(
            "disc: resample the rejected candidates instead of drawing new ones.", shared.METHOD
        ),
    ] = False
    top_m: Annotated[
        int | None,
        Declared(
            "masked, disc: verify the model's M best tokens instead of masking all.", shared.METHOD
        ),
    ] = None
    beams: Annotated[
        int | None,
        Declared("beam, disc: width.", shared.METHOD),
    ] = None
    n: Annotated[
        int,
        Declared("Samples a prompt.", shared.METHOD, at_least=1, decides=True),
    ] = 1


@dataclass(frozen=True, kw_only=True)
class DrawingOptions(DecodingOptions, MethodOptions, PromptOptions, ConstraintOptions):
    """What is drawn: constraint, prompts, method."""

    max_n: Annotated[
        int | None,
        Declared(
            "Most samples a record may ask for; 10000 if not given.", shared.PROMPTS, at_least=1
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DrawnOptions(
    RewardOptions, DraftOptions, AlignedOptions, SpeculationOptions, ModelOptions, DrawingOptions
):
    """Method, model and output."""

    output: Annotated[
        Path | None,
        Declared(
            "Append samples to this file; stdout if not given.", shared.OUTPUT, metavar="FILE"
        ),
    ] = None
    force: shared.ForceOption = False
    resume: Annotated[
        bool,
        Declared("Go on with an unfinished output file.", shared.OUTPUT),
    ] = False
    strict: shared.StrictOption = False
    fields: shared.FieldsOption = None
    progress: shared.ProgressOption = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(RecordGrammarOptions, DrawnOptions):
    """All that ``cdec run`` shares; options about the grammars of records come last."""


@dataclass(frozen=True, kw_only=True)
class SampleOptions(RunOptions, ArtifactOptions):
    """Options of ``cdec sample``; the documented defaults stand here and in the bases."""
