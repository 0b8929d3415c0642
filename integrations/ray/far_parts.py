"""Part files in an object store: written on the worker's disk, then there whole or not at all.

A store lists objects that are whole; where one is no store but a file system far away, a part that
broke off is told by its size, which its manifest has. Its manifest is there before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.core.errors import CdecError, OutputError
from cdec.core.files.remote import Place, file_system, is_url, readable
from cdec.core.files.whole import scratch_folder
from cdec.data.output.manifest import check_manifest, manifest_done, manifest_path, write_manifest
from cdec.data.output.writer import open_writer
from cdec.integrations.ray.parts import Part, PartFolder, PartFormat
from cdec.integrations.records.counts import Counts

if TYPE_CHECKING:
    from cdec.data.output.lines import RecordWriter
    from cdec.data.output.staged import StagedWriter

_PROBE = ".writable"
_BYTES = "bytes"


def part_folder(path: Place, format: PartFormat, **values: Any) -> PartFolder:
    """Return where the part files of a run go.

    Args:
        path: A folder of this machine or of a shared file system, or a URL.
        format: Of the part files.
        values: The other attributes of ``PartFolder``.

    Raises:
        ExtraMissingError, InputMissingError: It is a URL of a kind that cannot be opened.
    """
    if not is_url(path):
        return PartFolder(path, format, **values)
    system, name = file_system(str(path))
    kind = PartFolder if "file" in system.protocol else FarPartFolder
    return kind(Path(name) if kind is PartFolder else path, format, **values)


@dataclass(frozen=True)
class FarPartFolder(PartFolder):
    """A folder of part files by URL. Nothing keeps two runs apart that write to one."""

    def names(self) -> frozenset[str]:
        """Return the names of the parts that are there, as one listing has them.

        Raises:
            OutputError: There is none to be had.
        """
        with self._writable() as (system, folder):
            return self._parts_among(self._files(system, folder))

    def finished(self, part: Part) -> Counts | None:
        """Return what became of a part that is done; None for one that is not.

        Raises:
            ResumeMismatchError: It was done with another configuration, or of other records.
        """
        with scratch_folder() as folder:
            path = self._manifest_of(part.name, folder)
            if path is None:
                return None
            check_manifest(path, self._config(part))
            return Counts.from_json(manifest_done(path))

    @contextmanager
    def writing(self, part: Part, counts: Counts) -> Iterator[RecordWriter | StagedWriter]:
        """Give a writer of the records of a part, which go to the store when the block has ended.

        Raises:
            OutputError: The file cannot be written.
        """
        with scratch_folder() as folder:
            path = folder / self._file_name(part.name)
            with open_writer(path, fields=self.fields, is_part=True) as writer:
                yield writer
            done = {**counts.to_json(), _BYTES: path.stat().st_size}
            write_manifest(path, self._config(part), done=done)
            self._put(manifest_path(path))
            # From here on the part is done: its manifest is there already.
            self._put(path)

    def prepare(self, *, force: bool, resume: bool) -> None:
        """See that the folder may be written; refuse one that holds something, or empty it.

        Raises:
            OutputExistsError: It holds part files, and neither ``force`` nor ``resume`` is on.
            OutputError: It cannot be written.
        """
        with self._writable() as (system, folder):
            # subtle: a folder of which nobody has written anything is none to some stores.
            system.pipe_file(f"{folder}/{_PROBE}", b"")
            names = self._files(system, folder)
            with suppress(Exception):  # one may write there, and not delete
                system.rm_file(f"{folder}/{_PROBE}")
        there = sorted(name for name in names if manifest_path(Path(name)).name in names)
        self._refuse_existing(there, force=force, resume=resume)
        if force:
            with self._writable() as (system, folder):
                for name in there:
                    system.rm_file(f"{folder}/{name}")
                    system.rm_file(f"{folder}/{manifest_path(Path(name)).name}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: stores have no locks, and part files are whole all the same."""
        yield

    def _manifest_of(self, name: str, into: Path) -> Path | None:
        """Fetch the manifest of a part, where that is done.

        Returns:
            Where the part would stand beside it.
        """
        path = into / self._file_name(name)
        system, folder = file_system(str(self.path))
        with readable(str(self.path)):
            try:
                size = system.info(f"{folder}/{path.name}")["size"]
            except FileNotFoundError:
                return None
            system.get_file(f"{folder}/{manifest_path(path).name}", str(manifest_path(path)))
        return path if manifest_done(path).get(_BYTES, size) == size else None

    def _files(self, system: Any, folder: str) -> set[str]:
        try:
            return {name.rpartition("/")[2] for name in system.ls(folder, detail=False)}
        except FileNotFoundError:
            return set()

    def _put(self, path: Path) -> None:
        with self._writable() as (system, folder):
            system.put_file(str(path), f"{folder}/{path.name}")

    @contextmanager
    def _writable(self) -> Iterator[tuple[Any, str]]:
        """Give the store and what the folder is called there.

        Raises:
            OutputError: What the store raises in the block.
            ExtraMissingError: Its package is not installed.
        """
        system, folder = file_system(str(self.path))
        try:
            yield system, folder.rstrip("/")
        except CdecError:
            raise
        except Exception as error:  # every file system has its own: no base class but this
            found = " ".join([f"{type(error).__name__}:", *str(error).split()])
            raise OutputError(
                f"cannot write to {self.path}: {found}",
                hint="check the name of the bucket, the credentials and what they allow",
                path=str(self.path),
            ) from error
