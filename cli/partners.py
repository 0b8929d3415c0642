"""What a method works with beside the model: a draft, what its calls cost, and a reward."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from cdec.cli.cost_ratio import MEASURE, measure_cost_ratio, parse_cost_ratio
from cdec.cli.options import refuse_unused
from cdec.cli.tokenizers import EMBEDDED, shown_model
from cdec.core.errors import ConfigError, ModelError, TrustError, UsageError

if TYPE_CHECKING:
    from cdec.cli.console import Console
    from cdec.cli.method import Method
    from cdec.cli.sample import Options
    from cdec.core.model import LanguageModel
    from cdec.samplers.base import Sampler
    from cdec.samplers.counts import Counts
    from cdec.samplers.rewards import Reward

COUNTS = "counts"
_NO_MODELS = (COUNTS, "prompt-lookup")
_LOOK_AHEAD = ("cdlh-approx", "cdsl")
_OF_A_MODEL = ("draft_temperature", "draft_revision", "draft_dtype")
_OF_A_DRAFT = ("gamma", "cost_ratio", *_OF_A_MODEL)
_BUDGETS = frozenset({"divergence", "divergence_total"})
_SAFE_REWARDS = ("coverage", "classifier", "regex")
"""Rewards that run no code of whoever names them."""


@dataclass(frozen=True)
class Partners:
    """The draft and the reward of a run, chosen and not yet opened.

    Attributes:
        method: Uses them.
        options: As typed.
        draft: ``embedded``, ``counts``, ``prompt-lookup``, a name or a path; None for no draft.
        cost_ratio: Cost of a draft call in calls of the model; None if not known beforehand.
        shorthand: Arguments that ``--speculate`` stands for.
    """

    method: Method
    options: Options
    draft: str | None
    cost_ratio: float | None
    shorthand: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Options, typed: frozenset[str], method: Method) -> Partners:
        """Choose partners.

        Raises:
            UsageError: There is no draft and one is needed, or an option has no effect.
            ConfigError: ``cdec.toml`` names a reward that runs code.
        """
        _refuse_code(options, typed)
        draft, shorthand = _shorthand(options, typed, method)
        if draft is None and method.uses("draft"):
            draft = _default_draft(options)
        _check_draft(draft, typed, method)
        _check_divergence(options, method)
        uses_ratio = method.uses("cost_ratio")
        ratio = _cost_ratio(options, typed, method, draft) if uses_ratio else None
        return cls(method, options, draft, ratio, shorthand)

    @property
    def guessing(self) -> str | None:
        """The option by which tokens are guessed from counts; None where they are not."""
        if self.options.speculate > 0 and (self.shorthand or "speculate" in self.method.keywords):
            return "--speculate"
        return "--draft counts" if self.draft == COUNTS else None

    @property
    def keeps_counts(self) -> bool:
        """Whether counts that are guessed from may be read from a file and written to one."""
        return self.guessing is not None and self.method.uses("speculate_threshold")

    @property
    def has_model(self) -> bool:
        """Whether the draft is a model."""
        return self.draft is not None and self.draft not in _NO_MODELS

    def early_sampler(self, counts: Counts) -> Sampler | None:
        """Return the sampler, if it can be had before anything is opened.

        Raises:
            UsageError: An option that the sampler refuses.
        """
        if self.has_model or self.method.uses("reward"):
            return None
        return self.method.sampler(
            counts=counts, draft=self.draft, cost_ratio=self.cost_ratio, **self.shorthand
        )

    def sampler(
        self, model: LanguageModel, reward: Reward | None, counts: Counts, console: Console
    ) -> Sampler:
        """Load the draft and return the sampler.

        Raises:
            CdecError: The draft cannot be loaded, or has another vocabulary.
            UsageError: An option that the sampler refuses.
        """
        draft: Any = self.draft
        ratio = self.cost_ratio
        if self.has_model:
            draft = open_draft(self.options, str(self.draft), model)
            if self.options.cost_ratio == MEASURE and self.method.uses("cost_ratio"):
                ratio = measure_cost_ratio(model, draft)
                console.note(f"a call of the draft costs {ratio:.3g} calls of the model")
        return self.method.sampler(draft=draft, reward=reward, counts=counts, cost_ratio=ratio)

    def reward(self) -> Reward | None:
        """Build the reward; a classifier is loaded.

        Raises:
            UsageError: No such reward.
            CdecError: What it needs cannot be had.
        """
        spec = self.options.reward
        if spec is None or not self.method.uses("reward"):
            return None
        from cdec.samplers.rewards import build_reward

        is_model = spec.partition(":")[0] == "classifier"
        return build_reward(spec, **({"device": self.options.device} if is_model else {}))

    def manifest(self) -> dict[str, object]:
        """Return what decides the records, in place of what was typed."""
        shown: dict[str, object] = {
            "draft": shown_model(self.draft) if self.draft is not None else None,
            **{name.replace("_", "-"): value for name, value in self.shorthand.items()},
        }
        if self.has_model:
            names = ("draft_revision", "draft_dtype")
            shown |= {name: getattr(self.options, name) for name in names}
        for name in ("divergence", "divergence_total"):
            value = getattr(self.options, name)
            if value is not None and math.isinf(value):
                # JSON has no infinity: it would read as not given.
                shown[name.replace("_", "-")] = "inf"
        return shown


def with_typed_budget(options: Options, typed: frozenset[str]) -> Options:
    """Return the options without the divergence that ``cdec.toml`` has, if the other was typed."""
    beside: dict[str, Any] = dict.fromkeys(_BUDGETS - typed)
    return dataclasses.replace(options, **beside) if len(beside) == 1 else options


def open_draft(options: Options, name: str, model: LanguageModel) -> LanguageModel:
    """Load the draft onto the model's device; its own code is never run.

    Raises:
        ModelError: It cannot be loaded.
        TrustError: It wants to run code, or has pickled weights only.
        TokenizerMismatchError: Its vocabulary is not the model's.
    """
    from cdec.core import load_model
    from cdec.data.assets import embedded_model_path
    from cdec.samplers.drafts.view import require_draft

    try:
        draft = load_model(
            embedded_model_path("draft") if name == EMBEDDED else name,
            device=str(model.device),
            dtype=options.draft_dtype or options.dtype,
            revision=options.draft_revision,
        )
    except TrustError as error:
        # The hint names options that are for the model alone.
        raise TrustError(
            error.message,
            hint="Name a draft with .safetensors weights and no code of its own.",
            **error.details,
        ) from error
    except ModelError as error:
        close = get_close_matches(name, (EMBEDDED, *_NO_MODELS), n=1)
        if not close:
            raise
        hint = f"did you mean --draft {close[0]}?"
        raise ModelError(error.message, hint=hint, **error.details) from error
    require_draft(model, draft)
    return draft


def _shorthand(
    options: Options, typed: frozenset[str], method: Method
) -> tuple[str | None, dict[str, Any]]:
    """Return the draft that the options name, and what ``--speculate`` says of it."""
    if not method.uses("draft"):
        return None, {}
    if not (options.speculate and method.name == "speculative"):
        return options.draft, {}
    # What was typed wins over cdec.toml.
    if "speculate" not in typed and options.draft is not None:
        return options.draft, {}
    clashes = {"gamma"} & typed
    if "draft" in typed and options.draft != COUNTS:
        clashes |= {"draft"}
    refuse_unused(clashes, typed, "beside --speculate S, which is --draft counts --gamma S")
    return COUNTS, {"gamma": options.speculate}


def _check_draft(draft: str | None, typed: frozenset[str], method: Method) -> None:
    """Refuse options without effect, and drafts that are no models where a model is needed."""
    if draft == "":
        raise UsageError("--draft is empty", hint="give a name or a path, or leave it out")
    if not method.uses("draft"):
        refuse_unused(_OF_A_MODEL, typed, f"to --method {method.name}")
    elif draft is None:
        refuse_unused(_OF_A_DRAFT, typed, "without --draft")
    elif draft in _NO_MODELS:
        refuse_unused(_OF_A_MODEL, typed, f"with --draft {draft}")
    if method.name in _LOOK_AHEAD and draft in _NO_MODELS:
        raise UsageError(
            f"--draft {draft} proposes what was seen before, and --method {method.name} looks "
            "ahead with a model",
            hint="give --draft NAME_OR_PATH, a smaller model of the same vocabulary",
        )


def _check_divergence(options: Options, method: Method) -> None:
    given = (options.divergence, options.divergence_total)
    # Neither wins where they stand side by side.
    if None not in given and method.uses("divergence"):
        raise UsageError(
            "--divergence and --divergence-total were both given",
            hint="give the budget of a token or that of a text",
        )


def _default_draft(options: Options) -> str | None:
    if options.method in ("disc", "exact"):
        return None
    if shown_model(options.model) == EMBEDDED:
        return EMBEDDED
    raise UsageError(
        f"--method {options.method} needs a draft, and {options.model} brings none",
        hint="give --draft NAME_OR_PATH, a smaller model of the same vocabulary"
        + ("" if options.method in _LOOK_AHEAD else ", or --draft prompt-lookup"),
    )


def _cost_ratio(
    options: Options, typed: frozenset[str], method: Method, draft: str | None
) -> float | None:
    if options.cost_ratio == MEASURE:
        if draft is None or draft in _NO_MODELS:
            if "cost_ratio" not in typed:
                return None  # cdec.toml speaks of the methods that have a draft model
            raise UsageError(
                "--cost-ratio measure times the draft, and there is no draft model",
                hint="give a number, or --draft NAME_OR_PATH"
                if method.uses("draft")
                else "give a number",
            )
        if options.resume:
            raise UsageError(
                "--cost-ratio measure gives another number each time, and --resume continues",
                hint="give the number that the first run told on stderr",
            )
    return parse_cost_ratio(options.cost_ratio)


def _refuse_code(options: Options, typed: frozenset[str]) -> None:
    """Refuse a reward that runs code unless it stood on the command line."""
    spec = options.reward
    if spec is None or "reward" in typed or spec.partition(":")[0] in _SAFE_REWARDS:
        return
    if ":" in spec:
        raise ConfigError(
            f"cdec.toml: the reward {spec!r} runs code and may stand on the command line only",
            hint=f"remove it there and type --reward {spec} where it is wanted",
            key="reward",
        )
