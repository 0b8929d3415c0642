"""set_constraint: a list of texts as a constraint, without a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from cdec.compilers.sets.job import SetJob
from cdec.compilers.sets.options import require_texts, resolve_options
from cdec.compilers.sets.report import (
    BadLines,
    LeadingSpace,
    Normalization,
    SetLimits,
    SetReport,
)
from cdec.core.artifacts.kinds import bind_arrays
from cdec.core.artifacts.read import UNNAMED
from cdec.core.artifacts.stored import StoredConstraint

if TYPE_CHECKING:
    from cdec.core.sets.entities import EntityBatch
    from cdec.core.tokens.vocabulary import Vocabulary


def set_constraint(
    texts: Iterable[str | Mapping[str, Any] | EntityBatch],
    vocabulary: Vocabulary,
    *,
    prefix: str = "",
    suffix: str = "",
    leading_space: LeadingSpace = "auto",
    normalize: Normalization = "none",
    deny: Iterable[str] = (),
    bad_lines: BadLines = "error",
    keep_empty: bool = False,
    limits: SetLimits | None = None,
) -> StoredConstraint:
    """Make a constraint of texts, in memory: what ``compile_set`` would write, opened.

        model = load_model("gpt2")
        colours = set_constraint(["red", "green"], model.vocabulary)

    Args:
        texts: Members: strings, or mappings with ``text`` and perhaps ``id``.
        vocabulary: Of the model that will draw, with a tokenizer.
        prefix, suffix, leading_space, normalize, deny, bad_lines, keep_empty, limits: As in
            ``compile_set``.

    Returns:
        The constraint of that vocabulary. Cost: some milliseconds for a small set, as
        ``compile_set`` for a large one.

    Raises:
        CdecError: As ``compile_set``, but for the file.
    """
    require_texts("texts", texts, vocabulary)
    return compiled_set(
        texts,
        vocabulary,
        prefix=prefix,
        suffix=suffix,
        leading_space=leading_space,
        normalize=normalize,
        deny=deny,
        bad_lines=bad_lines,
        keep_empty=keep_empty,
        limits=limits,
    )[0]


def compiled_set(
    texts: Iterable[str | Mapping[str, Any] | EntityBatch],
    vocabulary: Vocabulary,
    *,
    deny: Iterable[str] = (),
    limits: SetLimits | None = None,
    **options: Any,
) -> tuple[StoredConstraint, SetReport]:
    """Return what ``set_constraint`` returns, and the report with its counts and notices.

    Args:
        texts, vocabulary, deny, limits: As in ``set_constraint``.
        options: The others of ``set_constraint``.

    Raises:
        As ``set_constraint``.
    """
    made: list[StoredConstraint] = []

    def bind(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> int:
        made.append(bind_arrays("set", arrays, metadata, vocabulary))
        # The vocabulary's own arrays are shared by all its sets.
        return sum(a.nbytes for name, a in arrays.items() if not name.startswith("vocabulary_"))

    job = SetJob(vocabulary, UNNAMED, resolve_options(vocabulary, **options), limits)
    report = job.run_texts(texts, deny, "", bind)
    return made[0], report
