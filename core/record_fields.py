"""RECORD_FIELDS: every field of every output record, with its meaning, said once.

What selects fields, the reference page and the tests of records read this table.
"""

from __future__ import annotations

from dataclasses import dataclass

SAMPLE, SCORE, MASS, CHECK, RETOKENIZE = "sample", "score", "mass", "check", "retokenize"
CLASSIFY = "classify"


@dataclass(frozen=True)
class RecordField:
    """A field of an output record.

    Attributes:
        name: Key of the JSON object.
        type: JSON type, and unit where it has one.
        meaning: One to three sentences; null is explained where it can stand.
        of: Commands whose records can have it.
        methods: Of samples: the methods that give it; "" for all.
    """

    name: str
    type: str
    meaning: str
    of: tuple[str, ...] = (SAMPLE,)
    methods: str = ""


_LOG = "number, nats"
_MASS = "masked, disc, asap, exact, smc, topn"
_NORMALISED = "masked, disc, asap, exact, smc, topn, speculative, mentored"
_DRAFTED = "methods with a draft"

RECORD_FIELDS: tuple[RecordField, ...] = (
    RecordField("schema_version", "integer", "Version of this record format: 1."),
    RecordField(
        "id",
        "string or number",
        "The input record's `id`; without one, 16 hex digits of a hash of its content.",
        (SAMPLE, SCORE, MASS, CLASSIFY, CHECK, RETOKENIZE),
    ),
    RecordField(
        "label",
        "string",
        "The most probable label. Null where the model gives none of them any probability.",
        (CLASSIFY,),
    ),
    RecordField(
        "labels",
        "objects",
        "Labels, best first: `text`; `id`, and `entity_ids` of several; `probability` among all "
        "labels, which sum to 1; `logprob`, the log of P(label and its end | prompt).",
        (CLASSIFY,),
    ),
    RecordField(
        "calibrate",
        "string",
        "How `probability` was calibrated: none or contextual.",
        (CLASSIFY,),
    ),
    RecordField(
        "index", "integer", "Number of the draw within its record, from 0.", (SAMPLE, SCORE)
    ),
    RecordField(
        "text",
        "string",
        "The answer, without what a set's prefix and suffix force around it.",
        (SAMPLE, SCORE, CHECK, RETOKENIZE),
    ),
    RecordField(
        "token_ids",
        "integers",
        "Its tokens, forced prefix and suffix included, the end token not.",
        (SAMPLE, SCORE, CHECK, RETOKENIZE),
    ),
    RecordField(
        "prefill",
        "string",
        "The begun answer that `text` continues and holds, where one was given; `token_ids` are "
        "those after the part of it that stands in the prompt.",
    ),
    RecordField("tokens", "strings", "The texts of these tokens.", (SCORE, RETOKENIZE)),
    RecordField(
        "entity_ids",
        "strings",
        "Sets: ids of the entities with this text, from `id_field`, or line numbers.",
        (SAMPLE, SCORE, CHECK),
    ),
    RecordField(
        "logprob",
        _LOG,
        "Log P: the model's own log probability of the tokens and of ending there, without any "
        "mask. Null for a text that was cut before its end.",
        (SAMPLE, SCORE, RETOKENIZE),
    ),
    RecordField("perplexity", "number", "exp(-logprob / events).", (SCORE, RETOKENIZE)),
    RecordField("events", "integer", "Tokens and end events that `logprob` sums over.", (SCORE,)),
    RecordField(
        "log_weight",
        _LOG,
        "Weight of this record in averages over Q, the model's law within the constraint: average "
        "with exp(log_weight). Null where the method's law has no such weight.",
    ),
    RecordField(
        "log_candidate_weight",
        _LOG,
        "Log of the product of the allowed mass at each step (∏ Z) of this candidate; its "
        "mean over candidates, as a probability, is P(S).",
    ),
    RecordField(
        "log_z_sum",
        _LOG,
        "Sum of log Z over its events; null if one is forbidden.",
        (SCORE,),
    ),
    RecordField(
        "log_masked", _LOG, "Log of the probability that masked decoding draws this text.", (SCORE,)
    ),
    RecordField("member", "boolean", "Whether every event of the text is allowed.", (SCORE,)),
    RecordField(
        "finish_reason",
        "string",
        "`complete`: the text ended. `length`: cut at the length limit. `dead_end`: nothing was "
        "allowed any more. `budget`: the method's budget was used up.",
    ),
    RecordField(
        "valid",
        "boolean",
        "Whether the finished text satisfies the constraint, decided by a second, independent path "
        "(a look-up of the text, or lark's parser). Null where that check ran out of time.",
        (SAMPLE, SCORE, CHECK),
    ),
    RecordField(
        "first_refused",
        "object",
        "Of a text that is no member: the `token` and the `byte` where it leaves the constraint.",
        (SCORE,),
    ),
    RecordField("method", "string", "The method that drew it."),
    RecordField(
        "exactness",
        "string",
        "How the law of this record relates to Q: `exact`, `asymptotic` (approaches it with more "
        "work), `divergence` (within a stated distance of masked decoding), `biased`, or "
        "`heuristic` (a search; no law).",
    ),
    RecordField("seed", "integer", "Seed of this draw's random numbers."),
    RecordField(
        "probability",
        "number",
        "Probability of this sequence of tokens under Q, P(w) / P(S). Null where P(S) is not known "
        "(the bounds of `log_mass` have not met), and where the text is no member.",
        (SAMPLE, SCORE),
        _NORMALISED,
    ),
    RecordField(
        "probability_lower",
        "number",
        "Certified: it is not below this, P(w) / exp(log_mass_upper).",
        (SAMPLE, SCORE),
        _NORMALISED,
    ),
    RecordField(
        "probability_upper",
        "number",
        "Certified: it is not above this, P(w) / exp(log_mass_lower), at most 1.",
        (SAMPLE, SCORE),
        _NORMALISED,
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
        _LOG,
        "Estimate of log P(S), the log of the model's mass on the constraint: the mean of the "
        "candidates' weights, or the end of the certified bracket that it lies beyond. Null where "
        "weights are not known or no mass was met. Of labels the mass itself, up to rounding.",
        (SAMPLE, MASS, CLASSIFY),
        _MASS,
    ),
    RecordField(
        "log_mass_se",
        _LOG,
        "Standard error of `log_mass`: of the mean, given what was seen, widened by the mass not "
        "yet seen as far as so many candidates could have missed it, and no wider than the "
        "bracket. 1.96 of it to both sides make an interval of 95 %.",
        (SAMPLE, MASS),
        _MASS,
    ),
    RecordField(
        "log_mass_reliable",
        "boolean",
        "Whether `log_mass` within 1.96 `log_mass_se` may be relied on: the bracket does not "
        "contradict the mean and the error is at most 1 nat, or the bracket is at most 0.1 nats "
        "wide. Null where `log_mass` is not estimated.",
        (SAMPLE, MASS),
        _MASS,
    ),
    RecordField(
        "log_mass_lower",
        _LOG,
        "Certified: log P(S) is not below this. The mass of the members found so far.",
        (SAMPLE, SCORE, MASS),
        _MASS,
    ),
    RecordField(
        "log_mass_upper",
        _LOG,
        "Certified: log P(S) is not above this. One minus what is known to be outside.",
        (SAMPLE, SCORE, MASS),
        _MASS,
    ),
    RecordField(
        "ess",
        "number",
        "Effective sample size of the candidates behind `log_mass` (smc: of the particles), their "
        "weights summed by text: 1 where all weight is on one text, however often it was drawn.",
        (SAMPLE, MASS),
        _MASS,
    ),
    RecordField(
        "missed_mass",
        "number",
        "Upper bound of the mass that `top_m` left out.",
        methods="masked, disc",
    ),
    RecordField(
        "length_mass",
        "number",
        "Estimated share of the valid mass that lies beyond the length limit.",
        (SAMPLE, MASS),
        _MASS,
    ),
    RecordField(
        "path_evaluations",
        "integer",
        "Prefixes along the paths of all candidates, as if nothing were cached.",
        methods="asap, exact",
    ),
    RecordField("particles", "integer", "Texts that grew together.", methods="smc"),
    RecordField("resamplings", "integer", "How often they were resampled.", methods="smc"),
    RecordField("rank", "integer", "Place among the members found, from 1.", methods="topn"),
    RecordField(
        "proved",
        "boolean",
        "Whether no text that was not found can be more probable than this one.",
        methods="topn",
    ),
    RecordField("log_q_lower", _LOG, "Certified lower bound of log Q of the text.", methods="topn"),
    RecordField("log_q_upper", _LOG, "Certified upper bound of log Q of the text.", methods="topn"),
    RecordField(
        "log_text",
        _LOG,
        "Log of the summed P of its tokenisations found.",
        methods="topn, by text",
    ),
    RecordField(
        "tokenisations", "integer", "How many of these were found.", methods="topn, by text"
    ),
    RecordField(
        "target_calls",
        "integer",
        "Calls of the model: a call is one sequence in one forward pass. The prompt is charged to "
        "the record's first draw.",
        (SAMPLE, MASS, CLASSIFY),
    ),
    RecordField(
        "target_tokens", "integer", "Tokens that these calls read.", (SAMPLE, MASS, CLASSIFY)
    ),
    RecordField("draft_calls", "integer", "Calls of the draft.", methods=_DRAFTED),
    RecordField(
        "distinct_evaluations",
        "integer",
        "Distinct prefixes at which the model was asked.",
        (SAMPLE, MASS, CLASSIFY),
    ),
    RecordField(
        "acceptance_rate",
        "number",
        "Share of the draft's tokens that the model kept.",
        methods=_DRAFTED,
    ),
    RecordField(
        "accepted_length",
        "number",
        "Mean number of tokens kept of each proposal.",
        methods=_DRAFTED,
    ),
    RecordField(
        "cost_per_token",
        "number",
        "Calls of the model, and of the draft at `cost_ratio`, for each token.",
        methods=_DRAFTED,
    ),
    RecordField("kl_spent", _LOG, "Divergence spent over the text.", methods="mentored"),
    RecordField(
        "round",
        "integer",
        "Candidates drawn before the record learns from them.",
        (SAMPLE, MASS),
        "asap, exact, topn",
    ),
    RecordField(
        "scenario_counts", "object", "How often each case of the method came up.", methods="cdsl"
    ),
    RecordField("reward", "number", "Reward of the text.", methods="cdlh, cdlh-approx, cdsl"),
    RecordField(
        "satisfaction_soft",
        "number",
        "The reward, between 0 and 1.",
        methods="cdlh, cdlh-approx, cdsl",
    ),
    RecordField(
        "satisfaction_hard",
        "boolean",
        "Whether the text has all that the reward asks for.",
        methods="cdlh, cdlh-approx, cdsl",
    ),
    RecordField(
        "lookahead",
        "integer",
        "`lookahead`, where it was given: the mask was tighter than it has to be.",
    ),
    RecordField(
        "input",
        "object",
        "The input record's other fields, as they were.",
        (SAMPLE, CLASSIFY),
        methods="all",
    ),
    RecordField(
        "byte",
        "integer",
        "Of a refused text: offset of the first byte at which no member goes on, from 0.",
        (CHECK,),
    ),
    RecordField("line", "integer", "The same place: its line, from 1.", (CHECK,)),
    RecordField("column", "integer", "Its character in that line, from 1.", (CHECK,)),
    RecordField("allowed", "strings", "What was allowed there, at most ten pieces.", (CHECK,)),
    RecordField("allowed_count", "integer", "How many pieces were allowed.", (CHECK,)),
    RecordField("may_end", "boolean", "Whether a member ends there.", (CHECK,)),
    RecordField("terminals", "strings", "Grammars: the terminals awaited there.", (CHECK,)),
    RecordField("stack", "strings", "Grammars: the parser's stack there.", (CHECK,)),
    RecordField("rules", "strings", "Grammars: the rules under way, `•` at the place.", (CHECK,)),
    RecordField("mass", "number", "Estimate of P(S), as a probability.", (MASS,)),
    RecordField("mass_lower", "number", "exp(log_mass_lower).", (MASS,)),
    RecordField("mass_upper", "number", "exp(log_mass_upper).", (MASS,)),
    RecordField(
        "converged",
        "boolean",
        "Whether the bounds came as near to each other as `until_converged` asks.",
        (MASS,),
    ),
    RecordField("candidates", "integer", "Candidates drawn.", (MASS,)),
    RecordField(
        "canonical_token_ids", "integers", "The tokens that the tokenizer gives.", (RETOKENIZE,)
    ),
    RecordField("canonical_logprob", _LOG, "Their log probability.", (RETOKENIZE,)),
    RecordField("canonical_perplexity", "number", "Their perplexity.", (RETOKENIZE,)),
)
"""All fields, those of samples in the order of the record."""


def fields_of(command: str) -> tuple[str, ...]:
    """Return the names of the fields that a command's records can have.

    Args:
        command: ``sample``, ``score``, ``mass``, ``classify``, ``check`` or ``retokenize``.
    """
    return tuple(field.name for field in RECORD_FIELDS if command in field.of)
