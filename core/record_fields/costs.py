"""What a record cost, and what drafts, rewards and the commands without draws add."""

from __future__ import annotations

from cdec.core.record_fields.declared import (
    CHECK,
    CLASSIFY,
    DRAFTED,
    LOG,
    MASS,
    RETOKENIZE,
    REWARDED,
    SAMPLE,
    RecordField,
)

COSTS: tuple[RecordField, ...] = (
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
        "Share of the draft's tokens that the model kept.",
        methods=DRAFTED,
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
        "Calls of the model, and of the draft at `cost_ratio`, for each token.",
        methods=DRAFTED,
    ),
    RecordField("kl_spent", LOG, "Divergence spent over the text.", methods="mentored"),
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
