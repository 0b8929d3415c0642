"""Runs golden cases in forks of one process that has imported everything once.

Started by ``__main__`` with the interpreter of the ``cdec`` script that is recorded. A fork a
command line gives what a process of its own gives, without the seconds that imports take.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from case import Case, Step
from commands import command_cases
from corpus import corpus_cases
from fixtures import ARTIFACTS, fixture_cases
from normalise import normalised, placeless_digest
from samples import sample_cases
from tabular import drawn, tabular_cases

STEP_SECONDS = 300
TEXT_BYTES = 64 << 10
"""Outputs that are text and no larger are recorded whole, others by their digest alone."""
WARM_UP = (
    "compile-set cities.jsonl --field name -o warm.arrow",
    "sample -a cities.arrow --prompt a --method exact --max-draws 8 --max-new-tokens 6",
    "sample -a word.arrow --prompt a --method disc --K 2 --max-new-tokens 6 -n 2",
    "sample -a word.arrow --and cities.arrow --prompt a --method speculative --max-new-tokens 6",
    "sample -a word.arrow --prompt a --method smc --particles 3 --max-new-tokens 6",
    "sample -a word.arrow --prompt a --method topn --max-evaluations 9 --max-new-tokens 6",
    "sample -a word.arrow --prompt a --method beam --max-new-tokens 6",
    "sample -a cities.arrow --prompt a --method mentored --max-new-tokens 6",
    "sample --prompt a --method cdsl --reward regex:a --max-new-tokens 6",
    "check cities.arrow -i cities.jsonl",
    "check word.arrow -i cities.jsonl",
    "inspect word.arrow --tree",
    "mass -a word.arrow --prompt a --candidates 4",
    "score -a word.arrow --prompt a -i cities.jsonl --field name",
    "retokenize -i cities.jsonl",
)
"""Command lines that the parent runs itself: forks inherit what they loaded."""


class Runner:
    """Runs cases and writes their recordings.

    Args:
        main: The program: words to exit status.
        out: Folder of the recordings.
        scratch: Folder of the run, removed by whoever made it.
        script: Run as a process of its own for each command line; None forks.
    """

    def __init__(
        self,
        main: Callable[[Sequence[str]], int],
        out: Path,
        scratch: Path,
        script: str | None = None,
    ) -> None:
        self.main, self.out, self.scratch, self.script = main, out, scratch, script
        self.fixtures = scratch / "fixtures"
        self.fixtures.mkdir(exist_ok=True)

    def run(self, case: Case) -> None:
        """Run one case and write ``NAME.json``."""
        folder = Path(tempfile.mkdtemp(prefix="case-", dir=self.scratch))
        started = time.monotonic()
        try:
            record = self.record(case, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        seconds = time.monotonic() - started
        text = json.dumps(record, indent=1, ensure_ascii=True, sort_keys=True)
        (self.out / f"{case.name}.json").write_text(text + "\n")
        with (self.scratch / "seconds").open("a") as log:
            log.write(f"{seconds:8.2f} {case.name}\n")

    def record(self, case: Case, folder: Path) -> dict[str, Any]:
        """Return what a case leaves behind."""
        work = folder / "work"
        work.mkdir()
        for name, data in case.files.items():
            (work / name).write_bytes(data)
        record: dict[str, Any] = {"name": case.name, "kind": case.kind}
        if case.call is not None:
            return record | {"result": self._called(case, folder)}
        if case.prepare is not None:
            self._forked(lambda: _prepare(case, work), folder, Step(()))
        self._bring_artifacts(case, work)
        before = {path: path.read_bytes() for path in _files(work)}
        record["steps"] = [self._step(step, folder) for step in case.steps]
        record["files"] = {
            str(path.relative_to(work)): _described(path, folder)
            for path in _files(work)
            if before.get(path) != path.read_bytes()
        }
        if case.kind == "fixture":
            for path in work.glob("*"):
                shutil.copy(path, self.fixtures)
        return record

    def _bring_artifacts(self, case: Case, work: Path) -> None:
        if case.kind == "compile":
            return
        named = {word.rpartition("=")[2] for step in case.steps for word in step.argv}
        for name in ARTIFACTS:
            if name in named and (self.fixtures / name).exists():
                shutil.copy(self.fixtures / name, work)

    def _step(self, step: Step, folder: Path) -> dict[str, Any]:
        if step.argv and step.argv[0].startswith("!"):
            edit(step, folder / "work")
            return {"edit": list(step.argv)}
        if self.script is None:
            status = self._forked(lambda: self.main(list(step.argv)), folder, step)
        else:
            status = self._started(self.script, folder, step)
        return {
            "argv": list(step.argv),
            "status": status,
            "stdout": _lines(folder / "stdout", folder),
            "stderr": _lines(folder / "stderr", folder),
        }

    def _called(self, case: Case, folder: Path) -> Any:
        result = folder / "result.json"
        call = case.call
        assert call is not None

        def work() -> int:
            result.write_text(json.dumps(call(folder / "work")))
            return 0

        status = self._forked(work, folder, Step(()))
        if status != 0:
            return {"status": status, "stderr": _lines(folder / "stderr", folder)}
        return json.loads(result.read_text())

    def _started(self, script: str, folder: Path, step: Step) -> int:
        """Run a command line in a process of its own."""
        (folder / "stdin").write_bytes(step.stdin)
        (folder / "stdout").write_bytes(b"")
        with (
            (folder / "stdin").open("rb") as stdin,
            Path(step.stdout or folder / "stdout").open("wb") as stdout,
            (folder / "stderr").open("wb") as stderr,
        ):
            return subprocess.run(
                [script, *step.argv],
                cwd=folder / "work",
                env=os.environ | dict(step.environment),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            ).returncode

    def _forked(self, work: Callable[[], int], folder: Path, step: Step) -> int:
        """Run ``work`` in a fork, in the case's folder with the step's streams."""
        (folder / "stdin").write_bytes(step.stdin)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if pid == 0:
            _become(work, folder, step)
        return _wait(pid)


def _become(work: Callable[[], int], folder: Path, step: Step) -> None:
    """Be the fork: never returns."""
    status = 99
    try:
        subprocess.Popen.poll = _poll  # type: ignore[method-assign]
        # subtle: a fork's first use of torch's pool replaces it, which two threads must not do.
        sys.modules["torch"].set_num_threads(1)
        os.chdir(folder / "work")
        os.environ.update(step.environment)
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        targets = (step.stdout or folder / "stdout", folder / "stderr")
        (folder / "stdout").write_bytes(b"")
        os.dup2(os.open(folder / "stdin", os.O_RDONLY), 0)
        for number, target in enumerate(targets, 1):
            os.dup2(os.open(target, write, 0o666), number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(  # noqa: SIM115
            2, "w", encoding="utf-8", errors="backslashreplace", closefd=False
        )
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(status & 0xFF)


def _wait(pid: int) -> int:
    deadline = time.monotonic() + STEP_SECONDS
    pause = 0.001
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -9
        time.sleep(pause)
        pause = min(pause * 1.3, 0.02)


def _prepare(case: Case, work: Path) -> int:
    assert case.prepare is not None
    case.prepare(work)
    return 0


def edit(step: Step, work: Path) -> None:
    """Change a file between two command lines.

    Args:
        step: ``!keep-lines NAME N``, ``!append NAME``, ``!write NAME`` or ``!remove NAME``.
        work: The case's folder.
    """
    action, name, *more = step.argv
    path = work / name
    if action == "!keep-lines":
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: int(more[0])]))
    elif action == "!append":
        path.write_bytes(path.read_bytes() + step.stdin)
    elif action == "!write":
        path.write_bytes(step.stdin)
    elif action == "!remove":
        path.unlink(missing_ok=True)
    else:
        raise ValueError(f"no edit {action}")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _described(path: Path, folder: Path) -> dict[str, Any]:
    """Return a file's digest, and its lines where it is text."""
    data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text or len(data) > TEXT_BYTES:
        if columns := placeless_digest(data):
            return {"sha256 of columns": columns}
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    text = normalised(text, folder)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"bytes": len(text.encode()), "sha256": digest, "lines": text.splitlines()}


