"""Signals, pipes, full disks and kills: what real processes leave behind."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import light

SCRIPT = [sys.executable, str(Path(light.__file__))]
RECORDS = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an artifact and a file of prompts."""
    light.compile_letters(tmp_path / "letters.arrow")
    lines = (json.dumps({"id": i, "prompt": f"p{i}"}) for i in range(RECORDS))
    (tmp_path / "prompts.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def _words(*more: str) -> list[str]:
    common = ["sample", "-a", "letters.arrow", "-i", "prompts.jsonl", "--batch-size", "1"]
    return [*common, "-n", "2", "--fields", "id,index,text", *more]


def _start(
    folder: Path, seconds: float, words: list[str], *, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*SCRIPT, str(seconds), *words],
        cwd=folder,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _whole(folder: Path) -> bytes:
    """Return what an undisturbed run writes."""
    done = _start(folder, 0, _words())
    stdout, stderr = done.communicate(timeout=60)
    assert done.returncode == 0, stderr
    assert len(stdout.splitlines()) == 2 * RECORDS
    return stdout


def _wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} never got {count} lines")


def _after_summary(stderr: bytes) -> str:
    """Return what is said after the summary, which must be there."""
    summary, _, said = stderr.decode().partition("\n")
    assert re.fullmatch(r"\d+ records?\b.* tokens/s, model \d+%, .*, waiting \d+%", summary)
    return said


@contextmanager
def _terminal() -> Iterator[tuple[int, int]]:
    leader, follower = os.openpty()
    try:
        yield leader, follower
    finally:
        os.close(leader)
        os.close(follower)


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_whole_lines_and_resume_completes_them(
    folder: Path, signum: signal.Signals, status: int
) -> None:
    output = folder / "out.jsonl"
    running = _start(folder, 0.2, _words("-o", "out.jsonl"))
    _wait_for_lines(output, 2)
    running.send_signal(signum)
    _, stderr = running.communicate(timeout=10)
    assert running.returncode == status
    data = output.read_bytes()
    done = len(data.splitlines()) // 2
    assert data.endswith(b"\n") and done < RECORDS
    word = "interrupted" if signum == signal.SIGINT else "terminated"
    first, command = _after_summary(stderr).splitlines()
    assert re.fullmatch(
        rf"{word}: {done} of 12 records (is|are) in out\.jsonl; go on with --resume:", first
    )
    assert shlex.split(command) == ["cdec", *_words("-o", "out.jsonl"), "--resume"]
    resumed = _start(folder, 0, _words("-o", "out.jsonl", "--resume"))
    stderr = resumed.communicate(timeout=60)[1].decode()
    said = (
        rf"(warning W_MASS_UNRELIABLE: .*\n)?{RECORDS - done} records, .* samples: .* valid; .*\n"
    )
    assert re.fullmatch(said, stderr)
    assert output.read_bytes() == _whole(folder)


def test_what_was_printed_is_all_that_an_interrupted_pipe_keeps(folder: Path) -> None:
    running = _start(folder, 0.2, _words())
    assert running.stdout is not None
    first = running.stdout.readline() + running.stdout.readline()
    running.send_signal(signal.SIGINT)
    rest, stderr = running.communicate(timeout=10)
    done = len((first + rest).splitlines()) // 2
    assert running.returncode == 130
    assert re.fullmatch(
        rf"interrupted: {done} of 12 records (is|are) printed, and nothing else is kept\n",
        _after_summary(stderr),
    )


@pytest.mark.slow
def test_a_resumed_run_counts_what_was_there_and_is_interrupted_again(folder: Path) -> None:
    for _ in range(2):
        there = (folder / "out.jsonl").exists()
        resume = ["--resume"] if there else []
        running = _start(folder, 0.1, _words("-o", "out.jsonl", *resume))
        before = len((folder / "out.jsonl").read_bytes().splitlines()) if there else 0
        _wait_for_lines(folder / "out.jsonl", before + 4)
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=10)
        done = len((folder / "out.jsonl").read_bytes().splitlines()) // 2
        assert f"interrupted: {done} of 12 records are in out.jsonl".encode() in stderr
        assert stderr.count(b"--resume") == 2


