"""Loads the draft model of a run: before the model where its device is known, else beside it."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from cdec.cli.options.names import in_typed_words, named_by
from cdec.cli.runs.models import EMBEDDED
from cdec.core.errors import ModelError, TrustError

if TYPE_CHECKING:
    from cdec.cli.sample import Options
    from cdec.core.models.base import LanguageModel

COUNTS = "counts"
NO_MODELS = (COUNTS, "prompt-lookup")
"""Drafts that are no models."""


def device_of(options: Options) -> str | None:
    """Return the device that the model will be on; None where loading it decides."""
    is_placed = options.device_map is not None or options.quantization is not None
    return None if is_placed else options.device


def open_draft(options: Options, name: str, device: str) -> LanguageModel:
    """Load the draft onto a device; its own code is never run.

    Raises:
        ModelError: It cannot be loaded.
        TrustError: It wants to run code, or has pickled weights only.
        UsageError: No such dtype or device.
    """
    from cdec.core import load_model
    from cdec.data.assets import embedded_model_path

    words = {"dtype": "--dtype" if options.draft_dtype is None else "--draft-dtype"}
    try:
        with in_typed_words(words), named_by("--draft", name):
            return load_model(
                embedded_model_path("draft") if name == EMBEDDED else name,
                device=device,
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
        close = get_close_matches(name, (EMBEDDED, *NO_MODELS), n=1)
        if not close:
            raise
        hint = f"did you mean --draft {close[0]}?"
        raise ModelError(error.message, hint=hint, **error.details) from error
