"""Facts about methods that users are told: law, weight, cost, source, and when to take which.

P is the model's law, S the texts that satisfy the constraint, Q = P(. | S), and Z the model's mass
on what is allowed at one step. A pass is one evaluation of the model, for one token of one text.
Help, ``cdec methods`` and the reference read ``ABOUT``; programs read ``registry``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class About:
    """Facts of a method for help, ``cdec methods`` and the reference.

    Attributes:
        summary: What it draws, one sentence of at most 61 characters.
        law: How its draws relate to Q, at most 15 characters.
        law_in_full: The same, one or two sentences.
        weight: What ``log_weight`` is, at most 16 characters.
        weight_in_full: The same, one sentence.
        cost: Passes of the model, at most 18 characters.
        cost_in_full: The same, one sentence.
        source: Paper or origin.
        when: When to take it, one sentence.
        takes_best: Whether it takes the most probable tokens, at whatever temperature.
    """

    summary: str
    law: str
    law_in_full: str
    weight: str
    weight_in_full: str
    cost: str
    cost_in_full: str
    source: str
    when: str
    takes_best: bool = False

    def is_greedy(self, values: Mapping[str, Any]) -> bool:
        """Return whether the most probable tokens are taken, with these options of the method."""
        return self.takes_best or bool(values.get("greedy"))


_NO_WEIGHT = "null: the law of the texts is not known."
_MASKED_LAW = (
    "Biased: a sequence of tokens w has probability P(w) / prod Z, where Q has P(w) / P(S). Where "
    "few continuations are allowed, masks favour what the model would seldom have written."
)
_SUM_LOG_Z = "Sum of log Z over the steps: records weighted by its exponential target Q."
_LOOKAHEAD = "Lu et al. 2022, NeuroLogic A*esque decoding; Nakshatri et al. 2025, Algorithm 2"

ABOUT: dict[str, About] = {
    "unconstrained": About(
        summary="The model's own texts; the constraint says which are valid.",
        law="P; if valid, Q",
        law_in_full="Exactly P. The valid texts alone are exact draws of Q: rejection sampling.",
        weight="0 if valid",
        weight_in_full="0 for members, null for all others.",
        cost="1 pass a token",
        cost_in_full="One pass a token; a valid text takes 1 / P(S) draws on average.",
        source="von Neumann 1951 (rejection)",
        when="To see what the model does without the constraint, or where P(S) is near 1.",
    ),
    "greedy": About(
        summary="The most probable allowed token at every step.",
        law="one text",
        law_in_full="Heuristic: one text a prompt, which need not be the most probable member.",
        weight="null",
        weight_in_full=_NO_WEIGHT,
        cost="1 pass a token",
        cost_in_full="One pass a token; fewer with `draft`, and the same text.",
        source="standard",
        when="For one good answer, fast, such as exact match on a benchmark.",
        takes_best=True,
    ),
    "masked": About(
        summary="Each token drawn among the allowed ones, renormalised.",
        law="biased",
        law_in_full=_MASKED_LAW,
        weight="sum log Z",
        weight_in_full=f"{_SUM_LOG_Z} An unbiased estimate with `opportunistic`, null with "
        "`top_m`.",
        cost="1 pass a token",
        cost_in_full="One pass a token; fewer with `draft`, under the same law.",
        source="De Cao et al. 2021 (tries); Geng et al. 2023 (grammars)",
        when="For the fastest random texts, where bias does not matter or weights are used.",
    ),
    "beam": About(
        summary="The most probable texts that a beam search finds.",
        law="B texts",
        law_in_full="Heuristic: a fixed list of texts, which may miss the most probable member.",
        weight="null",
        weight_in_full=_NO_WEIGHT,
        cost="B passes a token",
        cost_in_full="`beams` passes a token for all samples of a prompt together.",
        source="standard",
        when="For several good answers at a known cost; topn proves what it finds.",
    ),
    "disc": About(
        summary="Masked texts, accepted as often as Q wants; the default.",
        law="Q as K grows",
        law_in_full="Tends to Q as K grows: of K masked candidates the first is "
        "taken that is accepted, with probability prod Z; where none is, one of K new ones by "
        "its weight.",
        weight="0 if accepted",
        weight_in_full="0 where the candidate was accepted, null where K were refused.",
        cost="until accepted",
        cost_in_full="Masked texts until one is accepted, drawn in waves of 1, 1, 2, 4, ...; K "
        "more where K are refused. From the second wave on a text is given up where it is sure to "
        "be refused; equal prefixes of a prompt are evaluated once.",
        source="Ye et al. 2025, arXiv 2504.09135",
        when="For nearly unbiased texts at a cost that has a bound: 2 K texts a sample.",
    ),
    "asap": About(
        summary="Masked texts that learn from those drawn before.",
        law="Q as draws grow",
        law_in_full="Tends to Q with the number of draws for a prompt. The first draw is masked "
        "decoding, so `burn_in` candidates only teach.",
        weight="log P / law",
        weight_in_full="log of P over the law of the draw: weighted records target Q from the "
        "first one on.",
        cost="new prefixes only",
        cost_in_full="`burn_in` texts a prompt, then one a sample; a prefix that was met before "
        "costs no pass.",
        source="Park et al. 2024, arXiv 2405.21047",
        when="For many samples of one prompt; exact has the better law at a similar cost.",
    ),
    "exact": About(
        summary="Independent draws of exactly Q, until a budget is spent.",
        law="exactly Q",
        law_in_full="Exactly Q = P(. | S), a law over sequences of tokens, every draw independent: "
        "adaptive rejection sampling, whose proposal learns from what was refused.",
        weight="0",
        weight_in_full='0; past the budget (finish_reason "budget") that of `fallback`.',
        cost="until accepted",
        cost_in_full="Candidates until one is accepted, fewer and fewer as a prompt's tree grows; "
        "a prefix that was met before costs no pass. Only `max_draws` ends it: a smaller one "
        "costs less and comes to the `fallback` sooner. `until_converged`, a width of the bracket "
        "to end at, is of asap: what exact accepts is exact at any width.",
        source="Park et al. 2024, arXiv 2405.21047 (tree); CARS, adaptive rejection, with `abort`",
        when="Where numbers must be defended: sampling studies, evaluation, calibration. Not for "
        "schemas and grammars whose P(S) is spread over many prefixes: disc or smc there.",
    ),
    "smc": About(
        summary="One of N texts that grow together, weighted and resampled.",
        law="Q as N grows",
        law_in_full="Tends to Q as `particles` grows. With few particles it can be far from Q "
        "where masks are severe, whatever its ess says.",
        weight="estimates P(S)",
        weight_in_full="log of the draw's unbiased estimate of P(S): weighted records target Q.",
        cost="N texts",
        cost_in_full="`particles` texts a sample; equal prefixes are evaluated once.",
        source="Lew et al. 2023, arXiv 2306.03081; Loula et al. 2025, arXiv 2504.13139",
        when="As the baseline of another family, or to estimate P(S).",
    ),
    "mcmc": About(
        summary="A masked text, changed step by step towards Q.",
        law="Q as steps grow",
        law_in_full="Tends to Q as `steps` grows: Metropolis and Hastings' rule accepts or refuses "
        "what masked decoding makes of a beginning of the text. After few steps the law is between "
        "that of masked and Q, nobody knows how near; no two draws share a chain.",
        weight="null",
        weight_in_full=_NO_WEIGHT,
        cost="steps texts",
        cost_in_full="One text, then for each of the `steps` what lies behind a cut; equal "
        "prefixes are evaluated once.",
        source="Gonzalez et al. 2025, arXiv 2506.05754",
        when="As the baseline of another family, or where one text shall be drawn with a fixed "
        "number of tries and disc accepts none.",
    ),
    "topn": About(
        summary="The n most probable members found, best first, with bounds.",
        law="n best of Q",
        law_in_full="The n most probable members found, each with certified bounds of its Q and "
        "of its rank; the field proved says whether anything more probable may have been missed. "
        "Members are sequences of tokens; with `by` text those of one text are summed.",
        weight="null",
        weight_in_full="null: nothing is drawn.",
        cost="300 calls at most",
        cost_in_full="At most 300 calls a prompt, or `max_evaluations`; with `proved` as many as "
        "it takes to prove the order, which for large sets is tens of thousands.",
        source="best-first search over the prefix tree, with the bounds of ASAp's",
        when="For the best entities of a catalogue, or a full distribution over a small set.",
    ),
    "speculative": About(
        summary="As masked, several tokens a pass, proposed by a draft.",
        law="as masked",
        law_in_full=f"That of masked, whatever the draft. {_MASKED_LAW} With `ratio` another one, "
        "which the draft decides.",
        weight="sum log Z",
        weight_in_full=f"{_SUM_LOG_Z} null with `ratio`.",
        cost="< 1 pass a token",
        cost_in_full="One pass verifies `gamma` proposals; calls of the draft come on top.",
        source="Leviathan et al. 2023; Chen et al. 2023",
        when="Where calls of the model are dear and a small one of the same vocabulary is there.",
    ),
    "mentored": About(
        summary="Speculative, with a budget of divergence for more speed.",
        law="near masked",
        law_in_full="Within `divergence` nats a drafted position, or `divergence_total` a text, "
        "of masked's law; 0 is speculative.",
        weight="log target / law",
        weight_in_full="Sum of log Z and, over drafted positions, of log(masked law / law drawn "
        "from): weighted records target Q.",
        cost="< speculative",
        cost_in_full="Fewer passes than speculative, the more divergence is allowed.",
        source="Tran-Thien 2023, Mentored decoding",
        when="Where a draft is good and a bounded deviation from the model is fine.",
    ),
    "cdlh": About(
        summary="Greedy, led by a reward of what the model would go on with.",
        law="one text",
        law_in_full="Heuristic: of the `branch` best tokens the one whose rollout scores best.",
        weight="null",
        weight_in_full=_NO_WEIGHT,
        cost="k d passes a token",
        cost_in_full="`branch` times `depth` passes a token.",
        source=_LOOKAHEAD,
        when="Where texts shall score well by a reward, and passes are cheap.",
        takes_best=True,
    ),
    "cdlh-approx": About(
        summary="As cdlh, the rollouts by a draft.",
        law="one text",
        law_in_full="Heuristic: of the `branch` best tokens the one whose rollout scores best, "
        "as the draft goes on.",
        weight="null",
        weight_in_full=_NO_WEIGHT,
        cost="1 pass a token",
        cost_in_full="One pass a token, and `branch` times `depth` of the draft.",
        source=_LOOKAHEAD,
        when="As cdlh, where the model's passes are dear.",
        takes_best=True,
    ),
    "cdsl": About(
        summary="Speculative decoding, led by a reward where the draft is off.",
        law="one text",
        law_in_full="Heuristic: the draft runs ahead, the model verifies, and where acceptance or "
        "reward is too low it looks ahead as cdlh-approx. `verify` ratio, the paper's rule, is not "
        "lossless: greedy drafts are kept more often than the model would write them.",
        weight="null",
        weight_in_full=_NO_WEIGHT,
        cost="<= 1 pass a token",
        cost_in_full="One pass verifies `depth` proposals; more where the reward is low.",
        source="Nakshatri et al. 2025, Constrained Decoding with Speculative Lookaheads",
        when="As cdlh, at about the speed of speculative decoding.",
        takes_best=True,
    ),
}
"""Facts of each method, by its name in ``METHODS``."""