@pytest.mark.slow
def test_an_interrupt_before_the_first_record_of_a_pipe_and_quiet_says_nothing(
    folder: Path,
) -> None:
    command = "cdec sample -a letters.arrow -o x.jsonl --resume"
    loud = (
        "interrupted: 0 records are in x.jsonl; go on with --resume and the same input:\n"
        f"  {command}\n"
    )
    for words, said in (([], loud), (["--quiet"], "")):
        awaiting = ["sample", "-a", "letters.arrow", "-o", "x.jsonl", *words]
        running = _start(folder, 0, [*awaiting, "--force"], stdin=subprocess.PIPE)
        _wait_for_path(folder / "x.jsonl.manifest.json")
        (folder / "x.jsonl.manifest.json").unlink()
        time.sleep(1)  # Until the loop awaits its first record; until then nothing was written.
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=10)
        assert running.returncode == 130
        assert (_after_summary(stderr) if stderr else "") == said


@pytest.mark.slow
def test_killed_runs_resume_without_loss_or_repetition(folder: Path) -> None:
    output = folder / "out.jsonl"
    rng = random.Random(5)
    for attempt in range(5):
        resume = ["--resume"] if attempt else []
        running = _start(folder, 0.05, _words("-o", "out.jsonl", *resume))
        before = len(output.read_bytes().splitlines()) if output.exists() else 0
        _wait_for_lines(output, before + rng.randrange(1, 4))
        running.kill()
        running.communicate(timeout=10)
        with output.open("ab") as file:
            file.write(rng.choice([b"", b'{"id": 5, "te', b"\xc3", b"\0" * 40]))
    final = _start(folder, 0, _words("-o", "out.jsonl", "--resume"))
    _, stderr = final.communicate(timeout=60)
    assert final.returncode == 0, stderr
    assert output.read_bytes() == _whole(folder)


def test_a_reader_that_leaves_ends_the_run_with_141_and_no_word(folder: Path) -> None:
    running = _start(folder, 0.05, _words())
    assert running.stdout is not None and running.stderr is not None
    assert json.loads(running.stdout.readline())["id"] == 0
    running.stdout.close()
    assert (running.wait(timeout=30), running.stderr.read()) == (141, b"")
    running.stderr.close()


def test_head_in_a_shell_ends_the_run_with_141(folder: Path) -> None:
    command = " ".join([*SCRIPT, "0.05", *_words(), "| head -1; echo ${PIPESTATUS[0]}"])
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True)
    first, status = done.stdout.splitlines()
    assert json.loads(first)["index"] == 0
    assert (status, done.stderr) == ("141", "")


