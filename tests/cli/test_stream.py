"""``cdec sample --stream``: lines of pieces before each record, and a text on a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.frame.console import Console
from cdec.cli.runs.streaming import Screen
from cdec.samplers.streaming import Piece

from .conftest import Runner

SAMPLE = ("sample", "--method", "masked", "-n", "2", "--max-new-tokens", "12")


def split(records: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the lines of pieces, and the others."""
    pieces = [record for record in records if "delta" in record]
    return pieces, [record for record in records if "delta" not in record]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("words", [(), ("--prefill", "Pa"), ("--deny", "denied.txt")])
def test_pieces_stand_before_each_record(
    cdec: Runner, cities: Path, words: tuple[str, ...]
) -> None:
    Path("denied.txt").write_text("Rome\n")
    feed = b"".join(
        json.dumps({"id": name, "prompt": f"A city, {name}:"}).encode() + b"\n" for name in "abc"
    )
    plain = cdec(*SAMPLE, "-a", cities, *words, stdin=feed)
    streamed = cdec(*SAMPLE, "-a", cities, *words, "--stream", stdin=feed)
    assert (plain.status, streamed.status) == (0, 0), streamed.stderr
    pieces, records = split(streamed.records)
    assert records == plain.records
    for record in records:
        key = (record["id"], record["index"])
        places = [
            place
            for place, line in enumerate(streamed.records)
            if "delta" in line and (line["id"], line["index"]) == key
        ]
        own = [streamed.records[place]["delta"] for place in places]
        assert "".join(own) == record["text"] and all(own)
        assert streamed.records.index(record) > max(places, default=-1)
    assert all(set(piece) == {"id", "index", "part", "delta"} for piece in pieces)
    assert {piece["part"] for piece in pieces} == {"text"}


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    "words",
    [
        ("--after", ":", "--budget", "4"),
        ("--between", "a", "e"),
        ("--thinking", "3", "--thinking-tags", "<think>", "</think>"),
        ("--after", ":", "--thinking", "3", "--thinking-tags", "<think>", "</think>"),
    ],
)
@pytest.mark.parametrize("method", ["masked", "greedy", "speculative"])
@pytest.mark.share(2)
def test_pieces_of_free_text_join_to_the_fields_of_each_record(
    cdec: Runner, cities: Path, method: str, words: tuple[str, ...]
) -> None:
    draft = ("--draft", "prompt-lookup") if method == "speculative" else ()
    asked = ("sample", "--method", method, *draft, "-a", cities, "-n", "2", *words)
    feed = b"".join(
        json.dumps({"id": name, "prompt": f"A city, {name}:"}).encode() + b"\n" for name in "abc"
    )
    plain = cdec(*asked, stdin=feed)
    streamed = cdec(*asked, "--stream", stdin=feed)
    assert (plain.status, streamed.status) == (0, 0), streamed.stderr
    pieces, records = split(streamed.records)
    assert records == plain.records and pieces
    for record in records:
        own = [p for p in pieces if (p["id"], p["index"]) == (record["id"], record["index"])]
        for part in ("free_text", "text"):
            joined = "".join(piece["delta"] for piece in own if piece["part"] == part)
            assert joined == (record.get(part) or "")


@pytest.mark.usefixtures("loaded")
def test_records_go_to_the_output_and_pieces_to_stdout(cdec: Runner, cities: Path) -> None:
    words = (*SAMPLE, "-a", cities, "--prompt", "A city:")
    plain = cdec(*words)
    streamed = cdec(*words, "--stream", "-o", "out.jsonl")
    pieces, records = split(streamed.records)
    assert records == [] and pieces
    assert Path("out.jsonl").read_bytes() == plain.stdout


def test_what_cannot_be_streamed_is_refused(cdec: Runner, letters: Path) -> None:
    words = ("sample", "-a", letters, "--prompt", "x", "--stream")
    for more, said in (
        ((), "'disc' are chosen when they are done"),
        (("--method", "topn"), "'topn' are chosen when they are done"),
        (("--method", "masked", "--trace", "t.jsonl"), "--trace means nothing with --stream"),
        (("--method", "masked", "--engine", "ray", "-o", "d"), "--engine ray means nothing"),
        (("--method", "masked", "--reward", "regex:a"), "--reward means nothing with --stream"),
    ):
        result = cdec(*words, *more)
        assert (result.status, result.error_code) == (2, "E_USAGE"), more
        assert said in result.stderr


@pytest.mark.usefixtures("loaded")
def test_a_record_has_free_text_of_its_own(cdec: Runner, cities: Path) -> None:
    feed = b'{"id": 1, "prompt": "x", "after": ":", "budget": 2}\n{"id": 2, "prompt": "x"}\n'
    result = cdec("sample", "--method", "greedy", "-a", cities, "--stream", stdin=feed)
    pieces, records = split(result.records)
    assert result.status == 0, result.stderr
    parts = {(1, "free_text"): "", (1, "text"): "", (2, "text"): ""}
    for piece in pieces:
        parts[piece["id"], piece["part"]] += piece["delta"]
    assert parts == {(n, part): records[n - 1][part] for n, part in parts}


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_one_text_grows_on_a_terminal_and_the_others_wait() -> None:
    terminal = _Terminal()
    screen = Screen(Console(progress=False, stdout=terminal, stderr=io.StringIO()))
    shown = []
    for name, part, piece, is_last in (
        ("a", "text", "Ber", False),
        ("b", "text", "Ro", False),
        ("a", "text", "lin", False),
        ("b", "text", "me\x1b[2J", True),
        ("a", "text", "", True),
        ("c", "free_text", "one\n", False),
        ("c", "text", "two", False),
        ("c", "text", "", True),
        ("d", "free_text", "free", False),
    ):
        screen.show(Piece(name, 0, part, piece, is_last))
        shown.append(terminal.getvalue())
    assert shown[:4] == ["Ber", "Ber", "Berlin", "Berlin"]
    assert shown[4] == "Berlin\nRome\\x1b[2J\n"
    screen.show(Piece("d", 0, "text", "free", is_last=True, is_shown=True))
    assert terminal.getvalue() == "Berlin\nRome\\x1b[2J\none\ntwo\nfree\n"
