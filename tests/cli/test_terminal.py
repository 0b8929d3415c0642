"""Runs on a terminal of 80 columns: what progress shows, and what is left when they end."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from . import light
from .screen import frames, screen

SCRIPT = [sys.executable, str(Path(light.__file__))]
COLUMNS = 80


@dataclass(frozen=True)
class Shown:
    """What a run left behind, and what its terminal got."""

    status: int
    written: str

    @property
    def frames(self) -> list[str]:
        return frames(self.written)

    @property
    def screen(self) -> list[str]:
        return screen(self.written)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an artifact and a file of prompts."""
    light.compile_letters(tmp_path / "letters.arrow")
    lines = (json.dumps({"id": i, "prompt": f"p{i}"}) for i in range(6))
    (tmp_path / "prompts.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def _run(
    folder: Path,
    seconds: float,
    *words: str,
    until: Callable[[str], bool] | None = None,
    to_terminal: bool = False,
) -> Shown:
    """Run a command whose stderr is a terminal; interrupt it when ``until`` holds of its output."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
    running = subprocess.Popen(
        [*SCRIPT, str(seconds), *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=follower if to_terminal else subprocess.DEVNULL,
        stderr=follower,
    )
    os.close(follower)
    written, deadline = b"", time.monotonic() + 240
    while time.monotonic() < deadline:
        if select.select([leader], [], [], 0.05)[0]:
            try:
                piece = os.read(leader, 1 << 16)
            except OSError:  # how Linux says that the other end is closed
                break
            if not piece:
                break
            written += piece
        if until is not None and until(written.decode(errors="replace")):
            running.send_signal(signal.SIGINT)
            until = None
    os.close(leader)
    return Shown(running.wait(timeout=60), written.decode())


WORDS = ("sample", "-a", "letters.arrow", "-i", "prompts.jsonl", "--batch-size", "1")


def test_a_run_shows_how_far_it_is_and_leaves_its_summary(folder: Path) -> None:
    shown = _run(folder, 0.3, *WORDS, "-o", "out.jsonl")
    assert shown.status == 0
    drawn = shown.frames
    assert any("loading the embedded model" in frame for frame in drawn)
    assert any(
        re.search(r"━─* ?\d+ of 6 records · [\d.]+/s · \d+ s left", frame) for frame in drawn
    )
    assert all(len(frame) < COLUMNS for frame in drawn[:-1])
    summary, nothing = shown.screen
    assert summary.startswith("6 records: 6 valid; ")
    assert nothing == ""


def test_progress_begins_before_anything_is_loaded_and_is_drawn_in_place(folder: Path) -> None:
    shown = _run(folder, 0.3, *WORDS, "-o", "out.jsonl", to_terminal=True)
    assert shown.status == 0
    first, *_ = shown.frames
    assert first.split(maxsplit=1)[1].startswith("working")
    # Nothing else is written there: the line is taken away once, for the summary.
    assert shown.written.count("\r\x1b[K") == 1
    assert shown.written.index("\r\x1b[K") > shown.written.index("5 of 6 records")


def test_an_interrupt_on_a_terminal_says_what_is_kept_and_how_to_go_on(folder: Path) -> None:
    def is_under_way(written: str) -> bool:
        return "3 of 6" in written

    shown = _run(folder, 0.3, *WORDS, "-o", "out.jsonl", until=is_under_way)
    assert shown.status == 130
    done = len((folder / "out.jsonl").read_text().splitlines())
    summary, *said = shown.screen
    assert summary.startswith(f"{done} records: ")
    assert said == [
        f"interrupted: {done} of 6 records are in out.jsonl; go on with --resume:",
        f"  cdec {' '.join(WORDS)} -o out.jsonl --resume",
        "",
    ]


def test_records_on_the_same_terminal_stand_on_lines_of_their_own(folder: Path) -> None:
    shown = _run(folder, 0.3, *WORDS, "--fields", "id,index,text", to_terminal=True)
    *records, summary, nothing = shown.screen
    assert [json.loads(record)["id"] for record in records] == list(range(6))
    assert summary.startswith("6 records: ")
    assert nothing == ""
    assert any("of 6 records" in frame for frame in shown.frames)


def test_an_interrupted_compilation_says_that_the_old_artifact_stands(folder: Path) -> None:
    os.mkfifo(folder / "entities.txt")
    before = (folder / "letters.arrow").read_bytes()
    words = ("compile-set", "entities.txt", "-o", "letters.arrow", "--force")
    # Nobody writes: the run waits until it is interrupted.
    writer = os.open(folder / "entities.txt", os.O_RDWR)
    os.write(writer, b"Paris\n")
    shown = _run(folder, 0, *words, until=lambda written: "tokenizing" in written)
    os.close(writer)
    assert shown.status == 130
    assert shown.screen == [
        "tokenizer: embedded",
        "interrupted: nothing was written; the old letters.arrow stands",
        "",
    ]
    assert (folder / "letters.arrow").read_bytes() == before


def test_quiet_leaves_a_terminal_alone(folder: Path) -> None:
    assert _run(folder, 0, *WORDS, "--quiet").written == ""
    assert "of 6 records" not in _run(folder, 0, *WORDS, "--no-progress").written


def test_a_terminal_gets_the_texts_alone(folder: Path) -> None:
    words = ("sample", "-a", "letters.arrow", "--method", "masked", "-n", "2", "--stream", "-q")
    plain = _run(folder, 0, *words[:-2], "-q", "--prompt", "x", to_terminal=True)
    texts = [json.loads(line)["text"] for line in plain.screen if line]
    shown = _run(folder, 0, *words, "--prompt", "x", to_terminal=True)
    assert shown.status == 0 and shown.screen == [*texts, ""]


def test_a_terminal_gets_free_text_and_what_follows_it(folder: Path) -> None:
    words = ("sample", "-a", "letters.arrow", "--method", "masked", "-n", "2", "-q")
    free = ("--after", "a", "--budget", "0", "--prompt", "x")
    plain = _run(folder, 0, *words, *free, to_terminal=True)
    records = [json.loads(line) for line in plain.screen if line]
    shown = _run(folder, 0, *words, "--stream", *free, to_terminal=True)
    expected = [record["free_text"] + record["text"] for record in records]
    assert shown.status == 0 and shown.screen == [*expected, ""]
