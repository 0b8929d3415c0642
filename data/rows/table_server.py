"""Tables from strangers, opened by pyarrow in a process that can be killed: the child's side.

Run by ``TableProcess`` alone. What a table's columns may cost is held against what was read of it
before they are given on: the limit of memory holds until then.
"""

from __future__ import annotations

import io
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

from cdec.core.child.serving import (
    Message,
    claim_pipes,
    end_with_parent,
    limit_memory,
    messages,
    write,
)
from cdec.data.rows.cells import plain_columns

GRACE_BYTES = 16 << 20
"""Size up to which an input may expand as it likes."""
_GRACE_OF_BATCH = 256 << 20
"""What one batch may take in memory, however few bytes spell it."""
_BATCH_BYTES = 64 << 20
"""What the rows of a batch may take, as far as the file says that."""
_SENT_BYTES = 16 << 20
_READ_BYTES = 16 << 20
_INDEXED = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""Encodings of texts that pyarrow reads by index; those of lengths and places among them."""


class _Past(Exception):  # noqa: N818  # not an error: an answer
    """A limit is passed; its name."""


def main(parent: int, follows: str) -> None:
    """Serve on stdin and stdout.

    Args:
        parent: Process id.
        follows: ``1`` where the thread that made this process lives as long as its own.
    """
    requests, answers = claim_pipes()
    if int(follows):
        end_with_parent()
    # Each thread would reserve address space.
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    bounds = resource.getrlimit(resource.RLIMIT_AS)
    channel = _Channel(messages(requests, parent), answers)
    for message in channel.messages:
        resource.setrlimit(resource.RLIMIT_AS, bounds)  # of the table before
        channel.send(_outcome(message.body, channel))


class _Channel(NamedTuple):
    """What the parent says, and where it is answered."""

    messages: Iterator[Message]
    answers: int

    def send(self, body: dict[str, object], data: bytes = b"") -> None:
        write(self.answers, Message(body, data))

    def next(self) -> Message:
        """Return the next message; where the parent has gone this process ends."""
        message = next(self.messages, None)
        if message is None:
            os._exit(0)
        return message


class _Asked(io.RawIOBase):
    """The bytes of a table, as the parent gives them."""

    def __init__(self, channel: _Channel, size: int | None) -> None:
        self._channel = channel
        self._size = size
        self._at = self._count = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._size is not None

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size or 0)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), _READ_BYTES)
        self._channel.send({"kind": "read", "at": self._at, "size": size})
        data = self._channel.next().data
        buffer[: len(data)] = data
        self._at += len(data)
        self._count += len(data)
        return len(data)

    @property
    def count_once(self) -> int:
        """Bytes that were read; of what can seek no more than there are."""
        return self._count if self._size is None else min(self._count, self._size)


class _Table(NamedTuple):
    """An opened table: its schema, and its batches by columns and most rows."""

    schema: Any
    batches: Callable[[Sequence[str], int], Iterator[Any]]


def _outcome(asked: dict[str, Any], channel: _Channel) -> dict[str, object]:
    """Read a table, tell its schema and its batches; return what comes last."""
    row = None
    try:
        limit_memory(asked["megabytes"])
        file = _Asked(channel, asked["size"])
        table = _FORMS[asked["form"]](io.BufferedReader(file, 1 << 16))
        table.schema.names  # noqa: B018  # one that is not UTF-8 is an error here
        meter = _Meter(file, asked["most_bytes"], asked["most_times"])
        channel.send({"kind": "table"}, _stream(table.schema))
        wanted, first = channel.next().body, 1
        batches = table.batches(wanted["columns"], wanted["rows"]) if wanted["columns"] else ()
        for batch in batches:
            row = first
            whole = pa.RecordBatch.from_arrays(*plain_columns(batch))
            row = None
            meter.add(whole)
            for part in _parts(whole):
                channel.send({"kind": "batch"}, _stream(part.schema, part))
            first += batch.num_rows
        return {"kind": "end"}
    except _Past as limit:
        return {"kind": "limit", "limit": str(limit)}
    except MemoryError:
        return {"kind": "limit", "limit": "memory"}
    except Exception as error:
        return {"kind": "damaged", "problem": str(error)} | ({} if row is None else {"row": row})


def _parquet(stream: Any) -> _Table:
    import pyarrow.parquet as arrow_parquet

    def opened(texts: Sequence[str] = ()) -> Any:
        file = pa.PythonFile(stream, "r")
        return arrow_parquet.ParquetFile(file, read_dictionary=[*texts])

    parquet = opened()

    def batches(columns: Sequence[str], rows: int) -> Iterator[Any]:
        schema, metadata = parquet.schema, parquet.metadata
        paths = [schema.column(i).path for i in range(len(schema))]
        chosen = [i for i, path in enumerate(paths) if not _outer(path).isdisjoint(columns)]
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        # Texts come as dictionaries where they can, within lists and structs, too: one that many
        # cells share takes memory once.
        texts = [
            paths[i]
            for i in chosen
            if _is_text(schema.column(i))
            and all(_INDEXED.issuperset(group.column(i).encodings) for group in groups)
        ]
        file = opened(texts)
        # subtle: a row group at a time: no batch of lists can have texts of two dictionaries.
        for number, group in enumerate(groups):
            size = sum(group.column(i).total_uncompressed_size for i in chosen)
            most = max(1, min(rows, _BATCH_BYTES * group.num_rows // max(size, 1)))
            yield from file.iter_batches(
                most, row_groups=[number], columns=[*columns], use_threads=False
            )

    return _Table(parquet.schema_arrow, batches)


def _outer(path: str) -> set[str]:
    """Return the names of all columns that a column lies in, its own among them."""
    return {*accumulate(path.split("."), "{}.{}".format)}


def _is_text(leaf: Any) -> bool:
    return bool(leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type != "DECIMAL")


def _arrow(stream: Any) -> _Table:
    reader = pa.ipc.open_stream(pa.PythonFile(stream, "r"))
    return _Table(reader.schema, lambda columns, rows: (b.select([*columns]) for b in reader))


def _arrow_file(stream: Any) -> _Table:
    reader = pa.ipc.open_file(pa.PythonFile(stream, "r"))
    numbered = map(reader.get_batch, range(reader.num_record_batches))
    return _Table(reader.schema, lambda columns, rows: (b.select([*columns]) for b in numbered))


_FORMS: dict[str, Callable[[Any], _Table]] = {
    "Parquet": _parquet,
    "Arrow": _arrow,
    "Arrow file": _arrow_file,
}


class _Meter:
    """What a table expands to, held against what was read of it.

    Args:
        file: That is read.
        most_bytes: Of texts.
        most_times: Of the bytes that were read, where texts have more than ``GRACE_BYTES``.
    """

    def __init__(self, file: _Asked, most_bytes: int, most_times: int) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._most_times = most_times
        self._texts = 0
        self._met: dict[str, Any] = {}

    def add(self, batch: Any) -> None:
        """Note a batch.

        Raises:
            _Past: It, or all texts until here, are too much.
        """
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._texts += self._of_texts(column, name)
        if self._texts > self._most_bytes:
            raise _Past("max_input_bytes")
        most = self._most_times * self._file.count_once
        if self._texts > max(GRACE_BYTES, most) or batch.nbytes > max(_GRACE_OF_BATCH, most):
            raise _Past("max_expansion")

    def _of_texts(self, column: Any, place: str) -> int:
        """Return the bytes of a column's texts; those of a dictionary once."""
        types, kind = pa.types, column.type
        if types.is_dictionary(kind):
            before, now = self._met.get(place), column.dictionary
            self._met[place] = now
            if before is not None and before.equals(now.slice(0, len(before))):
                now = now.slice(len(before))  # it grows from batch to batch
            return self._of_texts(now, place)
        if types.is_struct(kind):
            parts = [column.field(i) for i in range(kind.num_fields)]
        elif types.is_map(kind):
            parts = [column.keys, column.items]
        elif kind.num_fields:
            parts = [column.values]
        else:
            is_number = types.is_primitive(kind) or types.is_null(kind)
            return 0 if is_number else int(column.nbytes)
        return sum(self._of_texts(part, f"{place}.{i}") for i, part in enumerate(parts))


def _parts(batch: Any) -> Iterator[Any]:
    """Yield a batch in parts that are not too large to be given on."""
    rows = max(1, batch.num_rows * _SENT_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _stream(schema: Any, *batches: Any) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
