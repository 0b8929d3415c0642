"""Tables from strangers, opened by pyarrow in a process that can be killed: the parent's side.

Few bytes of a Parquet or Arrow file may stand for many, and what a damaged one says of itself ends
the process that believes it. So pyarrow reads them in a child process under limits of memory and
time. The child opens nothing: it asks this process for the bytes that it wants, and gives record
batches of checked columns as Arrow streams.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, BinaryIO

from cdec.core.child.process import LostServerError, ServerProcess, needing_system
from cdec.core.child.serving import Message
from cdec.core.errors import CdecError, DataError, LimitError
from cdec.data.input.source import InputLimits

MEGABYTES = 2048
"""Of memory that the child may take above what it has when it is ready, and what the file has."""
_TIMES_FILE = 4
"""How often the bytes of a file may stand in that memory: packed, unpacked, as columns, as text."""
_SECONDS = 60.0
"""Longest that the child may work on until it asks for bytes or gives a batch."""


class TableBytes:
    """The bytes of a table, for whoever asks.

    Args:
        chunks: From the first byte on, for a reader that goes through them once.
        stream: That can seek, for one that begins at the end; None for the former.
        file_bytes: Size of the file, where that is known.

    Attributes:
        size: Of what can seek; None for the former.
        file_bytes: The same as the argument.
    """

    def __init__(
        self, chunks: Iterator[bytes], stream: BinaryIO | None = None, file_bytes: int = 0
    ) -> None:
        self._chunks = chunks
        self._stream = stream
        self._held = memoryview(b"")
        self._end = b""
        self.size = None if stream is None else stream.seek(0, 2)
        self.file_bytes = self.size or file_bytes

    def read(self, at: int, size: int) -> bytes:
        """Return bytes from a place, or the next ones where there is no stream; none at the end."""
        if self._stream is not None:
            self._stream.seek(at)
            return self._stream.read(size)
        while not self._held and (chunk := next(self._chunks, None)) is not None:
            self._held = memoryview(chunk)
        part, self._held = bytes(self._held[:size]), self._held[size:]
        self._end = (self._end + part)[-8:]
        return part

    def drain(self) -> bytes:
        """Read all chunks to their end; return the last bytes."""
        while self.read(0, 1 << 20):
            pass
        return self._end


class TableProcess:
    """The process that opens tables, one after the other; started with the first.

    A context manager: the process ends with the block, and with this process; one that is busy with
    a table when the next is opened makes room for another.

    Attributes:
        is_busy: Whether a table is open that did not come to its end.
    """

    def __init__(self) -> None:
        self._server: ServerProcess | None = None
        self.is_busy = False

    def __enter__(self) -> TableProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> int:
        """End the process; return its exit status, 0 where there is none."""
        server, self._server = self._server, None
        return 0 if server is None else server.kill()

    def open(self, form: str, data: TableBytes, name: str, limits: InputLimits) -> OpenTable:
        """Open a table.

        Args:
            form: ``Parquet``, ``Arrow`` or ``Arrow file``.
            data: Its bytes.
            name: For messages.
            limits: ``max_input_bytes`` of its texts and ``max_expansion`` apply.

        Raises:
            DataError: It is damaged.
            LimitError: It takes too much memory or time.
            OutputError: The system gives no process.
        """
        with needing_system("reading a table"):
            if self._server is None or self.is_busy or not self._server.is_running:
                self.stop()
                follows = threading.current_thread() is threading.main_thread()
                self._server = ServerProcess(
                    "cdec.data.rows.table_server", "reads tables", str(int(follows))
                )
            self.is_busy = True
            return OpenTable(self, self._server, form, data, name, limits)


class OpenTable:
    """A table that the process has opened. Made by ``TableProcess.open``.

    Attributes:
        schema: Of its columns, as pyarrow has it.
    """

    def __init__(
        self,
        process: TableProcess,
        server: ServerProcess,
        form: str,
        data: TableBytes,
        name: str,
        limits: InputLimits,
    ) -> None:
        self._process = process
        self._server = server
        self._form = form
        self._data = data
        self._name = name
        self._limits = limits
        self._send(Message(self._opening()))
        import pyarrow  # noqa: F401  # while the child starts

        self.schema = self._batch_reader(self._asked()).schema

    def _opening(self) -> dict[str, object]:
        return {
            "kind": "open",
            "form": self._form,
            "size": self._data.size,
            "megabytes": MEGABYTES + (_TIMES_FILE * self._data.file_bytes >> 20),
            "most_bytes": self._limits.max_input_bytes,
            "most_times": self._limits.max_expansion,
        }

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield the record batches, their offsets and lengths checked, bytes in place of texts.

        Args:
            columns: Names of columns.
            rows: Most of a batch.

        Raises:
            DataError: One is damaged, or the input ends early.
            LimitError: It expands to too much.
        """
        message = self._asked({"kind": "columns", "columns": [*columns], "rows": rows})
        while message.body["kind"] == "batch":
            yield self._batch_reader(message).read_next_batch()
            message = self._asked()

    def _batch_reader(self, message: Message) -> Any:
        import pyarrow as pa

        return pa.ipc.open_stream(message.data)

    def _asked(self, question: dict[str, object] | None = None) -> Message:
        """Return what the child says next, having given it the bytes that it asks for."""
        server, said = self._server, None
        try:
            if question is not None:
                self._send(Message(question))
            while (said := server.receive(time.monotonic() + _SECONDS)) is not None:
                if said.body["kind"] != "read":
                    break
                self._send(Message({}, self._data.read(said.body["at"], said.body["size"])))
        except LostServerError as lost:
            raise self._death(lost) from lost
        except BaseException:
            # An interrupt among other things: what the child says later answers nothing.
            self._process.stop()
            raise
        if said is None:
            self._process.stop()
            raise self._refusal("time")
        kind = said.body["kind"]
        self._process.is_busy = kind in ("table", "batch") or said.body.get("limit") == "memory"
        if kind in ("limit", "damaged"):
            raise self._refusal(said.body)
        return said

    def _send(self, message: Message) -> None:
        if not self._server.send(message, time.monotonic() + _SECONDS):
            raise self._refusal("time")

    def _death(self, lost: LostServerError) -> CdecError:
        """Return what the end of the child means: nobody but the system kills it."""
        status = self._process.stop()
        printed = str(lost.__cause__)
        if status == -signal.SIGKILL or "alloc" in printed or "memory" in printed:
            return self._refusal("memory")
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return self._refusal({"kind": "damaged", "problem": f"reading it ended with {how}"})

    def _refusal(self, why: dict[str, Any] | str) -> CdecError:
        """Return the error of a table past a limit, or damaged."""
        name = self._name
        if isinstance(why, dict) and why["kind"] == "damaged":
            rows = f", rows from {why['row']} on: a damaged batch" if "row" in why else ""
            problem = rows or f" cannot be read as {self._form.split()[0]}"
            hint = (
                "check that the file is whole, or name its format with `format`"
                if self._form == "Parquet"
                else "write it again, or fetch it again"
            )
            line = {"line": why["row"]} if rows else {}
            return DataError(f"{name}{problem}: {why['problem']}", hint=hint, **line)
        limit = why if isinstance(why, str) else why["limit"]
        found, hint = f"takes more {limit} to read than a table may", "write it again in parts"
        if limit == "max_input_bytes":
            most = self._limits.max_input_bytes
            found = f"expands to more than {most} bytes"
            limit, hint = f"{limit} {most}", f"raise `{limit}`, or split the input"
        elif limit == "max_expansion":
            most = self._limits.max_expansion
            found = f"expands to more than {most} times its size"
            limit, hint = f"{limit} {most}", "if you trust it, write it again without compression"
        return LimitError(f"{name} {found}", hint=hint, limit=limit)
