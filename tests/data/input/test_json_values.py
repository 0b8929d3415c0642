"""JSON arrays are cut into their elements as they arrive, whatever the chunks and the elements."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from cdec.core.errors import JsonError
from cdec.data.input.json_text import JsonValues
from cdec.data.input.lines import LongLine
from cdec.data.input.source import InputLimits


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
