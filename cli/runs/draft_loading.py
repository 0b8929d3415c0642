"""Loads the draft model of a run: before the model where its device is known, else beside it."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from cdec.cli.options.names import in_typed_words, named_by
from cdec.cli.options.shared import refuse_unused
from cdec.cli.runs.models import EMBEDDED
from cdec.core.errors import ModelError, OutputError, OutputExistsError, TrustError

if TYPE_CHECKING:
    from cdec.cli.options.sampling import SampleOptions as Options
    from cdec.core.models.base import LanguageModel
    from cdec.samplers.drafts.counts import Counts

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


def check_speculation(options: Options, typed: frozenset[str], *, guesses: bool) -> None:
    """Refuse options that mean nothing without speculation, and a file that cannot be written.

    Args:
        options: All options.
        typed: Fields that stood on the command line.
        guesses: Whether tokens are guessed from counts.

    Raises:
        UsageError: One was typed and nothing is guessed.
        OutputError: ``--save-counts`` names a folder, or a place in one that is not there.
        OutputExistsError: It names a file that the run does not begin with.
    """
    if not guesses:
        fields = ("speculate_threshold", "counts", "save_counts")
        refuse_unused(fields, typed, "without --speculate S or --draft counts")
    path = options.save_counts
    if not guesses or path is None:
        return
    # Asked before the run: at its end, what was learnt would be lost.
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {folder}"
        raise OutputError(
            f"cannot write the counts to {path}: {why}",
            hint="create the folder, or name another file with --save-counts",
            path=str(path),
        )
    if not path.exists() or options.force:
        return
    begun = options.counts
    if begun is None or not begun.exists() or not path.samefile(begun):
        raise OutputExistsError(
            f"{path} exists",
            hint="go on with it (--counts FILE), replace it (--force), or name another file",
            path=str(path),
        )


def load_counts(options: Options, *, guesses: bool) -> Counts:
    """Return the counts that ``--counts`` names, or new ones; ``guesses`` says if they are used.

    Raises:
        CdecError: As ``Counts.load``.
    """
    from cdec.samplers.drafts.counts import Counts

    if options.counts is None or not guesses:
        return Counts()
    return Counts.load(options.counts)


def save_counts(options: Options, counts: Counts, *, guesses: bool) -> None:
    """Write the counts where ``--save-counts`` names a file, if there are ``guesses``.

    Raises:
        OutputError: It cannot be written.
    """
    if options.save_counts is not None and guesses:
        counts.save(options.save_counts)
