"""Outputs opened in the form that their names say; one writer a file, and never an input."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.core.errors import (
    CdecError,
    OutputError,
    OutputExistsError,
    UsageError,
)
from cdec.data.output.forms import COLUMNS, Form, form_of
from cdec.data.output.lines import RecordWriter as RecordWriter
from cdec.data.output.lines import read_finished, torn_line
from cdec.data.output.manifest import check_manifest, manifest_path, write_manifest
from cdec.data.output.staged import lock, locked_folder

if TYPE_CHECKING:
    from cdec.data.output.staged import Folder, StagedWriter


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


def refuse_input(path: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse an output that is one of the files a run reads.

    Raises:
        UsageError: It is.
    """
    try:
        status = path.stat()
    except OSError:
        return  # not there, so no input; what else is wrong shows when it is opened
    if stat.S_ISREG(status.st_mode):
        for name in inputs:
            if is_same(status, name):
                raise input_error(str(path), name)


def is_same(output: os.stat_result, name: str | Path) -> bool:
    """Say whether an input is the file of a status; ``-`` is stdin."""
    try:
        status = os.fstat(sys.stdin.fileno()) if str(name) == "-" else Path(name).stat()
    except (OSError, ValueError):
        return False
    return os.path.samestat(output, status)


def input_error(output: str, name: str | Path) -> CdecError:
    """Return the error of an output that is an input."""
    shown = "stdin" if str(name) == "-" else name
    return UsageError(
        f"{output} would be the output and is the input {shown}",
        hint="name another file with `path`",
    )


def open_writer(
    path: str | Path | None,
    *,
    config: Mapping[str, object] | None = None,
    inputs: Iterable[str | Path] = (),
    force: bool = False,
    resume: bool = False,
    fields: Sequence[str] | None = None,
    is_part: bool = False,
    keep_input: bool = False,
) -> RecordWriter | StagedWriter:
    """Open an output for records: locked, with its manifest written, ready for the first record.

    Args:
        path: A file, or None or ``"-"`` for stdout. Devices and pipes are written as they are. One
            that ends in ``.parquet`` or ``.pq`` takes samples, ``.csv`` and ``.tsv`` records as
            rows, and a compression's ending compresses; such a file is there when the writer is
            closed, and until then its records stand in ``PATH.parts``.
        config: All that decides what the records are; goes into the manifest beside the file.
            Without it there is no manifest.
        inputs: Files the run reads (``"-"`` is stdin): the output may be none of them.
        force: Replace what is there.
        resume: Continue what is there: a torn last line is cut off, and ``finished`` tells which
            draws need not be written again.
        fields: Those that samples have, for the columns of tables; None for those in which some
            record has something.
        is_part: Whether it is read together with others, so that Parquet has all columns.
        keep_input: Whether rows of CSV begin with the columns of their records' ``input``.

    Raises:
        UsageError: The output is an input or a URL, or of a form that is not written; ``resume``
            without a file or without ``config``.
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
    refuse_input(path, inputs)
    if resume and config is None:
        raise UsageError("resuming needs the configuration of the run", hint="give `config`")
    form = form_of(path)
    if form.is_staged:

        def begin(held: Folder) -> StagedWriter:
            return _staged(form, path, held, fields, is_part=is_part, keep_input=keep_input)

        return _open_staged(path, config, begin, force=force, resume=resume)
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


def _staged(
    form: Form,
    path: Path,
    held: Folder,
    fields: Sequence[str] | None,
    *,
    is_part: bool,
    keep_input: bool,
) -> StagedWriter:
    """Return the writer of a form that cannot be added to in place."""
    if form.kind == COLUMNS:
        from cdec.data.output.parquet import ParquetRecordWriter

        return ParquetRecordWriter(path, held, fields, is_part=is_part)
    if form.separator is not None:
        from cdec.data.output.csv_table import TableWriter

        return TableWriter(path, held, form, fields, keep_input=keep_input)
    from cdec.data.output.compress import CompressedWriter

    assert form.compression is not None
    return CompressedWriter(path, held, form.compression)


def _open_staged(
    path: Path,
    config: Mapping[str, object] | None,
    begin: Callable[[Folder], StagedWriter],
    *,
    force: bool,
    resume: bool,
) -> StagedWriter:
    if path.exists() and not path.is_file():
        raise UsageError(
            f"{path} is no regular file", hint="what is not lines of JSON is written to a file"
        )
    meanwhile, there = records_path(path), existing_output(path)
    if there is not None and not (force or resume):
        raise _existing(there)
    if not resume:
        _refuse_foreign(meanwhile, path)
    try:
        held = locked_folder(meanwhile, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    writer = begin(held)
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
    return path.with_name(path.name + ".parts") if form_of(path).is_staged else path


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
            if is_same(status, name):
                raise input_error("stdout", name)
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
