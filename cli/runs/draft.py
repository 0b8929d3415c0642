"""The draft of a run: its choice, its opening, the cost of its calls, the file of its counts."""

from __future__ import annotations

import time
from collections.abc import Set
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from cdec.cli.options.shared import refuse_unused
from cdec.cli.runs.models import refuse_revision
from cdec.cli.runs.tokenizer import named_by, named_model
from cdec.core.errors import (
    ModelError,
    Notice,
    OutputError,
    OutputExistsError,
    TrustError,
    UsageError,
)
from cdec.core.tokens.locations import EMBEDDED, EMBEDDED_DRAFT
from cdec.samplers.options import COUNTS, LOOKUP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdec.cli.frame.console import Console
    from cdec.cli.options.methods import MethodOptions
    from cdec.cli.options.model import ModelOptions
    from cdec.cli.options.sampling import SampleOptions
    from cdec.cli.runs.method import ChosenMethod
    from cdec.core.models.language_model import LanguageModel
    from cdec.samplers.drafts.counts import Counts


NO_MODELS = (COUNTS, LOOKUP)
"""Drafts that are no models."""
_OF_A_MODEL = ("draft_temperature", "draft_revision", "draft_dtype")
_OF_A_DRAFT = ("gamma", "cost_ratio", *_OF_A_MODEL)
_OF_COUNTS = ("counts", "save_counts", "freeze_counts", "count_threshold")


