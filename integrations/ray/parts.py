"""Part files: which there are, which are done, and how one comes to be whole or not at all.

An output folder holds a part file and its manifest for every part that is done:

    samples/part-00000.jsonl
    samples/part-00000.jsonl.manifest.json

A part file has its name from when it is whole; what a killed worker leaves begins with a dot and
ends in ``.partial.jsonl``, and goes when that part is begun again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cdec.core.errors import (
    LockedError,
    OutputError,
    OutputExistsError,
    UsageError,
)
from cdec.core.files.remote import Place
from cdec.data.ids import id_key
from cdec.data.output.manifest import check_manifest, manifest_done, manifest_path, write_manifest
from cdec.data.output.writer import open_writer, records_path
from cdec.integrations.records.counts import Counts

if TYPE_CHECKING:
    from cdec.data.output.lines import RecordWriter
    from cdec.data.output.staged import StagedWriter
    from cdec.data.prompts.places import InputFile
    from cdec.data.prompts.record import BadRecord, PromptRecord

PartFormat = Literal["jsonl", "parquet"]
_SUFFIXES = re.compile(
    r"(\.(jsonl|ndjson|json|txt|csv|tsv|parquet|pq|arrow|feather))?(\.(gz|xz|zst|bz2|lz4))?$",
    re.IGNORECASE,
)
_RANDOM_BYTES = 6
_LOCK = ".lock"


@dataclass(frozen=True)
class Part:
    """Some records of a run, which are done by one worker and written to one file.

    Attributes:
        name: Of its part file, without suffix.
        facts: What tells its records from others, for the manifest.
        source: The file or URL that holds them; None where they are given.
        records: The records, checked, where they are given.
    """

    name: str
    facts: Mapping[str, object]
    source: str | None = None
    records: Sequence[PromptRecord | BadRecord] = ()


def parts_of_files(files: Iterable[InputFile]) -> list[Part]:
    """Return a part for each file, in their order.

    Raises:
        UsageError: Two files differ in their folders or suffixes alone.
    """
    parts: dict[str, Part] = {}
    for file in files:
        name = _SUFFIXES.sub("", file.name)
        if name in parts:
            raise UsageError(
                f"{file.source} and {parts[name].source} would both become {name} of the output",
                hint="give the part files names that differ before the suffix",
            )
        facts = {"input": file.name, "bytes": file.bytes}
        parts[name] = Part(name, facts, source=file.source)
    return list(parts.values())


def parts_of_records(records: Iterator[PromptRecord | BadRecord], size: int) -> Iterator[Part]:
    """Cut records into parts of ``size``, in their order; ids stand as they are.

    Args:
        records: Checked, with their ids.
        size: Records a part, at least 1.
    """
    held: list[PromptRecord | BadRecord] = []
    number = 0
    for record in records:
        held.append(record)
        if len(held) == size:
            yield _given(number, held)
            held, number = [], number + 1
    if held:
        yield _given(number, held)


def _given(number: int, records: list[PromptRecord | BadRecord]) -> Part:
    digest = hashlib.blake2b(digest_size=16)
    for record in records:
        digest.update(id_key(record.id))
    facts = {"records": len(records), "ids": digest.hexdigest()}
    return Part(f"part-{number:05d}", facts, records=records)


@dataclass(frozen=True)
class PartFolder:
    """Folder of the part files of a run.

    Attributes:
        path: The folder; by URL it is a ``FarPartFolder``.
        format: Of the part files.
        config: All that decides what the records of any part are.
        fields: Of the records; None for all. Columns of Parquet go by them.
    """

    path: Place
    format: PartFormat
    config: Mapping[str, object] = field(default_factory=dict)
    fields: Sequence[str] | None = None

    def file(self, part: Part) -> Path:
        """Return where the records of a part go."""
        return self._named(part.name)

    def names(self) -> frozenset[str]:
        """Return the names of the parts that are there, as one look at the folder has them."""
        return self._parts_among(path.name for path in Path(self.path).iterdir())

    def finished(self, part: Part) -> Counts | None:
        """Return what became of a part that is done; None for one that is not.

        Raises:
            ResumeMismatchError: It was done with another configuration, or of other records.
        """
        path = self.file(part)
        if not path.exists():
            return None
        check_manifest(path, self._config(part))
        return Counts.from_json(manifest_done(path))

    @contextmanager
    def writing(self, part: Part, counts: Counts) -> Iterator[RecordWriter | StagedWriter]:
        """Give a writer of the records of a part; they have their name when the block has ended.

        Args:
            part: To be written; what is there of it is replaced.
            counts: Of its records, full when the block ends.

        Raises:
            OutputError: The file cannot be written.
        """
        path = self.file(part)
        self._sweep(path)
        hidden = path.with_name(
            f".{path.stem}.{secrets.token_hex(_RANDOM_BYTES)}.partial{path.suffix}"
        )
        try:
            with open_writer(hidden, fields=self.fields, is_part=True) as writer:
                yield writer
            write_manifest(path, self._config(part), done=counts.to_json())
            # From here on the part is done: its manifest is there already.
            _publish(hidden, path)
        finally:
            _remove(hidden)
            _remove(records_path(hidden))

    def prepare(self, *, force: bool, resume: bool) -> None:
        """Make the folder; refuse one that holds something already, or empty it.

        Args:
            force: Remove the part files there with their manifests.
            resume: Leave them.

        Raises:
            OutputExistsError: It holds part files, and neither is on.
            OutputError: It cannot be made.
        """
        try:
            folder = Path(self.path)
            folder.mkdir(parents=True, exist_ok=True)
            there = [path for path in folder.iterdir() if manifest_path(path).exists()]
        except OSError as error:
            raise OutputError(
                f"cannot write to the folder {self.path}: {error.strerror}",
                hint="name a folder that can be made, or written to",
                path=str(self.path),
            ) from error
        self._refuse_existing([path.name for path in there], force=force, resume=resume)
        if force:
            # The records before their manifest, which says that they are whole.
            for path in there:
                path.unlink(missing_ok=True)
                manifest_path(path).unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out of the folder for the time of the context.

        Raises:
            LockedError: Another one is in it.
        """
        lock = Path(self.path, _LOCK)
        with lock.open("wb") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LockedError(
                    f"another run writes to {self.path}",
                    hint="wait until it has ended, or name another folder",
                    path=str(self.path),
                ) from error
            except OSError:
                # subtle: a shared file system without locks; part files are whole all the same.
                pass
            yield
            with suppress(OSError):
                lock.unlink()

    def _refuse_existing(self, there: Sequence[str], *, force: bool, resume: bool) -> None:
        if there and not (force or resume):
            raise OutputExistsError(
                f"{self.path} holds {there[0]} and other results",
                hint="continue with `resume`, replace them with `force`, or name another folder",
                path=str(self.path),
            )

    def _parts_among(self, files: Iterable[str]) -> frozenset[str]:
        end = f".{self.format}"
        return frozenset(name.removesuffix(end) for name in files if name.endswith(end))

    def _named(self, name: str) -> Path:
        return Path(self.path, self._file_name(name))

    def _file_name(self, name: str) -> str:
        return f"{name}.{self.format}"

    def _config(self, part: Part) -> dict[str, object]:
        return {**self.config, "part": {"name": part.name, **part.facts}}

    def _sweep(self, path: Path) -> None:
        """Remove what killed workers left of a part file."""
        random = f"[0-9a-f]{{{2 * _RANDOM_BYTES}}}"
        left = re.compile(rf"\.{re.escape(path.stem)}\.{random}\.partial\{path.suffix}(\.parts)?")
        with suppress(OSError), os.scandir(path.parent) as entries:
            for name in [entry.name for entry in entries if left.fullmatch(entry.name)]:
                _remove(path.with_name(name))


def _publish(hidden: Path, path: Path) -> None:
    try:
        hidden.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}", hint="check the disk", path=str(path)
        ) from error


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
