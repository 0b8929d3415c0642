"""Opens outputs: lines of JSON or Parquet, by the name; one writer a file."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.core.errors import (
    CdecError,
    OutputError,
    OutputExistsError,
    UsageError,
)
from cdec.data.output.lines import RecordWriter as RecordWriter
from cdec.data.output.lock import lock, locked_folder
from cdec.data.output.manifest import check_manifest, manifest_path, write_manifest
from cdec.data.output.resume import read_finished, torn_line
from cdec.data.suffixes import PARQUET

if TYPE_CHECKING:
    from cdec.data.output.parquet import ParquetRecordWriter


def open_writer(
    path: str | Path | None,
    *,
    config: Mapping[str, object] | None = None,
    inputs: Iterable[str | Path] = (),
    force: bool = False,
    resume: bool = False,
    fields: Sequence[str] | None = None,
    is_part: bool = False,
) -> RecordWriter | ParquetRecordWriter:
    """Open an output for records: locked, with its manifest written, ready for the first record.

    Args:
        path: A file, or None or ``"-"`` for stdout. Devices and pipes are written as they are. One
            that ends in ``.parquet`` or ``.pq`` takes samples, and is there when the writer is
            closed; until then they stand in ``PATH.parts``.
        config: All that decides what the records are; goes into the manifest beside the file.
            Without it there is no manifest.
        inputs: Files the run reads (``"-"`` is stdin): the output may be none of them.
        force: Replace what is there.
        resume: Continue what is there: a torn last line is cut off, and ``finished`` tells which
            draws need not be written again.
        fields: Those that samples have, for the columns of Parquet; None for those in which some
            record has something.
        is_part: Whether it is read together with others, so that Parquet has all columns.

    Raises:
        UsageError: The output is an input or a URL; ``resume`` without a file or without
            ``config``.
        OutputExistsError: The file is there, and neither ``force`` nor ``resume`` is on.
        LockedError: Another process writes it.
        ResumeMismatchError: Another configuration wrote it, or the manifest is missing.
        JsonError, FieldError: It holds something else than records.
        OutputError: It cannot be written.
    """
    if path is None or str(path) == "-":
        return _open_stdout(inputs, resume=resume)
    refuse_url(path)
    path = Path(path)
    _refuse_input(path, inputs)
    if resume and config is None:
        raise UsageError("resuming needs the configuration of the run", hint="give `config`")
    if path.suffix.lower() in PARQUET:
        return _open_parquet(path, config, fields, force=force, resume=resume, is_part=is_part)
    if force:
        _unlink_link(path)
    existed = path.exists()
    file = _open_file(path, may_exist=force or resume or (existed and not path.is_file()))
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        if resume:
            file.close()
            raise UsageError(f"{path} is no regular file and cannot be resumed")
        return RecordWriter(file, str(path))
    lock(file, path)
    try:
        return _prepare(file, path, config, resume=resume)
    except BaseException as error:
        if not existed:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        file.close()
        if isinstance(error, OSError):
            raise OutputError(
                f"cannot prepare {path}: {error.strerror}",
                hint="check the disk and the permissions",
                path=str(path),
            ) from error
        raise


def _open_parquet(
    path: Path,
    config: Mapping[str, object] | None,
    fields: Sequence[str] | None,
    *,
    force: bool,
    resume: bool,
    is_part: bool,
) -> ParquetRecordWriter:
    from cdec.data.output.parquet import ParquetRecordWriter

    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file", hint="Parquet is written to a file")
    meanwhile, there = records_path(path), existing_output(path)
    if there is not None and not (force or resume):
        raise _existing(there)
    if not resume:
        _refuse_foreign(meanwhile, path)
    try:
        held = locked_folder(meanwhile, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    writer = ParquetRecordWriter(path, held, fields, is_part=is_part)
    try:
        if resume and (path.exists() or any(meanwhile.iterdir())) and config is not None:
            writer.notices += check_manifest(path, config)
            writer.go_on()
            return writer
        writer.clear_parts()
        path.unlink(missing_ok=True)
        # subtle: only now, or a crash could leave it beside the old records.
        if config is not None:
            write_manifest(path, config)
        return writer
    except BaseException as error:
        held.close()
        with suppress(OSError):
            meanwhile.rmdir()  # where nothing is in it
        if isinstance(error, OSError):
            raise _unwritable(path, error) from error
        raise


def _refuse_foreign(folder: Path, path: Path) -> None:
    """Refuse to take over a folder that no run which writes ``path`` has made.

    Raises:
        OutputExistsError: It is a link, or holds something and no manifest stands beside it.
    """
    if folder.is_symlink():
        why = "is a link"
    elif folder.is_dir() and any(folder.iterdir()) and not manifest_path(path).is_file():
        why = f"holds files, and no {manifest_path(path).name} says that a run left them"
    else:
        return
    raise OutputExistsError(
        f"{folder}, where the records of {path.name} would stand meanwhile, {why}",
        hint="move it away, or name another file",
        path=str(folder),
    )


def existing_output(path: Path) -> Path | None:
    """Return what there is of an output: its file, or what an unfinished run left; or nothing."""
    if path.is_file():
        return path
    meanwhile = records_path(path)
    return meanwhile if meanwhile.is_dir() and any(meanwhile.iterdir()) else None


def records_path(path: Path) -> Path:
    """Return where the records of an unfinished output stand: the file, or its parts' folder."""
    return path.with_name(path.name + ".parts") if path.suffix.lower() in PARQUET else path


