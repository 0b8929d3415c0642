"""Experiments carried out: checked whole, compiled, drawn cell by cell, evaluated."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from cdec.cli.experiments.compiling import Artifacts
from cdec.cli.experiments.files import model_facts
from cdec.cli.experiments.folder import ExperimentFolder
from cdec.cli.experiments.grid import Cell, cells_of
from cdec.cli.experiments.recipe import Recipe
from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import deciding, options_from
from cdec.cli.frame.progress import plural
from cdec.cli.options.engine import check_engine
from cdec.cli.options.evaluation import EvaluationOptions
from cdec.cli.options.sampling import SampleOptions
from cdec.cli.runs.evaluation import evaluated, evaluation_settings
from cdec.cli.runs.files import require_input
from cdec.cli.runs.method import refuse_code
from cdec.cli.runs.models import KeptModels, model_key
from cdec.cli.runs.output import inputs
from cdec.cli.runs.tokenizer import named_model
from cdec.core.errors import ConfigError, UsageError
from cdec.core.files.remote import is_url
from cdec.core.files.whole import whole_file
from cdec.data.prompts.places import input_files
from cdec.data.rows.dataset import files_of

if TYPE_CHECKING:
    from cdec.cli.runs.plan import Plan
    from cdec.data.metrics.evaluation import Evaluation


@dataclass(frozen=True)
class PlannedCell:
    """A cell whose options make sense.

    Attributes:
        cell: Of the grid.
        options: Of its ``cdec sample``.
        config: What of them decides the samples, by name.
        draft: Its draft model; None for none.
    """

    cell: Cell
    options: SampleOptions
    config: Mapping[str, Any]
    draft: str | None


@dataclass(frozen=True)
class Experiment:
    """A recipe with an output folder, and what was typed beside it.

    Attributes:
        recipe: What to do.
        folder: Where everything goes.
        typed: Options of ``cdec sample`` that stood on the command line, by name.
        hook: A metric of the user's own, typed; None for none.
        force: Whether all is drawn anew.
    """

    recipe: Recipe
    folder: ExperimentFolder
    typed: Mapping[str, Any] = field(default_factory=dict)
    hook: str | None = None
    force: bool = False

    def evaluation(self, cells: Collection[str]) -> EvaluationOptions:
        """Return the options of the evaluation; a cell that is the target stands for its file."""
        given = {**self.recipe.evaluation, "hook": self.hook}
        target = given.get("target")
        if target is not None and target in cells:
            given["target"] = str(self.folder.samples(target))
        return options_from(EvaluationOptions, given)

    def planned(self) -> list[PlannedCell]:
        """Check everything that can be checked before something is written or loaded.

        Raises:
            CdecError: The recipe, or options of a cell, make no sense, or a file is not there.
        """
        cells = cells_of(self.recipe, self.typed)
        evaluation_settings(self.evaluation(()))
        artifacts = self.artifacts(cells)
        artifacts.require_sources()
        found = [self._planned(cell, artifacts) for cell in cells]
        for file in [*self._prompts(found), *self._references(found)]:
            require_input(file)
        return found

    def artifacts(self, cells: Iterable[Cell]) -> Artifacts:
        """Return the artifacts that cells need."""
        return Artifacts.of(self.recipe.artifacts, cells, self.folder)

    def _planned(self, cell: Cell, artifacts: Artifacts) -> PlannedCell:
        from cdec.cli.runs.plan import Plan

        is_dealt = cell.values.get("engine") == "ray"
        output = self.folder.parts(cell.name) if is_dealt else self.folder.samples(cell.name)
        try:
            options = cell.options(artifacts.files(cell.tokenizer), output)
            refuse_code(options.methods.given, frozenset(self.typed), self.recipe.path)
            check_engine(options.dealing, cell.own)
            _check_parts(options)
            plan = Plan.of(options, cell.own)
        except UsageError as error:
            raise ConfigError(
                f"{self.recipe.path}: {cell.name}: {error.message}", hint=error.hint
            ) from error
        if "-" in options.prompts.read:
            raise ConfigError(
                f"{self.recipe.path}: {cell.name}: no prompts are named",
                hint='write for example input = "prompts.jsonl" below [sample]',
                key="input",
            )
        draft = plan.draft.name if plan.draft.is_model else None
        return PlannedCell(cell, options, _config(plan, self.folder.path), draft)

    def _prompts(self, planned: Iterable[PlannedCell]) -> list[str]:
        """Return the files that cells read, artifacts left out."""
        found: dict[str, None] = {}
        for each in planned:
            prompts = each.options.prompts
            others = [file for file in inputs(each.options) if file not in prompts.streams]
            found |= dict.fromkeys(file.source for file in input_files(prompts.streams))
            found |= dict.fromkeys(file for file in others if not file.endswith(".arrow"))
        return list(found)

    def _references(self, planned: Iterable[PlannedCell]) -> list[str]:
        """Return the files that the evaluation reads beside samples."""
        given = self.recipe.evaluation
        cells = {each.cell.name for each in planned}
        named = {given.get("references"), given.get("target")}
        return [str(file) for file in named - cells if file is not None]

    def carry_out(self, planned: Sequence[PlannedCell], run: Run) -> tuple[Evaluation, int]:
        """Compile what is missing or stale, draw what is missing, and evaluate all.

        Args:
            planned: As ``planned`` returns it.
            run: Told of progress; its signals end the experiment.

        Returns:
            The evaluation, and the exit status: 3 where records failed.

        Raises:
            CdecError: As the commands that are carried out; the manifest says what is there.
        """
        done: list[str] = []
        count = plural(len(planned), "cells")
        words = shlex.join(["cdec", *(word for word in run.words if word != "--force")])
        run.kept = lambda: (
            f"{len(done)} of {count} are finished in {self.folder.path}; go on with:\n  {words}"
        )
        held = self.folder.held(force=self.force)
        try:
            digests = self.artifacts(each.cell for each in planned).compile(run)
            config = self._config(planned, digests)
            if changed := self.folder.begin(config, self.recipe.data, force=self.force):
                run.console.note(f"the experiment is not what it was: {changed}")
            status, kept = 0, _ModelsInTurn()
            for each in planned:
                name = each.cell.name
                run.console.note(f"cell {len(done) + 1} of {len(planned)}: {name}")
                status = max(status, self._draw(each, run, kept.of(each.options)))
                done.append(name)
            found = self._evaluated(done, run)
            # subtle: what is on the hub only is not known before it is fetched.
            self.folder.write(config | {"models": _models(planned)}, {"cells": len(done)})
            return found, status
        finally:
            held.close()

    def _draw(self, each: PlannedCell, run: Run, kept: KeptModels) -> int:
        """Carry one cell out; one whose samples are all there is left as it is."""
        own = Run(run.signals, run.console, run.words, each.cell.own)
        if each.options.dealing.engine == "ray":
            from cdec.cli.runs.parts import sample_parts

            status = sample_parts(each.options, own)
            self.folder.join_parts(each.cell.name)
        else:
            from cdec.cli.runs.sample import sample

            status = sample(each.options, own, kept)
        if summary := own.summary():
            run.console.note(summary)
        return status

    def _evaluated(self, cells: Sequence[str], run: Run) -> Evaluation:
        """Evaluate the samples of cells, but of the one that they are held against."""
        options = self.evaluation(cells)
        files = [str(self.folder.samples(name)) for name in cells]
        found = evaluated([file for file in files if file != options.target], options, run)
        with whole_file(self.folder.evaluation, force=True) as out:
            out.write(orjson.dumps(found.to_json(), option=orjson.OPT_APPEND_NEWLINE))
        return found

    def _config(self, planned: Sequence[PlannedCell], digests: Mapping[str, str]) -> dict[str, Any]:
        """Return what the manifest says of the experiment."""
        return {
            "recipe": hashlib.sha256(self.recipe.data).hexdigest(),
            "artifacts": dict(digests),
            "files": self._hashes(self._prompts(planned)),
            "models": _models(planned),
            "cells": {each.cell.name: dict(each.config) for each in planned},
            "evaluation": {
                "options": {**self.recipe.evaluation, "hook": self.hook},
                "files": self._hashes(self._references(planned)),
            },
        }

    def _hashes(self, files: Iterable[str]) -> dict[str, str]:
        """Return SHA-256 of files of this machine, by their places seen from the recipe."""
        home = self.recipe.path.parent
        return {os.path.relpath(file, home): _hash(file) for file in files if not is_url(file)}


def _models(planned: Iterable[PlannedCell]) -> dict[str, Mapping[str, str]]:
    """Return what is known of the models of cells, by name."""
    models: set[tuple[str, str | None]] = set()
    for each in planned:
        loading, methods = each.options.loading, each.options.methods
        models.add((named_model(loading.model), loading.revision))
        if each.draft is not None:
            models.add((each.draft, methods.draft_revision))
    found = {name: model_facts(name, revision) for name, revision in sorted(models, key=str)}
    return {name: facts for name, facts in found.items() if facts}


@dataclass
class _ModelsInTurn:
    """The models that cells share: of those that stand together, and no longer."""

    key: str = ""
    kept: KeptModels = field(default_factory=KeptModels)

    def of(self, options: SampleOptions) -> KeptModels:
        """Return what is kept for a cell."""
        key = model_key(options.loading)
        if key != self.key:
            self.kept.clear()
            self.key = key
        return self.kept


def _check_parts(options: SampleOptions) -> None:
    """Refuse workers that are not to be had, and part files that cannot be joined.

    Raises:
        ExtraMissingError: Ray is not installed.
        UsageError: Part files are tables.
    """
    if options.dealing.engine == "local":
        return
    from cdec.integrations.ray.cluster import ray_library

    ray_library()
    if options.dealing.part_format != "jsonl":
        raise UsageError(
            f"--part-format is {options.dealing.part_format}, and the samples of an experiment are "
            "lines of JSON",
            hint="leave it out",
        )


def _config(plan: Plan, home: Path) -> dict[str, Any]:
    """Return what decides the samples of a cell, beside the content of files.

    Args:
        plan: Of the cell.
        home: The folder to which places are relative: experiments are moved as a whole.
    """
    options, places = plan.options, plan.places
    held = {**places.named, **places.others, **places.sets}
    named = {
        name: os.path.relpath(place, home) if isinstance(place, Path) else str(place)
        for name, place in held.items()
    }
    return {
        **plan.method.manifest(),
        **plan.draft.manifest(),
        **deciding(options),
        "model": named_model(options.loading.model),
        "constraint": dict(sorted(named.items())),
    }


def _hash(source: str) -> str:
    """Return SHA-256 of the files of a source."""
    digest = hashlib.sha256()
    for path in files_of(source):
        with Path(str(path)).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
