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


LOG = "number, nats"
WITH_MASS = "masked, disc, asap, exact, smc, mcmc, topn"
NORMALISED = "masked, disc, asap, exact, smc, mcmc, topn, speculative, mentored"
DRAFTED = "methods with a draft"
REWARDED = "where `reward` is given"


RECORD_FIELDS: tuple[RecordField, ...] = (
    RecordField("schema_version", "integer", "Version of this record format: 1."),
    RecordField(
        "id",
        "string or number",
        "The input record's `id`; without one, 16 hex digits of a hash of its content: of the "
        "prompt's text where it holds nothing else.",
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
        "The answer, without what a set puts around it: its leading blank, prefix and suffix. "
        "Texts that are given back may have these or not. With `after` the "
        "constrained part alone, null where free text never reached its marker; with `between` the "
        "whole text.",
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
    RecordField(
        "fit",
        "string",
        "Where `fit` was given: exact if S is all texts of at most `max_new_tokens` tokens, "
        "conservative if some of them may be missing.",
        (SAMPLE, SCORE, MASS),
    ),
    RecordField(
        "spelling",
        "string",
        "Where `canonical` was given: canonical, S being the token sequences that the tokenizer "
        "itself writes; where `templated` was, templated, S being those whose fixed parts are "
        "spelled apart; without either S holds every token sequence of its texts.",
        (SAMPLE, SCORE, MASS),
    ),
    RecordField(
        "budgets",
        "string",
        "Where parts of texts have numbers of tokens of their own: exact if S is all texts whose "
        "parts have so few, conservative if some of them may be missing.",
        (SAMPLE, SCORE, MASS),
    ),
    RecordField(
        "free_text",
        "string",
        "What the model wrote freely before `text`, its marker included, where `after` was given.",
    ),
    RecordField(
        "free_tokens",
        "integer",
        "How many of `token_ids` are free text: with `after` the first of them, and the last of "
        "these may hold the beginning of `text`.",
    ),
    RecordField(
        "free_logprob",
        LOG,
        "Log P of the tokens of free text, and of the model's end of the text in it.",
    ),
    RecordField(
        "free_log_z",
        LOG,
        "Sum of log Z over the events of free text, Z the mass of the tokens that were not struck "
        "out: free text was drawn with probability exp(free_logprob - free_log_z). Null where it "
        "was cut or forced into a marker.",
    ),
    RecordField("marker", "string", "The marker that free text reached; null for none."),
    RecordField("forced", "boolean", "Whether the model was forced into a marker."),
    RecordField(
        "thinking",
        "string",
        "What the model thought before all else, its end included, where free text comes behind "
        "it (`after` or `between`); null where it did not end. Elsewhere it is `free_text`.",
    ),
    RecordField("thinking_tokens", "integer", "How many of `free_tokens` are thinking."),
    RecordField(
        "stop",
        "string",
        "Of records with a `stop`: the text at which `text` ended, left out of it, null where it "
        "came to none. `valid` is of what is left, all other fields are of the whole draw.",
    ),
    RecordField(
        "regions",
        "objects",
        "The tagged regions of `text`, in turn, where `between` was given: the member's `text`; "
        "`start` and `end`, its characters in `text`; `first_token` and `tokens`, its place in "
        "`token_ids`, with the text that ends it; its verdict, weights and masses.",
    ),
    RecordField("tokens", "strings", "The texts of these tokens.", (SCORE, RETOKENIZE)),
    RecordField(
        "scored_text",
        "string",
        "The text that was scored: what these tokens spell. Under a set it is `text` with the "
        "leading blank, the prefix and the suffix that the set puts around its members; without "
        "an artifact it is `text`, blank or none, as it was given.",
        (SCORE,),
    ),
    RecordField(
        "entity_ids",
        "strings",
        "Sets: ids of the entities with this text, from `id_field`, or line numbers.",
        (SAMPLE, SCORE, CHECK),
    ),
    RecordField(
        "members",
        "objects",
        "Where sets stand within a schema or grammar: their members in `text`, in turn: the `set`; "
        "the `pointer` of the string, or in a grammar `start` and `end`, its characters in `text`; "
        "the member's `text`; the entity's `id`, and `entity_ids` where several have that text.",
        (SAMPLE, SCORE, CHECK),
    ),
    RecordField(
        "span",
        "object",
        "Of pieces of a document: where the text stands first, its `offset` and `length` in "
        "characters, at how many `places` it does, and the record's `field` that holds the "
        "document.",
        (SAMPLE, SCORE, CHECK),
    ),
    RecordField(
        "unenforced",
        "objects",
        "JSON Schemas compiled with `lenient`: what masks leave open: the `path` of a keyword, the "
        "`keyword`, and the `reason`; `valid` holds the text to it all the same.",
        (SAMPLE, SCORE, CHECK),
    ),
    RecordField(
        "logprob",
        LOG,
        "Log P: the model's own log probability of these tokens and of ending there, without any "
        "mask; of this one tokenisation, where others may spell the same text. Null for a text "
        "that was cut before its end.",
        (SAMPLE, SCORE, RETOKENIZE),
    ),
    RecordField("perplexity", "number", "exp(-logprob / events).", (SCORE, RETOKENIZE)),
    RecordField("events", "integer", "Tokens and end events that `logprob` sums over.", (SCORE,)),
    RecordField(
        "spellings",
        "integer",
        "Token sequences found that spell `scored_text`, of those that the constraint allows.",
        (SCORE,),
    ),
    RecordField(
        "log_text_lower",
        LOG,
        "Certified lower bound of the log of the sum of P over all of them, found or not. Null for "
        "no mass.",
        (SCORE,),
    ),
    RecordField("log_text_upper", LOG, "Certified upper bound of the same.", (SCORE,)),
    RecordField(
        "text_probability_lower",
        "number",
        "Certified lower bound of that sum divided by P(S): Q of the text. Null for non-members.",
        (SCORE,),
    ),
    RecordField("text_probability_upper", "number", "Certified upper bound of the same.", (SCORE,)),
    RecordField(
        "log_weight",
        LOG,
        "Weight of this record in averages over Q, the model's law within the constraint: average "
        "with exp(log_weight). Null where the method's law has no such weight.",
    ),
    RecordField(
        "log_candidate_weight",
        LOG,
        "Log of the product of the allowed mass at each step (∏ Z) of this candidate; its "
        "mean over candidates, as a probability, is P(S). With `opportunistic` an estimate of it, "
        "with the same mean.",
    ),
    RecordField(
        "log_z_sum",
        LOG,
        "Sum of log Z over its events; null if one is forbidden.",
        (SCORE,),
    ),
    RecordField(
        "log_masked", LOG, "Log of the probability that masked decoding draws this text.", (SCORE,)
    ),
    RecordField("member", "boolean", "Whether every event of the text is allowed.", (SCORE,)),
    RecordField(
        "finish_reason",
        "string",
        "`complete`: the text ended. `length`: cut at the length limit. `dead_end`: nothing was "
        "allowed any more. `budget`: the method's budget was used up. `no_marker`: the model ended "
        "its text before the marker of `after`. `loop`: it looped (`warnings`) and was "
        "stopped, as `stop_loops` asks.",
    ),
    RecordField(
        "valid",
        "boolean",
        "Whether the finished text satisfies the constraint, decided by a second, independent path "
        "(a look-up of the text, lark's parser, the jsonschema package; `cdec check` follows the "
        "artifact's own tables). Null where that check ran out of time or memory, or there is no "
        "text.",
        (SAMPLE, SCORE, CHECK),
    ),
    RecordField(
        "warnings",
        "objects",
        "What is amiss with the text: none in general. `W_BUDGET`: no draw was accepted within "
        "`max_draws`; `needed` a sample, by an estimate, 1,000,000 for that or more. `W_LOW_Z`: a "
        "step had a Z below 0.001, the model fought the constraint; `log_z` of the step with the "
        "least. `W_WHITESPACE`: white space of 128 bytes or more; `whitespace` `usual` or "
        "`compact` of a schema and `max_whitespace` of a grammar allow less. `W_CYCLE`: the same "
        "`period` bytes, 256 at "
        "most, four times or more and for 128 bytes or more; `bytes` say how many. `token` and "
        "`byte` say where: how many of `token_ids` stand before, and how many of their bytes.",
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
        "How the law of this record's tokens relates to Q, a law over sequences of tokens: "
        "`exact`, `asymptotic` (approaches it with more work), `divergence` (within a stated "
        "distance of masked decoding), `biased`, or `heuristic` (a search; no law).",
    ),
    RecordField("seed", "integer", "Seed of this draw's random numbers."),
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
        "masked, disc, asap, exact, smc, mcmc",
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
    RecordField("moves", "integer", "How many `steps` changed the text.", methods="mcmc"),
    RecordField("particles", "integer", "Texts that grew together.", methods="smc"),
    RecordField(
        "log_potential",
        LOG,
        "Log of what `potential` makes of the text's weight; `log_weight` is then of averages over "
        "the law proportional to P times it. Null without a text.",
        methods="smc",
    ),
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
    RecordField(
        "target_calls",
        "integer",
        "Calls of the model: a call is one sequence in one forward pass. The prompt is charged to "
        "the record's first draw.",
        (SAMPLE, MASS, CLASSIFY),
    ),
    RecordField(
        "path_calls",
        "integer",
        "Calls of the model as papers count them, as if no prefix were kept: one for each token, "
        "and end, of each text on its way, refused candidates and forced tokens included; of a "
        "draft's proposals one for all that are verified together.",
    ),
    RecordField(
        "target_tokens", "integer", "Tokens that these calls read.", (SAMPLE, MASS, CLASSIFY)
    ),
    RecordField("draft_calls", "integer", "Calls of the draft.", methods=DRAFTED),
    RecordField(
        "distinct_evaluations",
        "integer",
        "Distinct prefixes at which the model was asked.",
        (SAMPLE, MASS, CLASSIFY),
    ),
    RecordField(
        "acceptance_rate",
        "number",
        "Tokens of the draft that were accepted, over those that were put to the test: what stands "
        "behind a refused one was not.",
        methods=DRAFTED,
    ),
    RecordField(
        "counted_proposals",
        "integer",
        "Tokens that counts proposed, for nothing; those of the draft model took `draft_calls`.",
        methods="methods with a draft model and counts",
    ),
    RecordField(
        "accepted_length",
        "number",
        "Mean number of tokens kept of each proposal.",
        methods=DRAFTED,
    ),
    RecordField(
        "cost_per_token",
        "number",
        "Calls of the model, and of the draft at `cost_ratio`, for each token, as they were made: "
        "what draws share is asked for once. Papers count every prefix anew.",
        methods=DRAFTED,
    ),
    RecordField(
        "kl_spent",
        LOG,
        "Sum of min(D, KL(q || p)) over the drafted positions of this text: an account of it. What "
        "is certain is KL(masked law || law drawn from) <= D times the expected length.",
        methods="mentored",
    ),
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
    RecordField("reward", "number", "Reward of the text; null without a text.", methods=REWARDED),
    RecordField(
        "satisfaction_soft",
        "number",
        "The reward, between 0 and 1; null without a text.",
        methods=REWARDED,
    ),
    RecordField(
        "satisfaction_hard",
        "boolean",
        "Whether the text has all that the reward asks for; null without a text.",
        methods=REWARDED,
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
    RecordField(
        "json_path",
        "string",
        "Schemas: JSON pointer of the value there, or of the object or array between whose parts "
        "it is.",
        (CHECK,),
    ),
    RecordField(
        "schema_path",
        "strings",
        "Schemas: JSON pointers of what in the schema the value there must satisfy.",
        (CHECK,),
    ),
    RecordField("expected", "strings", "Schemas: what may stand there, in words.", (CHECK,)),
    RecordField(
        "written",
        "boolean",
        "Schemas: false where a valid text has a number in a spelling that masks do not write.",
        (CHECK,),
    ),
    RecordField(
        "reason",
        "string",
        "Schemas: how that number is written, or why none such is.",
        (CHECK,),
    ),
    RecordField("terminals", "strings", "Grammars: the terminals awaited there.", (CHECK,)),
    RecordField("stack", "strings", "Grammars: the parser's stack there.", (CHECK,)),
    RecordField("rules", "strings", "Grammars: the rules under way, `•` at the place.", (CHECK,)),
    RecordField("mass", "number", "Estimate of P(S), as a probability.", (MASS,)),
    RecordField("mass_lower", "number", "exp(log_mass_lower).", (MASS,)),
    RecordField("mass_upper", "number", "exp(log_mass_upper).", (MASS,)),
    RecordField(
        "converged",
        "boolean",
        "Whether the bounds came as near to each other as `until_converged` asks, before they were "
        "widened by rounding.",
        (MASS,),
    ),
    RecordField("candidates", "integer", "Candidates drawn.", (MASS,)),
    RecordField(
        "canonical_token_ids", "integers", "The tokens that the tokenizer gives.", (RETOKENIZE,)
    ),
    RecordField("canonical_logprob", LOG, "Their log probability.", (RETOKENIZE,)),
    RecordField("canonical_perplexity", "number", "Their perplexity.", (RETOKENIZE,)),
)

"""All fields, those of samples in the order of the record."""


def fields_of(command: str) -> tuple[str, ...]:
    """Return the names of the fields that a command's records can have.

    Args:
        command: ``sample``, ``score``, ``mass``, ``classify``, ``check`` or ``retokenize``.
    """
    return tuple(field.name for field in RECORD_FIELDS if command in field.of)