def _prepare(
    file: io.FileIO, path: Path, config: Mapping[str, object] | None, *, resume: bool
) -> RecordWriter:
    """Read what a locked file holds, or empty it; leave a manifest beside it."""
    size = os.fstat(file.fileno()).st_size
    if resume and size and config is not None:
        notices = check_manifest(path, config)
        with path.open("rb") as written:
            finished, good_bytes = read_finished(written, str(path))
        if good_bytes < size:
            notices.append(torn_line(path, size - good_bytes))
            os.ftruncate(file.fileno(), good_bytes)
        return RecordWriter(file, str(path), end=good_bytes, finished=finished, notices=notices)
    os.ftruncate(file.fileno(), 0)
    # subtle: before the new manifest is there, or a crash could leave it beside the old records,
    # which a resumed run would then take for its own.
    os.fsync(file.fileno())
    if config is not None:
        write_manifest(path, config)
    return RecordWriter(file, str(path), end=0)


def _open_stdout(inputs: Iterable[str | Path], *, resume: bool) -> RecordWriter:
    if resume:
        raise UsageError("stdout cannot be resumed", hint="name the output file with `path`")
    sys.stdout.flush()
    stdout = sys.stdout.buffer
    try:
        status = os.fstat(stdout.fileno())
    except (OSError, ValueError):
        status = None  # a stream in memory
    if status is not None and stat.S_ISREG(status.st_mode):
        for name in inputs:
            if _is_same(status, name):
                raise _input_error("stdout", name)
    return RecordWriter(getattr(stdout, "raw", stdout), "stdout")


def _open_file(path: Path, *, may_exist: bool) -> io.FileIO:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags if may_exist else flags | os.O_EXCL, 0o666)
    except FileExistsError as error:
        raise _existing(path) from error
    except OSError as error:
        raise _unwritable(path, error) from error
    return io.FileIO(descriptor, "w")


def _unlink_link(path: Path) -> None:
    """Take a link away that leads to a file: it is the link that is replaced.

    subtle: the system's own links to open descriptors, such as /dev/stdout, stay.
    """
    is_file = not path.exists() or path.is_file()
    if path.is_symlink() and is_file and not str(path.absolute()).startswith(("/dev/", "/proc/")):
        try:
            path.unlink()
        except OSError as error:
            raise _unwritable(path, error) from error


def _existing(path: Path) -> OutputExistsError:
    return OutputExistsError(
        f"{path} exists",
        hint="continue it with `resume`, replace it with `force`, or name another file",
        path=str(path),
    )


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write {path}: {error.strerror}",
        hint="check that its folder exists and may be written",
        path=str(path),
    )


def refuse_url(path: str | Path) -> None:
    """Refuse an output that is a URL.

    Raises:
        UsageError: It is one.
    """
    # A path has lost one of the slashes.
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)) and not Path(path).parent.exists():
        raise UsageError(
            f"{path} is a URL; records are written to a file, which can be continued",
            hint="write to a file and copy it when it is finished; workers write part files there "
            "(`engine` ray)",
        )


def _refuse_input(path: Path, inputs: Iterable[str | Path]) -> None:
    try:
        status = path.stat()
    except OSError:
        return  # not there, so no input; what else is wrong shows when it is opened
    if stat.S_ISREG(status.st_mode):
        for name in inputs:
            if _is_same(status, name):
                raise _input_error(str(path), name)


def _is_same(output: os.stat_result, name: str | Path) -> bool:
    try:
        status = os.fstat(sys.stdin.fileno()) if str(name) == "-" else Path(name).stat()
    except (OSError, ValueError):
        return False
    return os.path.samestat(output, status)


def _input_error(output: str, name: str | Path) -> CdecError:
    shown = "stdin" if str(name) == "-" else name
    return UsageError(
        f"{output} would be the output and is the input {shown}",
        hint="name another file with `path`",
    )
