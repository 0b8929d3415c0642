"""A runner for the command line inside the test process, and small artifacts to run it on."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from cdec.cli.app import main
from cdec.cli.frame import console
from cdec.cli.runs import models
from cdec.compilers import ChildCompiler, cache
from cdec.compilers.child import compiler
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.ray import cluster, run, worker
from cdec.integrations.ray.cluster import Pool
from cdec.integrations.records import sampling

from . import light

SUMMARY = re.compile(
    r"^([\d,]+ records?\b.*; .+ s(, [\d,]+ model calls?)?; .*\d%|\{\"records\":.*\})\n\Z",
    re.MULTILINE,
)
"""The line that ends a run."""


@dataclass(frozen=True)
class Result:
    """What one run of the command line left behind; stderr is without the summary's line."""

    status: int
    stdout: bytes
    stderr: str
    summary: str = ""

    @property
    def records(self) -> list[Any]:
        """Stdout, one JSON value a line."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def error_code(self) -> str | None:
        """The code of the last error on stderr."""
        codes = [line.split()[1] for line in self.stderr.splitlines() if line.startswith("error ")]
        return codes[-1].rstrip(":") if codes else None


def jsonl(*records: object) -> bytes:
    """Return records as the lines of a file."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def texts_of(result: Result) -> list[str]:
    """Return the texts of a run that went well."""
    assert result.status == 0, result.stderr
    return [record["text"] for record in result.records]


def refused(result: Result, code: str = "E_USAGE", status: int = 2) -> str:
    """Return what a run said that was refused before it wrote anything."""
    assert (result.status, result.error_code) == (status, code), result.stderr
    assert result.stdout == b""
    return result.stderr


class Runner(Protocol):
    """Calls ``main`` with words, bytes for stdin, and gives the result."""

    def __call__(self, *words: object, stdin: bytes = b"") -> Result:
        """Run one command line."""


@pytest.fixture
def cdec(
    _kept_processes: None,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Runner]:
    """Run the command line in this process, in an empty working directory."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    # A slow machine must not change what is printed.
    monkeypatch.setattr(console, "LINE_S", math.inf)
    original = os.dup(0)

    def run(*words: object, stdin: bytes = b"") -> Result:
        feed = tmp_path / "stdin"
        feed.write_bytes(stdin)
        with feed.open("rb") as stream:
            os.dup2(stream.fileno(), 0)
        with os.fdopen(0, "r", encoding="utf-8", closefd=False) as text:
            monkeypatch.setattr(sys, "stdin", text)
            capfd.readouterr()
            status = main([str(word) for word in words])
            sys.stdout.flush()
            sys.stderr.flush()
        captured = capfd.readouterr()
        stdout = captured.out.encode("utf-8", "surrogateescape")
        found = SUMMARY.search(captured.err)
        if found is None:
            return Result(status, stdout, captured.err)
        return Result(status, stdout, captured.err[: found.start()], found[0].rstrip("\n"))

    yield run
    os.dup2(original, 0)
    os.close(original)


@pytest.fixture
def loaded(embedded_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs in this process share one embedded model instead of loading it each time."""
    monkeypatch.setattr(models, "open_model", lambda options: embedded_model)


MEMBERS = (
    "Paris",
    "Paris, Texas",
    "Rome",
    "Oslo",
    "New York",
    "London",
    "Berlin",
    "S\u00e3o Paulo",
)


@pytest.fixture(scope="session")
def cities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set artifact of a few cities with ids, for the embedded tokenizer."""
    from cdec.compilers import compile_set
    from cdec.data.assets import embedded_model_path

    path = tmp_path_factory.mktemp("cities") / "cities.arrow"
    vocabulary = Vocabulary.from_tokenizer(embedded_model_path())
    lines = [{"id": f"Q{i}", "text": text} for i, text in enumerate(MEMBERS)]
    compile_set(lines, vocabulary, path)
    return path


@pytest.fixture(scope="session")
def word(embedded_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar of short words, for the embedded tokenizer."""
    from cdec.compilers import compile_grammar

    path = tmp_path_factory.mktemp("word") / "word.arrow"
    compile_grammar("start: /[ a-z]{0,12}[.]/\n", embedded_model.vocabulary, path)
    return path


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set of a few letters, and a uniform tabular model in the place of the embedded one."""
    monkeypatch.setattr(models, "open_model", lambda options: light.slow_model(0))
    return light.compile_letters(tmp_path / "letters.arrow")


class _KeptChild(ChildCompiler):
    """A compiler that outlives the runs that use it."""

    def close(self) -> None:
        return


@pytest.fixture(scope="session")
def _kept_child() -> Iterator[ChildCompiler]:
    child = _KeptChild()
    yield child
    ChildCompiler.close(child)


@pytest.fixture
def _kept_processes(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kept_tables: None
) -> None:
    """Let runs in this process share a child that compiles, and one that opens tables."""
    for module in (compiler, cache):
        monkeypatch.setattr(
            module, "ChildCompiler", lambda *source: request.getfixturevalue("_kept_child")
        )


@pytest.fixture
def grammar_child(_kept_processes: None, _kept_child: ChildCompiler) -> ChildCompiler:
    """The child that compiles for runs in this process."""
    _kept_child.usage = None
    return _kept_child


class LocalJournal:
    """The journal of a run as its actor is called, in this process; one for all who are told."""

    kept = worker.Journal()

    def __getattr__(self, name: str) -> SimpleNamespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return SimpleNamespace(remote=getattr(self.kept, name))


@pytest.fixture
def in_turn(monkeypatch: pytest.MonkeyPatch, embedded_model: Any, loaded: None) -> None:
    """Let one worker after the other work in this process; what they are told is pickled."""

    def context() -> SimpleNamespace:
        return SimpleNamespace(was_current_actor_reconstructed=False, get_node_id=lambda: "here")

    def mapped(
        pool: Pool, dataset: SimpleNamespace, kind: Any, told: Mapping[str, Any], **_: Any
    ) -> SimpleNamespace:
        def batches(**_: Any) -> Iterator[Any]:
            return map(kind(**pickle.loads(pickle.dumps(told))), dataset.tables)

        return SimpleNamespace(iter_batches=batches)

    data = SimpleNamespace(from_arrow_refs=lambda rows: SimpleNamespace(tables=list(rows)))
    fake = SimpleNamespace(
        put=lambda table: table, get=lambda told: told, data=data, get_runtime_context=context
    )
    for module in (cluster, run, worker):
        monkeypatch.setattr(module, "ray_library", lambda: fake)
    monkeypatch.setattr(run, "new_journal", LocalJournal)
    monkeypatch.setattr(run, "quiet_data", nullcontext)
    monkeypatch.setattr(cluster, "cluster", lambda *_, **__: nullcontext())
    monkeypatch.setattr(Pool, "mapped", mapped)
    monkeypatch.setattr(sampling, "load_model", lambda *_, **__: embedded_model)
