"""JSON values, their texts, counts of records."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import EncodingError, JsonError
from cdec.data.input.json_text import MAX_DEPTH, JsonValues, field_with_changed_integer, parse_json
from cdec.data.input.lines import LongLine
from cdec.data.input.source import InputLimits
from cdec.data.rows import count
from cdec.data.rows.count import count_records

# --- JSON arrays are cut into their elements as they arrive, whatever the chunks and the
# elements.


def cut(data: bytes, size: int = 7, limits: InputLimits | None = None) -> list[Any]:
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    return list(JsonValues(chunks, "x.json", limits or InputLimits(), "name it .txt"))


def some(random: random.Random, depth: int = 0) -> Any:
    kind = random.random()
    if depth > 3 or kind < 0.4:
        return random.choice(['a"b\\', "\\\\", "x,]}[{", "é\n", 1, None, True, -2.5e9, ""])
    if kind < 0.7:
        return [some(random, depth + 1) for _ in range(random.randrange(4))]
    return {f'{i}"': some(random, depth + 1) for i in range(random.randrange(4))}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_elements_are_those_that_a_parser_finds(size: int) -> None:
    source = random.Random(size)
    for _ in range(200):
        values = [some(source) for _ in range(source.randrange(5))]
        data = json.dumps(values, indent=source.choice([None, 2]), ensure_ascii=False).encode()
        if size > 2 and source.random() < 0.3:
            data = b"\xef\xbb\xbf " + data + b"\n"
        found = cut(data, size)
        assert [json.loads(each) for _, _, each in found] == values, data
        assert all(data[at : at + len(each)] == each for _, at, each in found), data
        assert [number for number, _, _ in found] == list(range(1, len(values) + 1))


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_values_one_after_the_other_are_elements_as_well(size: int) -> None:
    data = b'{"a": 1}\n{\n "b": "}"\n}"c\\"d" ["e"]'
    found = [json.loads(each) for _, _, each in cut(data, size)]
    assert found == [{"a": 1}, {"b": "}"}, 'c"d', ["e"]]


@pytest.mark.parametrize(
    "data",
    [b"What is it?", b"[1, 2", b'[{"a": 1}] x', b'{"a": 1} 5', b'{"a": "x}\n', b"[1] [2]", b"]"],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_what_is_no_json_is_refused(data: bytes, size: int) -> None:
    with pytest.raises(JsonError) as caught:
        cut(data, size)
    assert "x.json" in caught.value.message
    assert "name it .txt" in str(caught.value.hint)


def test_an_element_beyond_the_limit_is_left_out_without_being_held() -> None:
    def chunks() -> Iterator[bytes]:
        yield b'["a", "'
        for _ in range(500):
            yield b"b" * (1 << 16)
        yield b'", {"c": 1}]'

    limits = InputLimits(max_line_bytes=1 << 18)
    tracemalloc.start()
    found = list(JsonValues(chunks(), "x.json", limits, "name it .txt"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(each) for each in found] == [tuple, LongLine, tuple]
    assert found[1].length == 500 * (1 << 16) + 3
    assert "record 2 is" in found[1].error("x.json", limits).message
    assert peak < 2 << 20


# --- Strict JSON: what two readers could take differently is an error.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text('a"\\\n\u00e9', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


def parse(data: bytes) -> object:
    return parse_json(data, "x.jsonl", 7, 0)


@settings(max_examples=300, deadline=None)
@given(JSON, st.booleans())
def test_every_valid_value_is_read(value: Any, ascii: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=ascii).encode()) == value


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.text('k"\\', max_size=2), JSON), min_size=1, max_size=4))
def test_an_object_is_refused_exactly_when_a_key_stands_twice(pairs: list[tuple[str, Any]]) -> None:
    text = ",".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs)
    for data in (f"{{{text}}}", f'[1, {{"o": {{{text}}}}}]'):
        if len({key for key, _ in pairs}) == len(pairs):
            assert parse(data.encode()) == json.loads(data)
        else:
            with pytest.raises(JsonError, match="twice"):
                parse(data.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"{oops",
        b"",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e400}',
        b'{"a": "\\ud800"}',
        b'{"a": 1} x',
        b'{"a": 1}\x00',
        b"\xef\xbb\xbf{}",
        b"{'a': 1}",
    ],
)
def test_what_json_does_not_allow_is_refused(data: bytes) -> None:
    with pytest.raises(JsonError) as caught:
        parse(data)
    assert caught.value.details["line"] == 7
    assert "x.jsonl, line 7" in caught.value.message


def test_invalid_utf8_is_an_encoding_error() -> None:
    with pytest.raises(EncodingError) as caught:
        parse_json(b'{"a": "\xff"}', "x", 3, 100)
    assert caught.value.details == {"line": 3, "byte_offset": 108}


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 100_000])
def test_deep_nesting_is_refused_and_moderate_nesting_is_not(depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        deep = opening * depth + "1" + closing * depth
        with pytest.raises(JsonError, match=r"nesting|depth"):
            parse(deep.encode())
        fine = opening * MAX_DEPTH + "1" + closing * MAX_DEPTH
        assert parse(fine.encode()) == json.loads(fine)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b'{"seed": 1180591620717411303424}', "seed"),
        (b'{"a": 1, "b": {"c": [-9223372036854775809]}}', "b"),
        (b'{"a": 18446744073709551615}', None),
        (b'{"a": -9223372036854775808}', None),
        (b'{"mass": 1.989e30, "b": 1e300}', None),
    ],
)
def test_integers_that_became_floats_are_found(data: bytes, field: str | None) -> None:
    record = parse(data)
    assert isinstance(record, dict)
    assert field_with_changed_integer(record, data) == field


# --- How many records a file will give, for progress: exact where it is cheap, else nothing.


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (b"", 0),
        (b"a", 1),
        (b"a\n", 1),
        (b"a\n\n  \r\nb\r\nc", 3),
        (b"\n" * 9, 0),
        (b"x" * 70 + b"\n" + b" " * 70 + b"\n" + b" " * 70 + b"y", 2),
    ],
)
def test_lines_that_are_not_blank_count(
    tmp_path: Path, data: bytes, records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(data)
    assert count_records(path) == records
    monkeypatch.setattr(count, "CHUNK_BYTES", 7)
    assert count_records(str(path)) == records


def test_what_is_not_cheap_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    assert count_records(path) is None
    path.write_bytes(b"PAR1\x15...")
    assert count_records(path) is None
    path.write_bytes(b"ARROW1\0\0\n\n\n")
    assert count_records(path) is None
    path.write_bytes(b"a\nb\n")
    monkeypatch.setattr(count, "MOST_BYTES", 3)
    assert count_records(path) is None
    assert count_records(tmp_path / "missing") is None
    assert count_records(tmp_path) is None


def test_rows_of_parquet_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    pa.parquet.write_table(pa.table({"prompt": ["a", "b", "c"]}), path)
    assert count_records(path) == 3
    assert count_records(str(path)) == 3


def test_a_redirected_file_counts_from_where_it_stands_and_stays_there(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\ntwo\nthree\n")
    before = os.dup(0)
    with path.open("rb", buffering=0) as file:
        os.dup2(file.fileno(), 0)
        try:
            os.read(0, 4)
            assert count_records("-") == 2
            assert os.read(0, 100) == b"two\nthree\n"
        finally:
            os.dup2(before, 0)
            os.close(before)


def test_a_named_pipe_keeps_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a\n",))
    writer.start()
    assert count_records(path) is None
    assert path.read_bytes() == b"a\n"
    writer.join()
