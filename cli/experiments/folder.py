"""Output folder of an experiment: samples, artifacts, evaluation, and the manifest of all."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cdec.core.errors import OutputError, OutputExistsError, ResumeMismatchError
from cdec.core.files.whole import whole_file
from cdec.data.output.manifest import manifest_config, manifest_path, write_manifest
from cdec.data.output.staged import Folder as HeldFolder
from cdec.data.output.staged import locked_folder

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
_WORDS = {"artifacts": "the artifact", "files": "the content of", "models": "the model"}
"""Entries of the manifest that decide samples whatever the cell, as messages call them."""


@dataclass(frozen=True)
class ExperimentFolder:
    """The folder that an experiment writes to, and nowhere else.

    Attributes:
        path: The folder.
    """

    path: Path

    @property
    def evaluation(self) -> Path:
        """The evaluation of all cells, as ``cdec eval --json`` prints it."""
        return self.path / "evaluation.json"

    @property
    def _recipe(self) -> Path:
        return self.path / "recipe.toml"

    def samples(self, cell: str) -> Path:
        """Return the file of the samples of a cell."""
        return self.path / "samples" / f"{cell}.jsonl"

    def parts(self, cell: str) -> Path:
        """Return the folder of the part files of a cell that workers draw."""
        return self.path / "parts" / cell

    def join_parts(self, cell: str) -> None:
        """Write the samples of a cell from its part files, in the order of their names."""
        files = sorted(self.parts(cell).glob("[!.]*.jsonl"))
        with whole_file(self.samples(cell), force=True) as out:
            for path in files:
                with path.open("rb") as part:
                    shutil.copyfileobj(part, out)

    def artifact(self, name: str, number: int) -> Path:
        """Return the file of an artifact; ``number`` counts the tokenizers from 0."""
        return (
            self.path / "artifacts" / (f"{name}-{number + 1}.arrow" if number else f"{name}.arrow")
        )

    def held(self, *, force: bool) -> HeldFolder:
        """Make the folder, or take the one that an experiment made, for this process alone.

        Args:
            force: Whether what is there may be something else's.

        Raises:
            OutputExistsError: It is no folder, or holds what no experiment wrote.
            LockedError: Another process writes it.
            OutputError: It cannot be made.
        """
        if self.path.exists() and not self.path.is_dir():
            raise OutputExistsError(f"{self.path} is no folder", hint="name another with -o")
        is_ours = manifest_path(self._recipe).is_file()
        if self.path.is_dir() and not is_ours and not force and any(self.path.iterdir()):
            raise OutputExistsError(
                f"{self.path} holds files that no experiment wrote",
                hint="name another folder with -o, or write into this one with --force",
                path=str(self.path),
            )
        try:
            for name in ("samples", "artifacts", "parts"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
            return locked_folder(self.path, self.path)
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be made: {error.strerror or error}",
                hint="name another folder with -o",
                path=str(self.path),
            ) from error

    def begin(self, config: Mapping[str, Any], recipe: bytes, *, force: bool) -> str:
        """Compare the experiment with the one that wrote what is there, and write the manifest.

        Args:
            config: ``artifacts``, ``files`` and ``models``, hashes by name; ``cells``, options by
                name; ``evaluation``.
            recipe: Bytes of the recipe, kept beside; none where it was typed.
            force: Whether all is drawn anew.

        Returns:
            What changed and changes no sample that is there, for people; empty for nothing.

        Raises:
            ResumeMismatchError: Something that decides samples that are there has changed.
        """
        changed = ""
        if force:
            for name in config["cells"]:
                for file in (path := self.samples(name), manifest_path(path)):
                    file.unlink(missing_ok=True)
                shutil.rmtree(self.parts(name), ignore_errors=True)
        elif manifest_path(self._recipe).is_file():
            then = manifest_config(self._recipe)
            self._require_same(then, config)
            changed = _changed(then, config)
        if recipe:
            with whole_file(self._recipe, force=True) as out:
                out.write(recipe)
        self.write(config)
        return changed

    def write(self, config: Mapping[str, Any], done: Mapping[str, object] | None = None) -> None:
        """Write the manifest, with what became of the cells where all are ``done``."""
        versions = {name: _version(name) for name in _LIBRARIES}
        told = {**config, "versions": {"python": platform.python_version(), **versions}}
        write_manifest(self._recipe, told, done=done)

    def _require_same(self, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        found = [
            f"{_WORDS[kind]} {name}"
            for kind in _WORDS
            for name in _differing(then.get(kind, {}), now[kind])
        ]
        before = then.get("cells", {})
        for cell in _differing(before, now["cells"]):
            was, is_now = before[cell], now["cells"][cell]
            found += [
                f"{option} of {cell} was {was.get(option)!r}, is {is_now.get(option)!r}"
                for option in sorted({*was, *is_now})
                if was.get(option) != is_now.get(option)
            ]
        if not found:
            return
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise ResumeMismatchError(
            f"{self.path} was drawn with another experiment; changed: "
            f"{', '.join(found[:_SHOWN])}{more}",
            hint="name another folder with -o, or draw all anew with --force",
            path=str(self.path),
            differing=found,
        )


_SHOWN = 4


def _differing(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names that both have and that do not stand for the same."""
    return [name for name in sorted(then.keys() & now.keys()) if then[name] != now[name]]


def _changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return what changed beside."""
    cells, before = now["cells"].keys(), then.get("cells", {}).keys()
    told = [f"new: {', '.join(sorted(cells - before))}"] if cells - before else []
    told += [f"gone: {', '.join(sorted(before - cells))}"] if before - cells else []
    told += ["the evaluation"] if then.get("evaluation") != now["evaluation"] else []
    return "; ".join(told)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