@dataclass(frozen=True)
class Draft:
    """The draft that a run was asked for, not yet opened.

    Attributes:
        name: ``embedded-draft``, ``counts``, ``prompt-lookup``, a name or a path; None for none.
        options: How it is loaded, and where counts go.
        model: How the model of the run is loaded.
        method: Of the run.
    """

    name: str | None
    options: MethodOptions
    model: ModelOptions
    method: ChosenMethod

    @classmethod
    def of(cls, options: SampleOptions, typed: frozenset[str], method: ChosenMethod) -> Draft:
        """Return the draft that was named, or the embedded one where a method needs one.

        Raises:
            UsageError: There is none and one is needed, or an option has no effect.
            OutputError: The counts could not be written.
        """
        name = method.values.get("draft")
        if name is None and method.declared.needs_draft:
            name = _default(options.loading, method)
        draft = cls(name, options.methods, options.loading, method)
        draft._check(typed, resumes=options.writing.resume)
        draft._check_counts(typed, force=options.writing.force)
        return draft

    @property
    def is_model(self) -> bool:
        """True where it is a model."""
        return self.name is not None and self.name not in NO_MODELS

    @property
    def keeps_counts(self) -> bool:
        """True where its counts may be read from a file and written to one.

        Beside a model they are asked for by a file.
        """
        if not self.method.uses("counts"):
            return False
        has_file = self.method.values["counts"] is not None or self.options.save_counts is not None
        return self.name == COUNTS or (self.is_model and has_file)

    @property
    def guessing(self) -> str | None:
        """The typed option by which tokens are guessed from counts; None where none are guessed."""
        if self.name == COUNTS or not self.keeps_counts:
            return "--draft counts" if self.name == COUNTS else None
        return "--save-counts" if self.method.values["counts"] is None else "--counts"

    @property
    def key(self) -> str:
        """What is equal where runs have the same draft, loaded in the same way."""
        return repr(("draft", self.name, self.model, self.load_keywords()))

    def load_early(self) -> LanguageModel | None:
        """Load a draft model before the model, which is larger, if its device is known.

        Raises:
            CdecError: It cannot be loaded.
        """
        model = self.model
        # Where the model will be is then decided when it is loaded.
        is_placed = model.device_map is not None or model.quantization is not None
        return self._load(model.device) if self.is_model and not is_placed else None

    def opened(
        self, model: LanguageModel, loaded: LanguageModel | None, console: Console
    ) -> dict[str, Any]:
        """Return the draft as a sampler takes it, with what its calls cost.

        Args:
            model: Of the run.
            loaded: The draft, if it is a model and was loaded; it is loaded here if not.
            console: Told what was measured.

        Raises:
            CdecError: The draft cannot be loaded, or has another vocabulary.
        """
        if not self.is_model:
            return {"draft": self.name}
        from cdec.samplers.drafts.models import require_draft

        draft = self._load(str(model.device)) if loaded is None else loaded
        require_draft(model, draft)
        if not (self.method.is_measured and self.method.uses("cost_ratio")):
            return {"draft": draft}
        ratio = measure_cost_ratio(model, draft)
        console.note(f"a call of the draft costs {ratio:.3g} calls of the model")
        return {"draft": draft, "cost_ratio": ratio}

    def manifest(self) -> dict[str, object]:
        """Return what decides the records, in place of what was typed."""
        if not self.method.uses("draft"):
            return {}
        shown: dict[str, object] = {"draft": self.name}
        if self.is_model:
            options = self.options
            shown |= {"draft_revision": options.draft_revision, "draft_dtype": options.draft_dtype}
        return shown

    def load_counts(self) -> Counts:
        """Return the counts that ``--counts`` names, or new ones.

        Raises:
            CdecError: As ``Counts.load``.
        """
        from cdec.samplers.drafts.counts import Counts

        path = self.method.values.get("counts")
        return Counts.load(path) if path is not None and self.keeps_counts else Counts()

    def save_counts(self, counts: Counts) -> None:
        """Write the counts where ``--save-counts`` names a file.

        Raises:
            OutputError: It cannot be written.
        """
        if self.options.save_counts is not None and self.keeps_counts:
            counts.save(self.options.save_counts)

    def _load(self, device: str) -> LanguageModel:
        """Load a draft model onto a device; its own code is never run.

        Raises:
            ModelError: It cannot be loaded.
            TrustError: It wants to run code, or has pickled weights only.
            UsageError: No such dtype or device.
        """
        from cdec.core import load_model

        name = str(self.name)
        try:
            with named_by("--draft", name):
                return load_model(name, device=device, **self.load_keywords())
        except UsageError as error:
            if self.options.draft_dtype is not None:
                error.message = error.message.replace("`dtype`", "`draft_dtype`")
            raise
        except TrustError as error:
            # The hint names options that are for the model alone.
            raise TrustError(
                error.message,
                hint="Name a draft with .safetensors weights and no code of its own.",
                **error.details,
            ) from error
        except ModelError as error:
            close = get_close_matches(name, (EMBEDDED_DRAFT, *NO_MODELS), n=1)
            if not close:
                raise
            hint = f"did you mean --draft {close[0]}?"
            raise ModelError(error.message, hint=hint, **error.details) from error

    def load_keywords(self) -> dict[str, Any]:
        """Return the keywords of ``load_model`` beside name and device."""
        dtype = self.options.draft_dtype or self.model.dtype
        return {"dtype": dtype, "revision": self.options.draft_revision}

    def _check(self, typed: frozenset[str], *, resumes: bool) -> None:
        """Refuse options without effect, and drafts that are no models where one is needed."""
        name, method = self.name, self.method.declared
        if name == "":
            raise UsageError("--draft is empty", hint="give a name or a path, or leave it out")
        if name == EMBEDDED:
            hint = f"give --draft {EMBEDDED_DRAFT}, which is smaller"
            raise UsageError(f"--draft {name} is a model and no draft", hint=hint)
        if not self.method.uses("draft"):
            refuse_unused(_OF_A_MODEL, typed, f"to --method {method.name}")
        elif name is None:
            refuse_unused(_OF_A_DRAFT, typed, "without --draft")
        elif name in NO_MODELS:
            refuse_unused((*_OF_A_MODEL, "cost_ratio"), typed, f"with --draft {name}")
        else:
            refuse_revision(name, typed, field="draft_revision")
        if name in NO_MODELS and not method.named_drafts:
            raise UsageError(
                f"--draft {name} proposes what was seen before, and --method {method.name} looks "
                "ahead with a model",
                hint="give --draft NAME_OR_PATH, a smaller model of the same vocabulary",
            )
        if self.is_model and self.method.is_measured and resumes:
            raise UsageError(
                "--cost-ratio measure gives another number each time, and --resume continues",
                hint="give the number that the first run told on stderr",
            )

    def _check_counts(self, typed: frozenset[str], *, force: bool) -> None:
        """Refuse counts that nothing is guessed from, and a file that cannot be written.

        Asked before the run: at its end, what was learnt would be lost.
        """
        path = self.options.save_counts
        if not self.keeps_counts:
            refuse_unused(_OF_COUNTS, typed, "without --draft counts")
            return
        if self.method.values["freeze_counts"]:
            refuse_unused(("save_counts",), typed, "with --freeze-counts, which adds nothing")
            if self.method.values["counts"] is None:
                raise UsageError(
                    "--freeze-counts was given without --counts: there is nothing to guess from",
                    hint="give the file that --save-counts wrote, or let counts learn",
                )
        if path is not None:
            folder = path.absolute().parent
            if path.is_dir() or not folder.is_dir():
                why = "it is a folder" if path.is_dir() else f"there is no folder {folder}"
                raise OutputError(
                    f"cannot write the counts to {path}: {why}",
                    hint="create the folder, or name another file with --save-counts",
                    path=str(path),
                )
            begun = self.method.values["counts"]
            goes_on = begun is not None and begun.exists() and path.exists()
            if path.exists() and not force and not (goes_on and path.samefile(begun)):
                raise OutputExistsError(
                    f"{path} exists",
                    hint="go on with it (--counts FILE), replace it (--force), or name another "
                    "file",
                    path=str(path),
                )


