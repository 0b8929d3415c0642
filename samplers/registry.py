"""Tables of methods: METHODS, what each takes and needs; SAMPLERS, their classes by name.

A new method is one file with its sampler and one entry here. Nothing heavy is imported until a
class is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cdec.core.options import Option
from cdec.samplers import options as shared
from cdec.samplers.method import Method
from cdec.samplers.options import COUNTS, LOOKUP
from cdec.samplers.wrappers import imported

if TYPE_CHECKING:
    from cdec.samplers.base import Sampler


_OF_A_MODEL = (shared.DRAFT_TEMPERATURE, shared.COST_RATIO)
_OF_COUNTS = (shared.SAVED_COUNTS, shared.FREEZE_COUNTS, shared.COUNT_THRESHOLD)
_DRAFTED = (shared.DRAFT, shared.GAMMA, *_OF_A_MODEL, *_OF_COUNTS)
_GROWING = (shared.STOP_LOOPS, shared.MAX_WALKS)
_LEARNING = (shared.ROUND, shared.MAX_DRAWS, shared.TREE_CACHE, shared.TREE, *_GROWING)
_REWARDED = (shared.BRANCH, shared.DEPTH, *_GROWING)
_DRAFT_LOOKAHEAD = (shared.DRAFT, shared.COST_RATIO, *_REWARDED)

_TABLE = (
    Method(
        name="unconstrained",
        home="cdec.samplers.unconstrained:UnconstrainedSampler",
        options=_GROWING,
        masks=False,
        needs_constraint=False,
    ),
    Method(
        name="greedy",
        home="cdec.samplers.greedy:GreedySampler",
        options=(shared.OPPORTUNISTIC, *_DRAFTED, *_GROWING),
        needs_constraint=False,
        named_drafts=(COUNTS, LOOKUP),
    ),
    Method(
        name="masked",
        home="cdec.samplers.masked:MaskedSampler",
        options=(shared.TOP_M, shared.OPPORTUNISTIC, *_DRAFTED, *_GROWING),
        named_drafts=(COUNTS, LOOKUP),
    ),
    Method(
        name="beam",
        home="cdec.samplers.beam:BeamSampler",
        options=(
            replace(shared.BEAMS, default=5),
            shared.TREE,
            shared.STOP_LOOPS,
            Option(
                name="length_penalty",
                type=float,
                default=0.0,
                help="Rank texts by log P over events to this power, as transformers does: 0 ranks "
                "by probability, more favours longer texts, and below 0 shorter ones.",
                metavar="X",
                at_least=-10,
                at_most=10,
            ),
        ),
    ),
    Method(
        name="disc",
        home="cdec.samplers.disc:DiscSampler",
        options=(
            replace(shared.TRIES, at_most=shared.MOST_TRIES),
            shared.MASS_DRAWS,
            Option(
                name="recycle",
                type=bool,
                default=False,
                help="Resample the rejected candidates instead of drawing new ones.",
            ),
            shared.TOP_M,
            shared.BEAMS,
            *_DRAFTED,
            *_GROWING,
        ),
        named_drafts=(COUNTS, LOOKUP),
    ),
    Method(
        name="asap",
        home="cdec.samplers.asap:AsapSampler",
        options=(
            Option(
                name="burn_in",
                type=int,
                default=100,
                help="Candidates that only teach; the first of all is masked decoding.",
                unit="candidates",
                metavar="N",
                at_least=0,
            ),
            shared.UNTIL_CONVERGED,
            *_LEARNING,
        ),
    ),
    Method(
        name="exact",
        home="cdec.samplers.exact:ExactSampler",
        options=(
            shared.TRIES,
            Option(
                name="fallback",
                type=("disc", "asap", "none"),
                default="disc",
                help="What a sample past the budget is: disc, asap or none.",
                metavar="METHOD",
            ),
            Option(
                name="abort",
                type=bool,
                default=False,
                help="Draw without masks where nothing is known yet, and give a candidate "
                "up at its first forbidden token; the same law.",
            ),
            *_LEARNING,
            *_DRAFTED,
        ),
        named_drafts=(COUNTS, LOOKUP),
    ),
    Method(
        name="smc",
        home="cdec.samplers.smc:SmcSampler",
        options=(
            Option(
                name="particles",
                type=int,
                default=16,
                help="Texts that grow together for each sample.",
                unit="texts",
                metavar="N",
                at_least=1,
            ),
            Option(
                name="resample_below",
                type=float,
                default=0.5,
                help="Resample where the effective sample size falls below this share of the "
                "particles.",
                metavar="SHARE",
                at_least=0,
                at_most=1,
            ),
            Option(
                name="potential",
                type=object,
                help="Weighs texts and their beginnings: a Potential, or several.",
                opened=True,
                python_only=True,
            ),
            *_GROWING,
        ),
    ),
    Method(
        name="mcmc",
        home="cdec.samplers.mcmc:McmcSampler",
        options=(
            Option(
                name="steps",
                type=int,
                default=10,
                help="Times that a text is cut and drawn anew from there on; the more, the nearer "
                "to Q.",
                unit="steps",
                metavar="N",
                at_least=1,
            ),
            Option(
                name="proposal",
                type=("prefix", "priority", "restart"),
                default="priority",
                help="Where a text is cut: anywhere alike (prefix), where much was open "
                "(priority), or at its beginning (restart).",
            ),
            *_GROWING,
        ),
    ),
    Method(
        name="topn",
        home="cdec.samplers.topn:TopnSampler",
        options=(
            Option(
                name="by",
                type=("sequence", "text"),
                default="sequence",
                help="Rank token sequences (sequence), or texts by the summed probability of "
                "their tokenisations found (text).",
                metavar="KIND",
                hint="Leave it out to rank token sequences.",
            ),
            shared.ROUND,
            shared.MAX_EVALUATIONS,
            shared.PROVED,
            shared.TREE,
            shared.MAX_WALKS,
        ),
        streams=True,
    ),
    Method(
        name="speculative",
        home="cdec.samplers.speculative:SpeculativeSampler",
        options=(
            *_DRAFTED,
            Option(
                name="greedy",
                type=bool,
                default=False,
                help="The most probable allowed tokens, the texts of `method` greedy.",
            ),
            Option(
                name="ratio",
                type=bool,
                default=False,
                help="Keep the draft's most probable token with the model's probability of it over "
                "the draft's own, as papers print the rule: not lossless for such a token, and "
                "weights are null.",
            ),
            *_GROWING,
        ),
        needs_constraint=False,
        needs_draft=True,
        named_drafts=(COUNTS, LOOKUP),
    ),
    Method(
        name="mentored",
        home="cdec.samplers.mentored_decoding:MentoredSampler",
        options=(
            shared.DRAFT,
            shared.GAMMA_THAT_DECIDES,
            *_OF_A_MODEL,
            Option(
                name="divergence",
                type=float,
                help="How far each token's law may go from the model's towards the "
                "draft's, KL in nats; 0 is speculative, inf takes all that the constraint and the "
                "model allow. 0.1 if neither this nor `divergence_total` is given.",
                unit="nats",
                metavar="D",
                at_least=0,
                infinite=True,
            ),
            Option(
                name="divergence_total",
                type=float,
                help="The same for a whole text, KL in nats.",
                unit="nats",
                metavar="T",
                at_least=0,
                infinite=True,
            ),
            *_GROWING,
        ),
        needs_constraint=False,
        needs_draft=True,
        named_drafts=(LOOKUP,),
    ),
    Method(
        name="cdlh",
        home="cdec.samplers.cdlh:CdlhSampler",
        options=_REWARDED,
        needs_constraint=False,
        needs_reward=True,
    ),
    Method(
        name="cdlh-approx",
        home="cdec.samplers.cdlh:CdlhApproxSampler",
        options=_DRAFT_LOOKAHEAD,
        needs_constraint=False,
        needs_draft=True,
        needs_reward=True,
    ),
    Method(
        name="cdsl",
        home="cdec.samplers.cdsl:CdslSampler",
        options=(
            *_DRAFT_LOOKAHEAD,
            Option(
                name="target_tries",
                type=int,
                default=1,
                help="Tokens of the model tried where too few of the draft's were accepted.",
                unit="tokens",
                metavar="B",
                at_least=0,
            ),
            Option(
                name="accept_threshold",
                type=float,
                default=0.3,
                help="Share of the draft's tokens that is enough.",
                metavar="SHARE",
                at_least=0,
                at_most=1,
                expected="a share from 0 to 1",
                hint="give for example `accept_threshold` 0.3",
            ),
            Option(
                name="reward_threshold",
                type=float,
                default=0.3,
                help="Reward that is enough.",
                metavar="R",
            ),
            shared.VERIFY,
            Option(
                name="on_reject",
                type=("keep", "discard"),
                default="keep",
                help="What becomes of accepted tokens where acceptance or reward is too low.",
            ),
        ),
        needs_constraint=False,
        needs_draft=True,
        needs_reward=True,
    ),
)

METHODS: dict[str, Method] = {
    # Any text can be scored; what it is steered by comes first.
    method.name: replace(method, options=(*method.options, shared.REWARD))
    for method in _TABLE
}
"""Every method by its name."""


class _Samplers(Mapping[str, "type[Sampler]"]):
    """Name of a method → class of its sampler, imported when it is first asked for."""

    def __getitem__(self, name: str) -> type[Sampler]:
        found: type[Sampler] = imported(METHODS[name].home)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(METHODS)

    def __len__(self) -> int:
        return len(METHODS)


SAMPLERS: Mapping[str, type[Sampler]] = _Samplers()
"""The class that draws, by name, in the order of ``METHODS``."""