def _lines(path: Path, folder: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8", "backslashreplace")
    return normalised(text, folder).split("\n")


def _poll(process: subprocess.Popen[bytes]) -> int | None:
    """Stand in for ``Popen.poll`` in forks, which are not the parents of older processes."""
    if process.pid not in _OLDER:
        return _OWN_POLL(process)
    try:
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return 1
    return 1 if state == "Z" else None


_OWN_POLL = subprocess.Popen.poll
_OLDER: set[int] = set()
"""Processes that forks inherit from a worker."""


class Compilers:
    """One compiler of grammars a worker, in the place of one a command line.

    Its process takes seconds to start. It is started anew where a case used it up.
    """

    def __init__(self) -> None:
        import cdec.compilers as package
        from cdec.core import Vocabulary

        self._package = package
        self._own = package.ChildCompiler
        self._vocabulary = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])
        self._kept: Any = None

    def ready(self, scratch: Path) -> None:
        """Be sure that the compiler runs."""
        path = scratch / f"ready-{os.getpid()}.arrow"
        for _ in range(2):
            if self._kept is None:
                self._kept = self._kept_class()()
                self._package.ChildCompiler = lambda *source: self._kept
            try:
                options = self._package.GrammarOptions()
                self._kept.compile('start: "a"\n', self._vocabulary, path, options, force=True)
            except Exception:
                self._kept = None
            else:
                _OLDER.clear()
                _OLDER.add(self._kept.pid)
                return

    def _kept_class(self) -> type[Any]:
        return type("KeptCompiler", (self._own,), {"close": lambda self: None})

    def close(self) -> None:
        """End the process, and put what was there in its place again."""
        if self._kept is not None:
            self._own.close(self._kept)
        self._package.ChildCompiler = self._own


