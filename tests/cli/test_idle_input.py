"""Pipes: whoever waits for each answer gets it; what comes when changes no byte."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from cdec.cli.app import main
from tests.data.input.packed import pack

from . import light
from .conftest import Runner

SCRIPT = [sys.executable, str(Path(light.__file__)), "0"]
SAMPLE = ["sample", "-a", "letters.arrow", "--method", "masked", "--fields", "id,index,text,seed"]
FOREVER = ["--idle", "3600000"]
WAITING = {
    "sample": [*SAMPLE, "-n", "2"],
    "classify": ["classify", "-a", "letters.arrow"],
    "mass": ["mass", "-a", "letters.arrow", "--json", "--candidates", "4"],
    "score": [
        *("score", "-a", "letters.arrow", "--prompt", "p"),
        *("--fields", "text,logprob,log_z_sum,valid"),
    ],
    "check": ["check", "letters.arrow"],
}
LINES = {
    "score": [b'{"token_ids": %s}\n' % ids for ids in (b"[0]", b"[0, 1]", b"[1]", b"[1, 2]")],
    "check": [b"ab\n", b"a\n", b"bb\n", "b\u00e9\n".encode()],
}
PROMPTS = [b"p\n", b"q\n", b'{"id": 7, "prompt": "r"}\n', b"s\n"]

Talk = Callable[["Answers", IO[bytes]], None]
"""What a producer does: writes to the pipe, reads answers."""


class Answers:
    """What a run has written so far, read while it goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def wait_for(self, lines: int) -> None:
        """Wait until so many lines are there."""
        deadline = time.monotonic() + 20
        while self._path.read_bytes().count(b"\n") < lines:
            assert time.monotonic() < deadline, f"no {lines} lines were answered"
            time.sleep(0.002)

    def count(self) -> int:
        """Return how many lines are there."""
        return self._path.read_bytes().count(b"\n")


@pytest.fixture
def converse(
    cdec: Runner, letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[str], Talk], tuple[int, bytes]]:
    """Run a command line in this process on a pipe that a thread of its own writes."""
    (tmp_path / "work" / "letters.arrow").write_bytes(letters.read_bytes())

    def run(words: list[str], talk: Talk) -> tuple[int, bytes]:
        path = tmp_path / "stdout"
        path.write_bytes(b"")
        reading, writing = os.pipe()
        failures: list[BaseException] = []

        def produce() -> None:
            with os.fdopen(writing, "wb", buffering=0) as pipe:
                try:
                    talk(Answers(path), pipe)
                except BaseException as error:
                    failures.append(error)

        os.dup2(reading, 0)
        os.close(reading)
        producer = threading.Thread(target=produce)
        with (
            path.open("w", buffering=1, encoding="utf-8") as out,
            os.fdopen(0, "r", closefd=False) as text,
            monkeypatch.context() as patch,
        ):
            patch.setattr(sys, "stdin", text)
            patch.setattr(sys, "stdout", out)
            producer.start()
            status = main(words)
        producer.join()
        if failures:
            raise failures[0]
        return status, path.read_bytes()

    return run


Converse = Callable[[list[str], Talk], tuple[int, bytes]]


@pytest.mark.parametrize("command", WAITING)
def test_a_producer_that_waits_for_each_answer_gets_the_bytes_of_one_go(
    cdec: Runner, converse: Converse, command: str
) -> None:
    words, lines = WAITING[command], LINES.get(command, PROMPTS)
    each = 2 if command == "sample" else 1

    def talk(answers: Answers, pipe: IO[bytes]) -> None:
        for number, line in enumerate(lines, 1):
            pipe.write(line)
            answers.wait_for(number * each)

    status, answered = converse(words, talk)
    assert (status, answered.count(b"\n")) == (0, each * len(lines))
    assert cdec(*words, stdin=b"".join(lines)).stdout == answered, "a file, in full batches"
    if command != "check":
        at_once = converse([*words, *FOREVER], lambda _, pipe: _ignore(pipe.write(b"".join(lines))))
        assert at_once == (0, answered), "the pipe, in full batches"


def _ignore(_: object) -> None:
    """Return nothing."""


@pytest.mark.share(4)
@pytest.mark.parametrize("size", ["1", "2", "7"])
@pytest.mark.parametrize("command", ["sample", "classify", "mass", "score"])
def test_a_bad_record_is_answered_when_the_pipe_is_idle_at_every_batch_size(
    cdec: Runner, converse: Converse, command: str, size: str
) -> None:
    bad = {"score": b'{"text": 5}\n'}.get(command, b'{"id": "a", "prompt": 5}\n')
    good = LINES.get(command, PROMPTS)[0]
    each = 2 if command == "sample" else 1

    def talk(answers: Answers, pipe: IO[bytes]) -> None:
        pipe.write(bad)
        answers.wait_for(1)
        pipe.write(good)
        answers.wait_for(1 + each)

    words = [*WAITING[command], "--batch-size", size]
    status, answered = converse(words, talk)
    assert status == 3 and "error" in json.loads(answered.splitlines()[0])
    assert cdec(*words, stdin=bad + good).stdout == answered, "a file, in full batches"