@pytest.mark.share(1)
@pytest.mark.parametrize("place", ["stdout", "file"])
def test_a_full_device_is_told_in_two_lines(folder: Path, place: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    words = _words() if place == "stdout" else _words("-o", "/dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*SCRIPT, "0", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 74
    assert done.stderr.startswith("error E_IO: ")
    assert len(done.stderr.splitlines()) <= 2
    # Neither can be resumed.
    assert "--resume" not in done.stderr
    assert "hint: make room there, or write to a file somewhere else\n" in done.stderr


LIMITED = (
    "import resource, runpy, signal, sys\n"
    "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


@pytest.mark.slow
def test_a_disk_that_fills_up_keeps_whole_lines(folder: Path) -> None:
    words = ["sample", "-a", "letters.arrow", "-i", "prompts.jsonl", "-o", "out.jsonl"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, SCRIPT[1], "0", *words],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 74, done.stderr
    assert done.stderr.startswith("error E_IO: ") and "--resume" in done.stderr
    lines = (folder / "out.jsonl").read_bytes().splitlines(keepends=True)
    assert lines and all(line.endswith(b"}\n") for line in lines)


@pytest.mark.share(1)
@pytest.mark.parametrize(
    "words",
    [
        ["sample", "--method", "masked", "--trace", "t.jsonl"],
        ["classify", "-o", "out.jsonl"],
        ["classify", "-o", "out.csv"],
    ],
)
def test_a_disk_that_fills_up_is_not_answered_with_a_resume_that_is_not_there(
    folder: Path, words: list[str]
) -> None:
    asked = ["-a", "letters.arrow", "-i", "prompts.jsonl"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, SCRIPT[1], "0", *words, *asked],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 74, done.stderr
    assert "hint: make room, then write it with --force\n" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("end", ["closed", "full"])
def test_a_stderr_that_takes_nothing_loses_no_data(folder: Path, end: str) -> None:
    if end == "full" and not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    redirected = "2>&-" if end == "closed" else "2>/dev/full"
    command = f"{shlex.join([*SCRIPT, '0', *_words('--progress')])} {redirected}"
    done = subprocess.run(["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (0, _whole(folder))


@pytest.mark.slow
def test_two_writers_on_one_file_are_refused(folder: Path) -> None:
    output = folder / "out.jsonl"
    first = _start(folder, 2.0, _words("-o", "out.jsonl"))
    _wait_for_lines(output, 1)
    second = _start(folder, 0, _words("-o", "out.jsonl", "--resume"))
    _, stderr = second.communicate(timeout=60)
    first.terminate()
    first.communicate(timeout=10)
    assert second.returncode == 75
    assert b"E_LOCKED" in stderr


def test_an_interrupted_compilation_leaves_nothing_behind(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*SCRIPT, "0", "compile-set", "-", "-o", "x.arrow"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdin is not None and running.stderr is not None
    running.stdin.write(b"Paris\nRome\n")
    running.stdin.flush()
    assert running.stderr.readline() == b"tokenizer: embedded\n"
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=20)
    assert (running.returncode, stderr) == (130, b"interrupted: nothing was written\n")
    assert list(tmp_path.iterdir()) == []


def test_a_second_interrupt_ends_at_once(folder: Path) -> None:
    running = _start(folder, 30, _words("-o", "out.jsonl"))
    _wait_for_path(folder / "out.jsonl.manifest.json")
    running.send_signal(signal.SIGINT)
    # Equal signals that are pending together are delivered as one: let the first one arrive.
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=10) == 130
    running.communicate()


def test_an_interrupt_that_was_dropped_before_the_end_of_an_empty_input_ends_the_run(
    folder: Path,
) -> None:
    code = (
        "import contextlib, os, signal, sys\n"
        "from cdec.cli.app import main\n"
        "from cdec.cli.frame.process import Interrupted\n"
        "from cdec.cli.runs import models\n"
        f"sys.path.insert(0, {str(Path(light.__file__).parent)!r})\n"
        "import light\n"
        "def opened(options):\n"
        "    with contextlib.suppress(Interrupted):  # as the interpreter does in a callback\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return light.slow_model(0)\n"
        "models.open_model = opened\n"
        "sys.exit(main(['sample', '-a', 'letters.arrow', '-o', 'x.jsonl', '--quiet']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, stdin=subprocess.DEVNULL, timeout=60
    )
    assert done.returncode == 130


def _wait_for_path(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert path.exists()


def test_a_terminal_on_stdin_is_refused_at_once(folder: Path) -> None:
    with _terminal() as (_, follower):
        done = subprocess.run(
            [*SCRIPT, "0", "sample", "-a", "letters.arrow"],
            cwd=folder,
            stdin=follower,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 2
        assert "E_USAGE" in done.stderr and "stdin" in done.stderr


@pytest.mark.slow
def test_a_terminal_gets_a_progress_bar_unless_colours_are_off(folder: Path) -> None:
    for name, expected in (("TERM", True), ("NO_COLOR", False)):
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
        environment |= {"TERM": "xterm", name: "xterm"}
        with _terminal() as (leader, follower):
            done = subprocess.run(
                [*SCRIPT, "0", *_words("-o", f"{name}.jsonl")],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=follower,
                timeout=60,
            )
            os.set_blocking(leader, False)
            try:
                shown = os.read(leader, 1 << 16)
            except BlockingIOError:
                shown = b""
            assert done.returncode == 0
            assert (b"\x1b" in shown) is expected


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_the_locale_changes_no_byte(folder: Path, locale: str) -> None:
    environment = os.environ | {"LC_ALL": locale, "LANG": locale}
    outputs = {
        subprocess.run(
            [*SCRIPT, "0", "sample", "-a", "letters.arrow", "--prompt", "\u00e9", "-n", "20"],
            cwd=folder,
            env=env,
            capture_output=True,
            check=True,
        ).stdout
        for env in (environment, dict(os.environ))
    }
    (output,) = outputs
    assert "\u00e9".encode() in output