def _default(model: ModelOptions, method: ChosenMethod) -> str:
    """Return the embedded draft, which belongs to the embedded model."""
    if named_model(model.model) == EMBEDDED:
        return EMBEDDED_DRAFT
    hint = "give --draft NAME_OR_PATH, a smaller model of the same vocabulary"
    if LOOKUP in method.declared.named_drafts:
        hint += ", or --draft prompt-lookup"
    raise UsageError(
        f"--method {method.declared.name} needs a draft, and {model.model} brings none",
        hint=hint,
    )


def nothing_guessed(guessing: str | None, has_keys: Set[bool]) -> list[Notice]:
    """Return a warning if tokens were to be guessed from counts, and no record had a grammar.

    Args:
        guessing: The option by which tokens are guessed; None where they are not.
        has_keys: Whether records' constraints have what is counted by; empty if nothing was drawn.
    """
    if guessing is None or not has_keys or True in has_keys:
        return []
    message = f"{guessing} guessed nothing: no record has a grammar, whose states are counted"
    return [Notice("W_NOTHING_GUESSED", message)]


_PROMPT = "The quick brown fox jumps over the lazy dog. Then"
_TOKENS = 16
_ROUNDS = 4
"""The first of them is a warm-up."""


def measure_cost_ratio(model: LanguageModel, draft: LanguageModel) -> float:
    """Return greedy tokens a second of ``model`` over those of ``draft``, one text at a time.

    The fastest of a few rounds counts, as what else runs on the machine can only slow them down.
    Cost: 64 tokens of each.

    Raises:
        UsageError: A context has no room for a few tokens more than the fixed prompt.
    """
    prompt = model.encode_prompt(_PROMPT)
    return _seconds_a_token(draft, prompt) / _seconds_a_token(model, prompt)


def _seconds_a_token(model: LanguageModel, prompt: Sequence[int]) -> float:
    spent = []
    for _ in range(_ROUNDS):
        root = model.prefill([list(prompt)])
        try:
            room = model.max_new_tokens(int(root[0]))
            tokens = _TOKENS if room is None else min(_TOKENS, room - 1)
            if tokens < 1:
                raise UsageError(
                    "a model's context is too short to time it",
                    hint="give a number instead of --cost-ratio measure",
                )
            context = root
            # The prompt's own pass is not a token's.
            best = int(model.next_logprobs(context)[0].argmax())
            started = time.perf_counter()
            for _ in range(tokens):
                context = model.advance(context, [best])
                best = int(model.next_logprobs(context)[0].argmax())
            spent.append((time.perf_counter() - started) / tokens)
        finally:
            model.release(root)
    return min(spent[1:])
