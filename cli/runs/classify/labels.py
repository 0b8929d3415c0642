"""Where the labels of a run come from: typed, a file, an artifact, or the records themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.options.shared import refuse_unused, require_utf8
from cdec.cli.runs.artifacts import ArtifactPaths
from cdec.cli.runs.found import artifact_for_records
from cdec.cli.runs.inputs import require_input
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.classifying import ClassifyOptions as Options
    from cdec.core.artifacts.stored import StoredConstraint
    from cdec.core.errors import Notice
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.prompts.record import BadRecord, PromptRecord

_WAYS = (
    "give --labels A,B,..., a file of labels, -a ARTIFACT, or candidates in the records (with "
    "commas in them, labels go into a file, one a line)"
)
_ARTIFACT = ".arrow"
_OF_TEXTS = ("field", "id_field", "suffix", "leading_space")


@dataclass(frozen=True)
class Labels:
    """The labels of the records that bring none.

    Attributes:
        entities: Texts, or batches of a file's; None where they are an artifact's, or there are
            none.
        options: Of the run, with the artifact that was named in the place of a file.
    """

    entities: Sequence[Any] | None
    options: Options

    @classmethod
    def of(cls, options: Options, run: Run) -> Labels:
        """Read what was typed.

        Raises:
            UsageError: Labels from two places, or an empty one.
            CdecError: The file cannot be read.
        """
        options = _one_source(options, run)
        file = options.label_file
        if options.labels is not None:
            refuse_unused(("field", "id_field"), run.typed, "with --labels")
            return cls(_typed(options.labels), options)
        if file is not None and not file.endswith(_ARTIFACT):
            return cls(_read(options, file), options)
        refuse_unused(_OF_TEXTS, run.typed, "without labels given as texts")
        if file is not None:
            options = replace(options, artifact=Path(file))
        return cls(None, options)

    def paths(
        self, records: Iterator[PromptRecord | BadRecord], run: Run
    ) -> tuple[Iterator[PromptRecord | BadRecord], ArtifactPaths]:
        """Return the records, and the artifacts of the run.

        Raises:
            UsageError: There are no labels anywhere.
        """
        options = self.options
        paths = ArtifactPaths.of(options.artifact, options)
        if self.entities is None and not paths.named:
            try:
                records, artifact = artifact_for_records(records, run, "cdec classify")
            except UsageError as error:
                error.message = error.message.replace("needs an artifact", "needs labels", 1)
                error.hint = _WAYS
                raise
            paths = ArtifactPaths.of(artifact, options)
        return records, paths

    def compiled(self, vocabulary: Vocabulary) -> tuple[StoredConstraint | None, Sequence[Notice]]:
        """Return the set of the labels that were given as texts, and its warnings.

        Raises:
            CdecError: There are none, or one cannot be tokenised.
        """
        if self.entities is None:
            return None, ()
        from cdec.compilers.sets.constraint import compiled_set

        options = self.options
        suffix = require_utf8(options.suffix, "--suffix")
        constraint, report = compiled_set(
            self.entities, vocabulary, suffix=suffix, leading_space=options.leading_space
        )
        return constraint, report.notices


def _one_source(options: Options, run: Run) -> Options:
    """Return the options with labels from one place: what was typed before what cdec.toml says.

    Raises:
        UsageError: Two were typed.
    """
    given = {"label_file": options.label_file, "labels": options.labels}
    given["artifact"] = None if options.artifact is None else str(options.artifact)
    names = [name for name, value in given.items() if value is not None]
    typed = [name for name in names if name in run.typed]
    if len(typed) > 1:
        words = {"label_file": "LABELS", "labels": "--labels", "artifact": "-a"}
        raise UsageError(
            f"labels come from {' and '.join(words[name] for name in typed)}",
            hint="give one of them",
        )
    chosen = (typed or names)[:1]
    dropped: dict[str, Any] = {name: None for name in names if name not in chosen}
    return replace(options, **dropped)


def _typed(text: str) -> list[str]:
    """Return the labels of ``--labels``; spaces around them are not theirs."""
    labels = [label.strip() for label in require_utf8(text, "--labels").split(",")]
    if not all(labels):
        raise UsageError(
            f"--labels is {text!r}, which has an empty label",
            hint="write for example --labels red,green",
        )
    return labels


def _read(options: Options, file: str) -> list[Any]:
    """Return the entities of a file, read whole: so they are refused before a model loads."""
    from cdec.data.entities.source import read_entities

    if file == "-" and "-" in options.input and not options.has_texts:
        raise UsageError("labels and prompts both come from stdin", hint="name one of the files")
    require_input(file)
    return list(read_entities(file, field=options.field, id_field=options.id_field))
