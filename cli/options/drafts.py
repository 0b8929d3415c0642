"""The options of the methods with two models, and of those that look ahead with a reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cdec.cli.frame.declaration import CommonOptions, Declared, NumberOrWord
from cdec.cli.options.shared import REWARDS, TWO_MODELS


@dataclass(frozen=True, kw_only=True)
class DraftOptions(CommonOptions):
    """What proposes tokens to the model, and what leaving the model's law may cost."""

    draft: Annotated[
        str | None,
        Declared(
            "speculative, mentored, cdlh-approx, cdsl, disc, exact: what proposes tokens: a "
            "model of the same vocabulary, `embedded`, `counts` (what a grammar's states were "
            "followed by) or `prompt-lookup` (what the last tokens were followed by). The embedded "
            "draft if the model is the embedded one; disc and exact have none if not given.",
            TWO_MODELS,
            metavar="NAME_OR_PATH",
        ),
    ] = None
    draft_revision: Annotated[
        str | None,
        Declared("Commit, tag or branch of the draft.", TWO_MODELS),
    ] = None
    draft_dtype: Annotated[
        str | None,
        Declared("As --dtype, for the draft; that of --dtype if not given.", TWO_MODELS),
    ] = None
    gamma: Annotated[
        NumberOrWord,
        Declared(
            "Tokens proposed before each pass of the model; `auto` adapts to what each text "
            "accepts.",
            TWO_MODELS,
            metavar="N|auto",
        ),
    ] = NumberOrWord("4")  # noqa: RUF009  # a string, which nobody can change
    draft_temperature: Annotated[
        float | None,
        Declared(
            "Of a draft model, instead of the model's --temperature, --top-k and --top-p; 0 "
            "proposes its most probable tokens.",
            TWO_MODELS,
            metavar="T",
        ),
    ] = None
    greedy: Annotated[
        bool,
        Declared(
            "speculative: the most probable allowed tokens, the texts of --method greedy.",
            TWO_MODELS,
        ),
    ] = False
    divergence: Annotated[
        float | None,
        Declared(
            "mentored: how far each token's law may go from the model's towards the draft's, "
            "KL in nats; 0 is speculative, inf takes all that the constraint and the model allow. "
            "0.1 if neither this nor --divergence-total is given.",
            TWO_MODELS,
            metavar="D",
        ),
    ] = None
    divergence_total: Annotated[
        float | None,
        Declared("mentored: the same for a whole text, KL in nats.", TWO_MODELS, metavar="T"),
    ] = None
    cost_ratio: Annotated[
        NumberOrWord | None,
        Declared(
            "With a draft model: cost of one of its calls in calls of the model, for "
            "`cost_per_token`, which is null without it; `measure` times both at the start.",
            TWO_MODELS,
            metavar="C|measure",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RewardOptions(CommonOptions):
    """Options of ``cdlh``, ``cdlh-approx`` and ``cdsl``."""

    reward: Annotated[
        str | None,
        Declared(
            "cdlh, cdlh-approx, cdsl: what texts are scored by: coverage (share of a record's "
            "`concepts`, in any inflected form, or in those of the record's `inflections`, a list "
            "of lists; coverage:past counts simple pasts, too), classifier:NAME_OR_PATH "
            "(probability of its last label), regex:PATTERN (1 if it is found, within a second) or "
            "module:function (a function of texts and records, the fields that cdec does not read "
            "itself, that returns a list of one number a text; imported from the working "
            "directory too).",
            REWARDS,
            metavar="SPEC",
        ),
    ] = None
    branch: Annotated[
        int,
        Declared(
            "cdlh, cdlh-approx, cdsl: candidates for a token, the most probable ones.",
            REWARDS,
            metavar="K",
        ),
    ] = 3
    depth: Annotated[
        int,
        Declared(
            "cdlh, cdlh-approx, cdsl: tokens looked ahead before the reward is asked; also "
            "how many the draft of cdsl proposes.",
            REWARDS,
            metavar="D",
        ),
    ] = 3
    target_tries: Annotated[
        int,
        Declared(
            "cdsl: tokens of the model tried where too few of the draft's were accepted.",
            REWARDS,
            metavar="B",
        ),
    ] = 1
    accept_threshold: Annotated[
        float,
        Declared("cdsl: share of the draft's tokens that is enough.", REWARDS, metavar="SHARE"),
    ] = 0.3
    reward_threshold: Annotated[
        float,
        Declared("cdsl: reward that is enough.", REWARDS, metavar="R"),
    ] = 0.3
    verify: Annotated[
        Literal["hard", "speculative"],
        Declared(
            "cdsl: keep a token of the draft if it is the model's most probable one (hard), "
            "or with the model's probability of it (speculative: else -n above 1 gives equal "
            "texts).",
            REWARDS,
        ),
    ] = "hard"
    on_reject: Annotated[
        Literal["keep", "discard"],
        Declared(
            "cdsl: what becomes of accepted tokens where acceptance or reward is too low.", REWARDS
        ),
    ] = "keep"
