"""The options of the methods with two models, and of those that look ahead with a reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.frame.config import NumberOrWord
from cdec.cli.options.shared import REWARDS, TWO_MODELS


@dataclass(frozen=True, kw_only=True)
class DraftOptions(CommonOptions):
    """What proposes tokens to the model, and what leaving the model's law may cost."""

    draft: Annotated[
        str | None,
        typer.Option(
            "--draft",
            metavar="NAME_OR_PATH",
            help="speculative, mentored, cdlh-approx, cdsl, disc, exact: what proposes tokens: a "
            "model of the same vocabulary, `embedded`, `counts` (what a grammar's states were "
            "followed by) or `prompt-lookup` (what the last tokens were followed by). The embedded "
            "draft if the model is the embedded one; disc and exact have none if not given.",
            rich_help_panel=TWO_MODELS,
        ),
    ] = None
    draft_revision: Annotated[
        str | None,
        typer.Option(
            "--draft-revision",
            help="Commit, tag or branch of the draft.",
            rich_help_panel=TWO_MODELS,
        ),
    ] = None
    draft_dtype: Annotated[
        str | None,
        typer.Option(
            "--draft-dtype",
            help="As --dtype, for the draft; that of --dtype if not given.",
            rich_help_panel=TWO_MODELS,
        ),
    ] = None
    gamma: Annotated[
        NumberOrWord,
        typer.Option(
            "--gamma",
            metavar="N|auto",
            parser=NumberOrWord,
            help="Tokens proposed before each pass of the model; `auto` adapts to what each text "
            "accepts.",
            rich_help_panel=TWO_MODELS,
        ),
    ] = NumberOrWord("4")  # noqa: RUF009  # a string, which nobody can change
    draft_temperature: Annotated[
        float | None,
        typer.Option(
            "--draft-temperature",
            metavar="T",
            help="Of a draft model, instead of the model's --temperature, --top-k and --top-p; 0 "
            "proposes its most probable tokens.",
            rich_help_panel=TWO_MODELS,
        ),
    ] = None
    greedy: Annotated[
        bool,
        typer.Option(
            "--greedy",
            help="speculative: the most probable allowed tokens, the texts of --method greedy.",
            rich_help_panel=TWO_MODELS,
        ),
    ] = False
    divergence: Annotated[
        float | None,
        typer.Option(
            "--divergence",
            metavar="D",
            help="mentored: how far each token's law may go from the model's towards the draft's, "
            "KL in nats; 0 is speculative, inf takes all that the constraint and the model allow. "
            "0.1 if neither this nor --divergence-total is given.",
            rich_help_panel=TWO_MODELS,
        ),
    ] = None
    divergence_total: Annotated[
        float | None,
        typer.Option(
            "--divergence-total",
            metavar="T",
            help="mentored: the same for a whole text, KL in nats.",
            rich_help_panel=TWO_MODELS,
        ),
    ] = None
    cost_ratio: Annotated[
        NumberOrWord | None,
        typer.Option(
            "--cost-ratio",
            metavar="C|measure",
            parser=NumberOrWord,
            help="With a draft model: cost of one of its calls in calls of the model, for "
            "`cost_per_token`, which is null without it; `measure` times both at the start.",
            rich_help_panel=TWO_MODELS,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RewardOptions(CommonOptions):
    """Options of ``cdlh``, ``cdlh-approx`` and ``cdsl``."""

    reward: Annotated[
        str | None,
        typer.Option(
            "--reward",
            metavar="SPEC",
            help="cdlh, cdlh-approx, cdsl: what texts are scored by: coverage (share of a record's "
            "`concepts`, in any inflected form, or in those of the record's `inflections`, a list "
            "of lists; coverage:past counts simple pasts, too), classifier:NAME_OR_PATH "
            "(probability of its last label), regex:PATTERN (1 if it is found, within a second) or "
            "module:function (a function of texts and records, the fields that cdec does not read "
            "itself, that returns a list of one number a text; imported from the working "
            "directory too).",
            rich_help_panel=REWARDS,
        ),
    ] = None
    branch: Annotated[
        int,
        typer.Option(
            "--branch",
            metavar="K",
            help="cdlh, cdlh-approx, cdsl: candidates for a token, the most probable ones.",
            rich_help_panel=REWARDS,
        ),
    ] = 3
    depth: Annotated[
        int,
        typer.Option(
            "--depth",
            metavar="D",
            help="cdlh, cdlh-approx, cdsl: tokens looked ahead before the reward is asked; also "
            "how many the draft of cdsl proposes.",
            rich_help_panel=REWARDS,
        ),
    ] = 3
    target_tries: Annotated[
        int,
        typer.Option(
            "--target-tries",
            metavar="B",
            help="cdsl: tokens of the model tried where too few of the draft's were accepted.",
            rich_help_panel=REWARDS,
        ),
    ] = 1
    accept_threshold: Annotated[
        float,
        typer.Option(
            "--accept-threshold",
            metavar="SHARE",
            help="cdsl: share of the draft's tokens that is enough.",
            rich_help_panel=REWARDS,
        ),
    ] = 0.3
    reward_threshold: Annotated[
        float,
        typer.Option(
            "--reward-threshold",
            metavar="R",
            help="cdsl: reward that is enough.",
            rich_help_panel=REWARDS,
        ),
    ] = 0.3
    verify: Annotated[
        Literal["hard", "speculative"],
        typer.Option(
            "--verify",
            help="cdsl: keep a token of the draft if it is the model's most probable one (hard), "
            "or with the model's probability of it (speculative: else -n above 1 gives equal "
            "texts).",
            rich_help_panel=REWARDS,
        ),
    ] = "hard"
    on_reject: Annotated[
        Literal["keep", "discard"],
        typer.Option(
            "--on-reject",
            help="cdsl: what becomes of accepted tokens where acceptance or reward is too low.",
            rich_help_panel=REWARDS,
        ),
    ] = "keep"