def test_texts_to_retokenize_are_answered_too(
    cdec: Runner, converse: Converse, loaded: None
) -> None:
    def talk(answers: Answers, pipe: IO[bytes]) -> None:
        for number, text in enumerate((b"one\n", b"two three\n"), 1):
            pipe.write(text)
            answers.wait_for(number)

    assert converse(["retokenize"], talk)[0] == 0


def test_a_batch_waits_for_as_long_as_was_asked(converse: Converse) -> None:
    def talk(answers: Answers, pipe: IO[bytes]) -> None:
        pipe.write(b"1\n2\n")
        time.sleep(0.2)  # Four times the default.
        assert answers.count() == 0
        pipe.write(b"3\n")
        answers.wait_for(3)

    assert converse([*SAMPLE, "--batch-size", "3", *FOREVER], talk)[0] == 0


def test_lines_in_pieces_and_compressed_pipes_are_answered_alike(
    cdec: Runner, converse: Converse
) -> None:
    records = [json.dumps({"id": i, "prompt": f"p{i}"}).encode() + b"\n" for i in range(3)]
    whole = cdec(*SAMPLE, stdin=b"".join(records)).stdout

    def torn(answers: Answers, pipe: IO[bytes]) -> None:
        pipe.write(records[0] + records[1][:7])  # The second line's end comes after the answer.
        answers.wait_for(1)
        for byte in records[1][7:]:
            pipe.write(bytes([byte]))
        pipe.write(records[2])

    def packed(answers: Answers, pipe: IO[bytes]) -> None:
        packer = zlib.compressobj(wbits=31)
        for number, record in enumerate(records, 1):
            pipe.write(packer.compress(record) + packer.flush(zlib.Z_SYNC_FLUSH))
            answers.wait_for(number)
        pipe.write(packer.flush())

    def framed(answers: Answers, pipe: IO[bytes]) -> None:
        for number, record in enumerate(records, 1):
            pipe.write(pack("zstd", record))
            answers.wait_for(number)

    assert converse(SAMPLE, torn) == (0, whole)
    assert converse(SAMPLE, packed) == (0, whole)
    assert converse(SAMPLE, framed) == (0, whole)
    assert cdec(*SAMPLE, stdin=gzip.compress(b"".join(records))).stdout == whole


def test_scores_of_one_prompt_wait_for_each_other_and_for_no_other_prompt(
    cdec: Runner, converse: Converse
) -> None:
    def record(prompt: str, ids: list[int]) -> bytes:
        return json.dumps({"prompt": prompt, "token_ids": ids}).encode() + b"\n"

    lines = [record("p", [0, 1]), record("p", [0]), record("q", [0])]
    words = ["score", "-a", "letters.arrow", "--fields", "text,log_mass_lower"]

    def talk(answers: Answers, pipe: IO[bytes]) -> None:
        for line in lines:
            pipe.write(line)
            time.sleep(0.1)
        answers.wait_for(2)
        assert answers.count() == 2, "texts of the second prompt may still come"

    status, answered = converse(words, talk)
    assert (status, answered) == (0, cdec(*words, stdin=b"".join(lines)).stdout)
    bounds = [json.loads(line)["log_mass_lower"] for line in answered.splitlines()]
    assert bounds[0] == bounds[1] > bounds[2], "the texts of one prompt share their bounds"


def test_a_resumed_run_answers_what_is_new_at_once(
    cdec: Runner, converse: Converse, tmp_path: Path
) -> None:
    words = [*SAMPLE, "-o", "out.jsonl"]
    records = [json.dumps({"id": i, "prompt": "p"}).encode() + b"\n" for i in range(2)]
    assert cdec(*words, stdin=records[1]).status == 0

    def talk(_: Answers, pipe: IO[bytes]) -> None:
        # The last one is there already: it must not keep the one before it waiting.
        pipe.write(records[0] + records[1])
        Answers(tmp_path / "work" / "out.jsonl").wait_for(2)

    assert converse([*words, "--resume"], talk)[0] == 0


@contextmanager
def _run(folder: Path, words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    light.compile_letters(folder / "letters.arrow")
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*SCRIPT, *words], cwd=folder, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def _ends(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


def test_an_interrupt_ends_the_wait_for_a_pipe(tmp_path: Path) -> None:
    with _run(tmp_path, SAMPLE) as process:
        stdin, stdout = _ends(process)
        stdin.write(b"p\n")
        assert json.loads(stdout.readline())["index"] == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        said = process.stderr.read()
        assert b"rror" not in said, said


def test_a_reader_that_leaves_a_waiting_run_ends_it_with_141(tmp_path: Path) -> None:
    with _run(tmp_path, SAMPLE) as process:
        stdin, stdout = _ends(process)
        stdin.write(b"p\n")
        assert stdout.readline()
        stdout.close()
        stdin.write(b"q\n")
        assert process.wait(timeout=60) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""
