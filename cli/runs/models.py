"""The model that options name, and how its distribution is warped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cdec.cli.options.shared import require_utf8
from cdec.cli.runs.tokenizer import named_by, named_model
from cdec.core.errors import FieldError, UsageError
from cdec.core.lazy import uncollected
from cdec.core.tokens.locations import is_shipped

if TYPE_CHECKING:
    from cdec.cli.options.model import ModelOptions, WarpingOptions
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.models.warping import Warping
    from cdec.core.run_clock import RunClock

ModelT = TypeVar("ModelT")
_NEARLY_GREEDY = (
    "give a small one such as 0.01, which leaves nearly all mass to the most probable tokens"
)


def open_model(options: ModelOptions) -> LanguageModel:
    """Load the model that the options name.

    Raises:
        ModelError: It cannot be had.
        ChatTemplateMissingError: ``--chat``, and it has no chat template.
        UsageError: ``--chat`` and ``--raw``.
    """
    from cdec.core import load_model

    if options.chat and options.raw:
        raise UsageError("--chat and --raw were both given", hint="give one of them")
    with uncollected(), named_by("--model", options.model):
        return load_model(named_model(options.model), **load_keywords(options))


def model_key(options: ModelOptions) -> str:
    """Return what is equal where options name the same model, loaded in the same way."""
    return repr((named_model(options.model), sorted(load_keywords(options).items())))


class KeptModels:
    """Models of the runs of one process: one that asks for what was loaded before gets the same."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}

    def get(self, key: str, load: Callable[[], ModelT]) -> ModelT:
        """Return what ``key`` stands for, loaded at the first call."""
        if key not in self._found:
            self._found[key] = load()
        found: ModelT = self._found[key]
        return found

    def clear(self) -> None:
        """Let go of all."""
        self._found.clear()


def open_timed(options: ModelOptions, clock: RunClock) -> LanguageModel:
    """Load the model that the options name, as ``open_model``, its time counted by a clock."""
    model = open_model(options)
    from cdec.core.timed import timed

    return timed(model, clock)


def parse_template_args(text: str | None) -> dict[str, Any] | None:
    """Return what ``--template-args`` tells chat templates; None for nothing.

    Raises:
        UsageError: It is no object of JSON, or has what no template is told.
    """
    if text is None:
        return None
    from cdec.core.models.chat_templates import require_arguments

    try:
        value = json.loads(require_utf8(text, "--template-args"))
    except ValueError as error:
        raise UsageError(
            f"--template-args is no JSON: {error}",
            hint="write for example --template-args '{\"enable_thinking\": false}'",
        ) from error
    if not isinstance(value, dict):
        raise UsageError(
            "--template-args is no object", hint="write names and values between braces"
        )
    try:
        require_arguments(value, "--template-args")
    except FieldError as error:
        raise UsageError(error.message, hint=error.hint) from None
    return value


_OF_LOADING = (
    *("device", "dtype", "device_map", "attn_implementation", "revision"),
    *("trust_remote_code", "allow_pickle", "quantization", "allow_special", "compile"),
)


def load_keywords(options: ModelOptions) -> dict[str, Any]:
    """Return the keywords of ``load_model`` beside the name."""
    chat = True if options.chat else False if options.raw else None
    given = {name: getattr(options, name) for name in _OF_LOADING}
    told = {"template_args": parse_template_args(options.template_args)}
    return {**given, **told, "chat": chat, "prefix_cache_bytes": options.prefix_cache << 20}


def refuse_revision(name: str | None, typed: frozenset[str], *, field: str = "revision") -> None:
    """Refuse to choose a version of what has only one: the embedded models, and folders.

    Args:
        name: The model, as typed.
        typed: Fields that stood on the command line; what ``cdec.toml`` says is for other models.
        field: The option's field.
    """
    if field not in typed:
        return
    name = named_model(name)
    if is_shipped(name) or Path(name).expanduser().exists():
        found = f"{name}, which {'ships with cdec' if is_shipped(name) else 'is on this machine'},"
        flag = "--" + field.replace("_", "-")
        raise UsageError(
            f"{flag} chooses a version on the hub, and {found} has one version",
            hint=f"leave {flag} out, or name a model on the hub",
        )


def check_warping(options: WarpingOptions, *, instead: str = _NEARLY_GREEDY) -> None:
    """Refuse a distribution that the model would refuse, in the words that were typed.

    Args:
        options: As typed.
        instead: What to give in the place of a temperature of 0.
    """
    if options.temperature == 0:
        raise UsageError("--temperature is 0, which gives no distribution", hint=instead)
    try:
        warping_of(options)
    except UsageError as error:
        error.hint = error.hint or "leave it out for the model's own distribution"
        raise


def warping_of(options: WarpingOptions) -> Warping:
    """Return how the options warp the model's distribution."""
    # Imports numpy, which no help needs.
    from cdec.core.models.warping import Warping

    return Warping(options.temperature, options.top_k, options.top_p)
