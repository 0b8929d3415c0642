"""What was asked, the answer, and how it was drawn."""

from __future__ import annotations

from cdec.core.record_fields.declared import (
    CHECK,
    CLASSIFY,
    LOG,
    MASS,
    RETOKENIZE,
    SAMPLE,
    SCORE,
    RecordField,
)

TEXTS: tuple[RecordField, ...] = (
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
        "log_weight",
        LOG,
        "Weight of this record in averages over Q, the model's law within the constraint: average "
        "with exp(log_weight). Null where the method's law has no such weight.",
    ),
    RecordField(
        "log_candidate_weight",
        LOG,
        "Log of the product of the allowed mass at each step (∏ Z) of this candidate; its "
        "mean over candidates, as a probability, is P(S).",
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
)