def load_main(script: str) -> Callable[[Sequence[str]], int]:
    """Return ``main`` of a ``cdec`` script."""
    main: Callable[[Sequence[str]], int] = runpy.run_path(script, run_name="recorded")["main"]
    return main


def _claim(scratch: Path, name: str) -> bool:
    try:
        os.close(os.open(scratch / "claims" / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _work(runner: Runner, cases: Sequence[Case], *, keeps_compiler: bool) -> None:
    """Run the cases that no other worker took."""
    compilers = Compilers() if keeps_compiler else None
    for case in cases:
        if _claim(runner.scratch, case.name):
            if case.needs_compiler and compilers is not None:
                compilers.ready(runner.scratch)
            runner.run(case)
    if compilers is not None:
        compilers.close()


def _import_all() -> None:
    import lark  # noqa: F401
    import pyarrow  # noqa: F401
    import tokenizers  # noqa: F401
    import torch
    import transformers

    torch.set_num_threads(1)
    # Loading a tokenizer and a model imports the modules behind these names.
    for name in ("AutoModelForCausalLM", "AutoTokenizer", "GenerationMixin"):
        getattr(transformers, name)


def _warm(runner: Runner) -> None:
    """Load in this process what forks would load each."""
    from cdec.samplers.drafts import pace

    # How much a draft proposes follows the clock, and what records say of costs follows that.
    pace.clock = lambda: 0.0
    here, streams = Path.cwd(), [os.dup(number) for number in (0, 1, 2)]
    objects = sys.stdin, sys.stdout, sys.stderr
    os.chdir(runner.fixtures)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    for line in WARM_UP:
        runner.main(line.split())
    with tempfile.TemporaryDirectory(dir=runner.scratch) as folder:
        for method in ("exact", "speculative"):
            drawn(method, "regular", Path(folder))
            Path(folder, "regular.arrow").unlink()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = objects
    os.chdir(here)


def main() -> int:
    """Run the cases that match, in two workers."""
    script, out, pattern, workers, how = sys.argv[1:6]
    scratch = Path(os.environ["CDEC_CACHE_DIR"]).parent
    (scratch / "claims").mkdir()
    runner = Runner(load_main(script), Path(out), scratch)
    fixtures = fixture_cases()
    _import_all()
    compilers = Compilers()
    compilers.ready(scratch)
    started = time.monotonic()
    for case in fixtures:
        runner.run(case)
    compilers.close()
    _warm(runner)
    _told(runner, "fixtures and warm-up", started)
    runner.script = script if how == "processes" else None
    # What is loaded by now is never garbage: forks need not look at it, nor copy its pages.
    gc.collect()
    gc.freeze()
    all_cases = [*tabular_cases(), *sample_cases(), *command_cases(), *corpus_cases()]
    cases = [case for case in all_cases if _matches(case, pattern)]
    assert len({case.name for case in cases}) == len(cases), "two cases of one name"
    pids = []
    for _ in range(int(workers)):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _work(runner, cases, keeps_compiler=how == "fork")
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        pids.append(pid)
    failed = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    return 1 if any(failed) else 0


def _told(runner: Runner, what: str, started: float) -> None:
    with (runner.scratch / "seconds").open("a") as log:
        log.write(f"{time.monotonic() - started:8.2f} ({what})\n")


def _matches(case: Case, pattern: str) -> bool:
    return any(fnmatch(case.name, part) or fnmatch(case.kind, part) for part in pattern.split(","))


if __name__ == "__main__":
    sys.exit(main())
