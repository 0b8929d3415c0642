"""Probabilities within the constraint, and the constraint's mass."""

from __future__ import annotations

from cdec.core.record_fields.declared import (
    CLASSIFY,
    LOG,
    MASS,
    NORMALISED,
    SAMPLE,
    SCORE,
    WITH_MASS,
    RecordField,
)

MASSES: tuple[RecordField, ...] = (
    RecordField(
        "probability",
        "number",
        "Probability of this sequence of tokens under Q, P(w) / P(S). Null where P(S) is not known "
        "(the bounds of `log_mass` have not met), and where the text is no member.",
        (SAMPLE, SCORE),
        NORMALISED,
    ),
    RecordField(
        "probability_lower",
        "number",
        "Certified: it is not below this: P(w) / exp(log_mass_upper), rounding of P(w) taken off.",
        (SAMPLE, SCORE),
        NORMALISED,
    ),
    RecordField(
        "probability_upper",
        "number",
        "Certified: it is not above this: P(w) / exp(log_mass_lower), rounding of P(w) put on, at "
        "most 1.",
        (SAMPLE, SCORE),
        NORMALISED,
    ),
    RecordField(
        "draws", "integer", "Candidates drawn up to the one taken.", methods="disc, asap, exact"
    ),
    RecordField(
        "accepted",
        "boolean",
        "Whether the acceptance test passed; if not, the record is the method's fallback.",
        methods="disc, exact",
    ),
    RecordField(
        "iteration",
        "integer",
        "Candidates that the record's tree had learnt from, this one included.",
        methods="asap, exact",
    ),
    RecordField(
        "log_mass",
        LOG,
        "Estimate of log P(S), the log of the model's mass on the constraint's sequences of tokens "
        "(of a set each member in the tokenizer's own tokens, else every tokenisation): the mean "
        "of the candidates' weights (disc: of each sample's first `mass_draws`), or the end of the "
        "certified bracket that it lies beyond, so that it is too high on average. Null where "
        "weights are not known or no mass was met. Of labels the mass itself, up to rounding.",
        (SAMPLE, MASS, CLASSIFY),
        WITH_MASS,
    ),
    RecordField(
        "log_mass_se",
        LOG,
        "Standard error of `log_mass`: of the mean, given what was seen, widened by the mass not "
        "yet seen as far as so many candidates could have missed it, and no wider than to the "
        "farther end of the bracket. 1.96 of it to both sides make an interval of 95 %.",
        (SAMPLE, MASS),
        WITH_MASS,
    ),
    RecordField(
        "log_mass_reliable",
        "boolean",
        "Whether `log_mass` within 1.96 `log_mass_se` may be relied on: the bracket does not "
        "contradict the mean and the error is at most 1 nat, or the bracket is at most 0.1 nats "
        "wide. Null where `log_mass` is not estimated.",
        (SAMPLE, MASS),
        WITH_MASS,
    ),
    RecordField(
        "log_mass_unclipped",
        LOG,
        "The mean of the candidates' weights as it is, wherever its bracket lies: its exponential "
        "has mean P(S), so this is what to average over records, exp of it, 0 where it is null "
        "and `log_mass_reliable` is not (no candidate found a text).",
        (SAMPLE, MASS),
        "masked, disc, asap, exact, smc",
    ),
    RecordField(
        "log_mass_lower",
        LOG,
        "Certified: log P(S) is not below this. The mass of the members found so far, by all "
        "candidates. Both bounds are widened by what the model's arithmetic may round otherwise in "
        "another batch, on another device or processor: the rounding of one event (5e-5 nats for "
        "float32, 0.06 for float16, 0.4 for bfloat16, 1e-14 for tables) times the events of the "
        "longest text.",
        (SAMPLE, SCORE, MASS),
        WITH_MASS,
    ),
    RecordField(
        "log_mass_upper",
        LOG,
        "Certified: log P(S) is not above this. One minus what is known to be outside.",
        (SAMPLE, SCORE, MASS),
        WITH_MASS,
    ),
    RecordField(
        "ess",
        "number",
        "Effective sample size of the candidates behind `log_mass` (smc: of the particles), their "
        "weights summed by text: 1 where all weight is on one text, however often it was drawn.",
        (SAMPLE, MASS),
        WITH_MASS,
    ),
    RecordField(
        "missed_mass",
        "number",
        "Upper bound of the mass that `top_m` left out.",
        methods="masked, disc",
    ),
    RecordField(
        "length_mass_upper",
        "number",
        "Upper bound, estimated and not certified, of the share of the valid mass that lies beyond "
        "the length limit: all prefixes that fill the limit and may go on count, though nobody saw "
        "whether a valid end follows. The share itself may be far smaller. 0 where no such prefix "
        "was met.",
        (SAMPLE, MASS),
        WITH_MASS,
    ),
    RecordField(
        "path_evaluations",
        "integer",
        "Prefixes along the paths of all candidates, as if nothing were cached.",
        methods="asap, exact",
    ),
    RecordField("particles", "integer", "Texts that grew together.", methods="smc"),
    RecordField("resamplings", "integer", "How often they were resampled.", methods="smc"),
    RecordField(
        "rank",
        "integer",
        "Place among the members found, from 1; null where there is no member at all.",
        methods="topn",
    ),
    RecordField(
        "rank_upper",
        "integer",
        "Its place among all members is `rank` or later, and no later than this; null where no "
        "bound is known.",
        methods="topn",
    ),
    RecordField(
        "proved",
        "boolean",
        "Whether no text that was not found can be more probable than this one, by the scores of "
        "this run: texts as near as rounding may change places in another.",
        methods="topn",
    ),
    RecordField(
        "exhausted",
        "boolean",
        "Whether no text is left after this one: what was listed so far is all there is, and a "
        "record has fewer texts than it asked for.",
        methods="topn",
    ),
    RecordField(
        "log_unfound_upper",
        LOG,
        "No single token sequence that was not found has a log P above this; null where all were.",
        methods="topn",
    ),
    RecordField(
        "log_text",
        LOG,
        "Log of the summed P of its tokenisations found.",
        methods="topn, by text",
    ),
    RecordField(
        "tokenisations", "integer", "How many of these were found.", methods="topn, by text"
    ),
)
