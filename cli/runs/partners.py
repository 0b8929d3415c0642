"""What a method works with beside the model: a draft, what its calls cost, and a reward."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdec.cli.options.names import named_by
from cdec.cli.options.shared import refuse_unused
from cdec.cli.runs.cost_ratio import MEASURE, measure_cost_ratio, parse_cost_ratio
from cdec.cli.runs.draft_loading import COUNTS, NO_MODELS, device_of, open_draft
from cdec.cli.runs.models import EMBEDDED, refuse_revision, shown_model
from cdec.cli.runs.stand_ins import stand_ins
from cdec.core.errors import ConfigError, FieldError, UsageError

if TYPE_CHECKING:
    from cdec.cli.frame.console import Console
    from cdec.cli.options.sampling import SampleOptions as Options
    from cdec.cli.runs.method import Method
    from cdec.core.models.base import LanguageModel
    from cdec.samplers.base import Sampler
    from cdec.samplers.drafts.counts import Counts
    from cdec.samplers.rewards import Reward

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
        ratio = _cost_ratio(options, draft) if uses_ratio else None
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
        return self.draft is not None and self.draft not in NO_MODELS

    def early_sampler(self, counts: Counts) -> Sampler | None:
        """Return the sampler, if it can be had before anything is opened.

        Where it cannot, one is made of what stands in for a draft model and a reward, and forgotten
        again, so that an option out of range is refused before anything is loaded.

        Raises:
            UsageError: An option that the sampler refuses.
        """
        given: dict[str, Any] = {"draft": self.draft, "cost_ratio": self.cost_ratio}
        given |= {"counts": counts, **self.shorthand}
        if not self.has_model and not self.method.uses("reward"):
            return self.method.sampler(**given)
        given |= stand_ins(draft=self.has_model, reward=self.method.uses("reward"))
        self.method.sampler(**given)
        return None

    def early_draft(self) -> LanguageModel | None:
        """Load the draft before the model, which is larger, if it is known where it belongs.

        Raises:
            CdecError: It cannot be loaded.
        """
        device = device_of(self.options)
        if not self.has_model or device is None:
            return None
        return open_draft(self.options, str(self.draft), device)

    def sampler(
        self,
        model: LanguageModel,
        loaded: LanguageModel | None,
        reward: Reward | None,
        counts: Counts,
        console: Console,
    ) -> Sampler:
        """Return the sampler.

        Args:
            model: Of the run.
            loaded: The draft, if it is a model and was loaded; it is loaded here if not.
            reward: Of the run.
            counts: Of the run.
            console: Told what was measured.

        Raises:
            CdecError: The draft cannot be loaded, or has another vocabulary.
        """
        draft: Any = self.draft
        ratio = self.cost_ratio
        if self.has_model:
            from cdec.samplers.drafts.view import require_draft

            draft = loaded
            if draft is None:
                draft = open_draft(self.options, str(self.draft), str(model.device))
            require_draft(model, draft)
            if self.options.cost_ratio == MEASURE and self.method.uses("cost_ratio"):
                ratio = measure_cost_ratio(model, draft)
                console.note(f"a call of the draft costs {ratio:.3g} calls of the model")
        return self.method.sampler(draft=draft, reward=reward, counts=counts, cost_ratio=ratio)

    def reward(self) -> Reward | None:
        """Build the reward; a classifier is loaded.

        Raises:
            UsageError: No such reward, or one that reads fields of records, which --prompt has not.
            CdecError: What it needs cannot be had.
        """
        spec = self.options.reward
        if spec is None or not self.method.uses("reward"):
            return None
        from cdec.samplers.rewards import build_reward

        is_model = spec.partition(":")[0] == "classifier"
        with named_by("--reward", spec):
            reward = build_reward(spec, **({"device": self.options.device} if is_model else {}))
        if self.options.prompt:
            _require_no_fields(reward)
        return reward

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
    elif draft in NO_MODELS:
        refuse_unused((*_OF_A_MODEL, "cost_ratio"), typed, f"with --draft {draft}")
    else:
        refuse_revision(draft, typed, field="draft_revision")
    if method.name in _LOOK_AHEAD and draft in NO_MODELS:
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


def _cost_ratio(options: Options, draft: str | None) -> float | None:
    if options.cost_ratio == MEASURE:
        if draft is None or draft in NO_MODELS:
            return None  # cdec.toml speaks of the methods that have a draft model
        if options.resume:
            raise UsageError(
                "--cost-ratio measure gives another number each time, and --resume continues",
                hint="give the number that the first run told on stderr",
            )
    return parse_cost_ratio(options.cost_ratio)


def _require_no_fields(reward: Reward) -> None:
    """Refuse a reward that would fail for every text of ``--prompt``.

    Raises:
        UsageError: It reads fields.
    """
    try:
        reward.check(None)
    except FieldError as error:
        raise UsageError(
            f"--prompt gives a text and no fields: {error.message}",
            hint="give JSON records with -i FILE in place of --prompt, which have the field "
            f"{error.details['field']!r}",
        ) from error


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
