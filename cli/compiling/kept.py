"""Artifacts of sources that were typed in their place, kept in the user's cache."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.frame.tables import shown_bytes
from cdec.cli.runs.tokenizer import load_vocabulary, loading
from cdec.core.errors import CdecError, DataError, InputMissingError, Notice, OutputError
from cdec.core.files.cache import cache_directory
from cdec.core.files.whole import is_ours, scratch_folder

if TYPE_CHECKING:
    from cdec.cli.compiling.jobs import Job
    from cdec.cli.options.one_line import Source
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.tokens.vocabulary import Vocabulary

MAX_BYTES = 4 << 30
"""Bytes of the artifacts that are kept together; the newest stays whatever its size."""
_FOLDER = "compiled"
_ENDING, _USED = ".arrow", ".used"


class KeptArtifacts:
    """A folder of artifacts in the user's cache, the least recently used of which go first.

    An artifact is written whole under the hash of all that decides it, so that processes may write
    and read at once. Beside it stands an empty file that says when it was last used: its own times
    tell whether it was verified before.

    Args:
        max_bytes: Of all of them together.
        within: Where the folder lies, if not in the cache directory.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, within: Path | None = None) -> None:
        self.path = (within or cache_directory()) / _FOLDER
        self.max_bytes = max_bytes

    def find(self, name: str) -> Path | None:
        """Return an artifact, which counts as used now; None where it is not there.

        What others may have written, or may write to, is none.
        """
        path = self.path / name
        try:
            if not (is_ours(self.path.lstat()) and is_ours(path.lstat())):
                return None
        except OSError:
            return None
        self._use(path)
        return path

    def place(self, name: str) -> Path:
        """Return where an artifact is written to.

        Raises:
            OutputError: The folder cannot be made, or is not this user's alone.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if is_ours(self.path.lstat()):
                return self.path / name
            reason = "others may write to it"
        except OSError as error:
            reason = error.strerror or str(error)
        raise OutputError(f"{self.path} cannot be used: {reason}", path=str(self.path))

    def kept(self, name: str) -> None:
        """Note that an artifact was written; the least recently used beyond ``max_bytes`` go."""
        with suppress(OSError):
            # Whatever the umask: what others may write to is not read.
            (self.path / name).chmod(0o600)
        self._use(self.path / name)
        found = [(used, size, path) for path, size, used in self._held() if path.name != name]
        left = self.max_bytes - sum(size for _, size, _ in found)
        with suppress(OSError):
            left -= (self.path / name).stat().st_size
        for _, size, path in sorted(found):
            if left >= 0:
                break
            for each in (path, path.with_suffix(_USED)):
                with suppress(OSError):
                    each.unlink(missing_ok=True)
            left += size

    def described(self) -> str:
        """Return where it is and what it holds, for people."""
        sizes = [size for _, size, _ in self._held()]
        count = f"{len(sizes):,} artifact{'' if len(sizes) == 1 else 's'}"
        room = f"{shown_bytes(sum(sizes))} of {shown_bytes(self.max_bytes)}"
        return f"{self.path}: {count}, {room}"

    def _use(self, path: Path) -> None:
        with suppress(OSError):
            path.with_suffix(_USED).touch(mode=0o600)

    def _held(self) -> Iterator[tuple[Path, int, int]]:
        """Yield each artifact with its bytes and the time of its last use, nanoseconds."""
        with suppress(OSError):
            for path in self.path.iterdir():
                if path.suffix == _ENDING:
                    with suppress(OSError):
                        status = path.stat()
                        yield path, status.st_size, _used(path, status.st_mtime_ns)


def _used(path: Path, written: int) -> int:
    try:
        return path.with_suffix(_USED).stat().st_mtime_ns
    except OSError:
        return written


def open_kept(job: Job, source: Source, *, called: str = "", read_as: str = "") -> ArtifactFile:
    """Return the artifact of a source: the one that is kept, else a new one, which is kept.

    Args:
        job: Compiles it.
        source: As it was typed.
        called: What errors call the source, where the compiler was not told its name: an artifact
            says nothing of the place from which its source came.
        read_as: What decides how the source is read, beside what the job says.

    Returns:
        The artifact, verified, by the name of its source. Cost: of one that is kept, reading the
        source and loading the tokenizer.

    Raises:
        CdecError: As the command that compiles such sources.
    """
    from cdec.compilers.cache import shared_name

    made = job.made_from.recorded(job.source_hash())
    with job.run.console.stage(loading(source.tokenizer or source.model)):
        vocabulary, _ = load_vocabulary(source.tokenizer, source.model, source.revision)
    name = shared_name({"kind": job.command.kind, "made": made, "read_as": read_as}, vocabulary)
    kept = KeptArtifacts()
    path = kept.find(name)
    if path is not None:
        # One that is damaged, or went meanwhile, is compiled and kept again.
        with suppress(CdecError):
            return _checked(path, source, made, vocabulary)
    compiling = _Compiling(job, source, called, vocabulary)
    try:
        place = kept.place(name)
        compiling.to(place)
    except OutputError as error:
        if "path" not in error.details:
            raise  # the system's, and not the cache's
        said = f"what is compiled is not kept for the next run: {error.message}"
        job.run.console.warn([Notice("W_CACHE", said)])
        return compiling.apart()
    kept.kept(name)
    try:
        return _checked(place, source, made, vocabulary)
    except InputMissingError:
        # Others took the room meanwhile.
        return compiling.apart()


def _checked(path: Path, source: Source, made: str, vocabulary: Vocabulary) -> ArtifactFile:
    """Read an artifact of the cache.

    Raises:
        CdecError: It is not there, damaged, or of another source or tokenizer.
    """
    from cdec.core.artifacts.opened import KINDS, require_vocabulary
    from cdec.core.artifacts.read import ArtifactLimits, map_verified
    from cdec.core.artifacts.write import MADE_FROM_KEY

    file = map_verified(path, KINDS, ArtifactLimits(), name=Path(str(source)))
    if file.metadata.get(MADE_FROM_KEY) != made:
        raise OutputError(f"{path} was made from something else", path=str(path))
    require_vocabulary(file, vocabulary)
    return file


@dataclass(frozen=True)
class _Compiling:
    """A source that is compiled.

    Attributes:
        job: Compiles it.
        source: As it was typed.
        called: What errors call it; "" where they name it themselves.
        vocabulary: To compile for.
    """

    job: Job
    source: Source
    called: str
    vocabulary: Vocabulary

    def to(self, place: Path) -> None:
        """Write the artifact, and warn of what there is to warn of.

        Raises:
            CdecError: It cannot be compiled, or not be written.
        """
        try:
            report = replace(self.job, output=place).compile(lambda: self.vocabulary)
        except DataError as error:
            if self.called:
                error.message = f"{self.called}: {error.message}"
                error.args = (error.message,)
                error.details.setdefault("path", self.called)
            raise
        self.job.run.console.warn(report.notices)

    def apart(self) -> ArtifactFile:
        """Return an artifact that nobody keeps."""
        from cdec.core.artifacts.opened import KINDS
        from cdec.core.artifacts.read import verify_bytes

        # subtle: the file goes once it is mapped.
        with scratch_folder() as folder:
            self.to(place := folder / f"source{_ENDING}")
            with place.open("rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return replace(verify_bytes(data, KINDS), path=Path(str(self.source)))
