"""Artifacts of an experiment: compiled by their commands where they are missing or stale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.experiments.recipe import ArtifactSource
from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import options_from, parameters_of
from cdec.cli.frame.registry import execute_of, options_class_of
from cdec.cli.runs.files import require_input
from cdec.core.errors import OutputExistsError
from cdec.data.assets import grammar_names

if TYPE_CHECKING:
    from cdec.cli.experiments.folder import ExperimentFolder
    from cdec.cli.experiments.grid import Cell

Tokenizer = tuple[str | None, str | None]
"""A model and its revision."""


@dataclass(frozen=True)
class Artifacts:
    """The artifacts of a recipe, one for each tokenizer of its cells.

    Attributes:
        sources: By name.
        tokenizers: In the order of the cells.
        folder: Where they go.
    """

    sources: Mapping[str, ArtifactSource]
    tokenizers: Sequence[Tokenizer]
    folder: ExperimentFolder

    @classmethod
    def of(
        cls, sources: Mapping[str, ArtifactSource], cells: Iterable[Cell], folder: ExperimentFolder
    ) -> Artifacts:
        """Return those that cells need."""
        tokenizers = dict.fromkeys(cell.tokenizer for cell in cells)
        return cls(sources, list(tokenizers), folder)

    def files(self, tokenizer: Tokenizer) -> dict[str, Path]:
        """Return the files for one tokenizer, by name."""
        number = self.tokenizers.index(tokenizer)
        return {name: self.folder.artifact(name, number) for name in self.sources}

    def require_sources(self) -> None:
        """Refuse sources that are not there.

        Raises:
            InputMissingError: One is missing.
        """
        for source in self.sources.values():
            for option in parameters_of(options_class_of(source.command)).values():
                if not option.metavar.startswith("FILE") or option.name not in source.values:
                    continue
                value = source.values[option.name]
                for file in value if isinstance(value, list) else [value]:
                    if str(file) not in grammar_names():
                        require_input(str(file))

    def compile(self, run: Run) -> dict[str, str]:
        """Compile what is missing or stale; return the digests of all by the names of their files.

        Raises:
            CdecError: As the commands.
        """
        from cdec.core.artifacts.read import peek_metadata

        digests: dict[str, str] = {}
        for tokenizer in self.tokenizers:
            for name, file in self.files(tokenizer).items():
                source = self.sources[name]
                try:
                    _compile(source, file, tokenizer, run, force=False)
                except OutputExistsError as error:
                    run.console.note(f"stale: {error.message}")
                    _compile(source, file, tokenizer, run, force=True)
                digests[file.name] = peek_metadata(file).get("cdec.digest", "")
        return digests


def _compile(
    source: ArtifactSource, file: Path, tokenizer: Tokenizer, run: Run, *, force: bool
) -> None:
    """Carry a compile command out, which leaves an artifact that is up to date as it is."""
    model, revision = tokenizer
    own: dict[str, Any] = {"output": file, "model": model, "revision": revision}
    own |= {"force": force, "quiet": True}
    options = options_from(options_class_of(source.command), {**source.values, **own})
    typed = frozenset(source.values)
    execute_of(source.command)(options, Run(run.signals, run.console, run.words, typed))
