"""Options that several methods share; imports nothing that is heavy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cdec.core.options import Option

COUNTS, LOOKUP = "counts", "prompt-lookup"
"""Drafts that are no models."""
ADAPTIVE = "auto"
MOST_TRIES = 1 << 22
"""Largest K of disc: some gigabytes."""
DEFAULT_MAX_WALKS = 2048
"""Candidates that decode together; more are decoded in chunks, which changes no result."""
DEFAULT_TREE_CACHE = 256 << 20
DEFAULT_ROUND = 16
DEFAULT_EVALUATIONS = 300
"""Prefixes that a search looks at for a record unless told: seconds with a small model on a CPU."""


MAX_WALKS = Option(
    name="max_walks",
    type=int,
    default=DEFAULT_MAX_WALKS,
    help="Prefixes that are evaluated together; bounds memory, changes no result.",
    unit="prefixes",
    at_least=1,
    decides=False,
    python_only=True,
)
STOP_LOOPS = Option(
    name="stop_loops",
    type=bool,
    default=False,
    help="End a text where it loops (white space, or a piece again and again): it then has the "
    'finish_reason "loop" and no weight, as if it were not allowed to go on.',
)
TOP_M = Option(
    name="top_m",
    type=int,
    help="Verify the model's M best tokens instead of masking all.",
    unit="tokens",
    at_least=1,
)
OPPORTUNISTIC = Option(
    name="opportunistic",
    type=bool,
    default=False,
    help="Compute a mask only where the model's own choice is refused; weights of draws are then "
    "unbiased estimates.",
)
TRIES = Option(
    name="K",
    # The one option with two names: the contract with programs that import cdec wrote this one.
    also="max_tries",
    common=True,
    type=int,
    default=4,
    help="Candidates tried for each sample before the fallback.",
    unit="candidates",
    at_least=1,
)
MASS_DRAWS = Option(
    name="mass_draws",
    type=int,
    default=1,
    help="Candidates of each sample that estimate the constraint's mass; drawn whatever is "
    "accepted.",
    unit="candidates",
    metavar="N",
    at_least=1,
    at_most=MOST_TRIES,
)
BEAMS = Option(name="beams", type=int, help="Width.", unit="prefixes", at_least=1)
ROUND = Option(
    name="round",
    type=int,
    default=DEFAULT_ROUND,
    help="Candidates of a record that are drawn before it learns from them; decides results.",
    unit="candidates",
    metavar="N",
    at_least=1,
)
MAX_EVALUATIONS = Option(
    name="max_evaluations",
    type=int,
    help="Budget, calls of the model per prompt: each reads a prefix and a likely end of it. 300 "
    "unless `proved`; past it the best members found are listed, with bounds of their ranks.",
    unit="calls",
    metavar="N",
    at_least=1,
)
PROVED = Option(
    name="proved",
    type=bool,
    default=False,
    help="Search on until it is proved that no better member exists.",
)
MAX_DRAWS = Option(
    name="max_draws",
    type=int,
    default=1000,
    help="Budget, candidates per sample: each costs up to a call of the model a token, so this "
    'bounds what a run costs; past it a sample of exact has the finish_reason "budget".',
    unit="candidates",
    metavar="N",
    at_least=1,
)
UNTIL_CONVERGED = Option(
    name="until_converged",
    type=float,
    help="Go on teaching until the certified bounds of the constraint's log mass are at most W "
    "nats apart, or `max_draws` are spent; the smaller, the more calls. 0.01 tells the mass to 1 "
    "percent.",
    unit="nats",
    metavar="W",
    above=0,
    expected="a width of the bracket in nats, above 0",
    hint="Give for example 0.01, which tells the mass to 1 percent.",
)
TREE_CACHE = Option(
    name="tree_cache",
    type=int,
    default=DEFAULT_TREE_CACHE,
    help="Memory for what a tree may draw from; changes no result.",
    unit="bytes",
    metavar="SIZE",
    at_least=1,
    at_most=2**63 - 1,
    decides=False,
)
TREE = Option(
    name="tree",
    type=Path,
    help="Keep what is learnt of a single record in this file, which asap and exact begin with; "
    "refused where model, warping, prompt or constraint differ. Written when all is drawn: an "
    "interrupted run leaves it as it was.",
    metavar="FILE.arrow",
    typed_only=True,
    opened=True,
    decides=False,
)
DRAFT = Option(
    name="draft",
    type=str,
    help="What proposes tokens, which one pass of the model verifies: a model of the same "
    "vocabulary, 'embedded-draft', 'counts' (what a grammar's states were followed by) or "
    "'prompt-lookup' (what the last tokens were followed by). Methods that need one take the "
    "embedded draft if the model is the embedded one.",
    metavar="NAME_OR_PATH",
    opened=True,
)
GAMMA = Option(
    name="gamma",
    type=(int, ADAPTIVE),
    default=ADAPTIVE,
    help="Tokens proposed before each pass of the model. 'auto': as many as pay, by the clock and "
    "by what is accepted, and none where no draft pays; texts are those without a draft.",
    unit="tokens",
    metavar="N|auto",
    at_least=1,
)
GAMMA_THAT_DECIDES = replace(
    GAMMA,
    default=4,
    help="Tokens proposed before each pass of the model, on which texts depend; 'auto' adapts to "
    "what each text accepts.",
)
DRAFT_TEMPERATURE = Option(
    name="draft_temperature",
    type=float,
    help="Of a draft model, instead of the model's `temperature`, `top_k` and `top_p`; 0 proposes "
    "its most probable tokens.",
    metavar="T",
    at_least=0,
)
COST_RATIO = Option(
    name="cost_ratio",
    type=float,
    help="With a draft model: cost of one of its calls in calls of the model, for cost_per_token, "
    "which is null without it.",
    unit="calls of the model",
    metavar="C",
    above=0,
)
SAVED_COUNTS = Option(
    name="counts",
    type=Path,
    help="Begin with the counts that `save_counts` wrote; beside a draft model, ask them first.",
    metavar="FILE",
    opened=True,
)
FREEZE_COUNTS = Option(
    name="freeze_counts",
    type=bool,
    default=False,
    help="Guess from these counts and add nothing to them: what a record costs depends on no other "
    "record.",
    decides=False,
)
COUNT_THRESHOLD = Option(
    name="count_threshold",
    type=float,
    help="Counts propose a token while its estimated probability is above this; 0.4 if not given. "
    "Changes no text.",
    metavar="P",
    at_least=0,
    below=1,
    decides=False,
)
REWARD = Option(
    name="reward",
    type=str,
    help="What texts are scored by, and what cdlh, cdlh-approx and cdsl look ahead for: coverage "
    "(share of a record's `concepts`, in any inflected form, or in those of the record's "
    "`inflections`, a list of lists; coverage:past counts simple pasts, too), "
    "classifier:NAME_OR_PATH (probability of its last label for the text, "
    "classifier:pair:NAME_OR_PATH for the prompt and the text), regex:PATTERN (1 if it is found, "
    "within a second) or module:function (a function of texts and records, the fields that cdec "
    "does not read itself, and of prompts if it has a parameter of that name, that returns a list "
    "of one number a text; imported from the working directory too).",
    metavar="SPEC",
    opened=True,
)
BRANCH = Option(
    name="branch",
    type=int,
    default=3,
    help="Candidates for a token, the most probable ones.",
    unit="tokens",
    metavar="K",
    at_least=1,
)
DEPTH = Option(
    name="depth",
    type=int,
    default=3,
    help="Tokens looked ahead before the reward is asked; also how many "
    "the draft of cdsl proposes.",
    unit="tokens",
    metavar="D",
    at_least=1,
)
VERIFY = Option(
    name="verify",
    type=("hard", "speculative", "ratio"),
    default="hard",
    help="Keep a token of the draft if it is the model's most probable one (hard), with the "
    "model's probability of it (speculative), or with that over the draft's own (ratio: the "
    "paper's rule, not lossless for a greedy draft). With hard `n` above 1 gives equal texts.",
)
