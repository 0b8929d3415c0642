"""Compiling in a process that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdec.compilers import ChildCompiler, GrammarLimits, GrammarOptions, compile_grammar
from cdec.compilers.cache import SourceCache
from cdec.compilers.grammars.options import PHASES
from cdec.core.artifacts.opened import read_artifact
from cdec.core.child.process import ServerProcess
from cdec.core.errors import CdecError, LimitError, OutputError, OutputExistsError, UsageError
from cdec.core.grammars.errors import GrammarUndefinedError
from cdec.core.progress import Stage
from cdec.core.tokens.vocabulary import Vocabulary
from tests.compilers.child.scarce import without_descriptors

# --- Compiling in the limited child: the same result, errors as they are, limits, no orphans.

NEEDED = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")

GRAMMAR = GrammarOptions()
LIST = 'start: "[" (X ("," X)*)? "]"\nX: /[a-z]+/\n%ignore " "\n'
SLOW = "start: " + " | ".join(f'"{i:05d}" "x"~{i % 50 + 1}' for i in range(3000)) + "\n"
LARGE = "start: /[ab]*a[ab]{17}c|d/\n"


@pytest.fixture(scope="module")
def child() -> Iterator[ChildCompiler]:
    with ChildCompiler() as running:
        yield running


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b"],", b"[[", b""]
    return Vocabulary(tokens, [259], name="toy")


def _children(pid: int) -> list[int]:
    """Return the processes whose parent is ``pid``."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(folder.name))
    return found


def _is_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            if (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@NEEDED
def test_the_child_writes_what_this_process_would(
    child: ChildCompiler, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    here = compile_grammar(LIST, vocabulary, tmp_path / "here.arrow")
    there = child.compile(LIST, vocabulary, tmp_path / "there.arrow", GRAMMAR)
    assert there.counts == here.counts
    assert (there.lexer, there.start, there.is_sound) == (here.lexer, here.start, here.is_sound)
    assert there.notices == here.notices
    assert there.path == tmp_path / "there.arrow"
    ours, theirs = read_artifact(here.path), read_artifact(there.path)
    assert ours.metadata == theirs.metadata
    assert all((ours.arrays[name] == theirs.arrays[name]).all() for name in ours.arrays)


@NEEDED
def test_errors_come_back_as_they_are(
    child: ChildCompiler, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    path = tmp_path / "x.arrow"
    with pytest.raises(GrammarUndefinedError) as caught:
        child.compile("start: y\n", vocabulary, path, GrammarOptions(name="g.lark"))
    assert caught.value.details["line"] == 1
    assert caught.value.message.startswith("g.lark: ")
    assert not path.exists()
    with pytest.raises(LimitError) as limit:
        limits = GrammarLimits(max_rules=10)
        text = "start: a0\n" + "".join(f"a{i}: a{i + 1}\n" for i in range(20)) + 'a20: "x"\n'
        child.compile(text, vocabulary, path, GrammarOptions(limits=limits))
    assert limit.value.details["limit"] == "max_rules"


@NEEDED
def test_an_existing_artifact_is_kept_unless_forced(
    child: ChildCompiler, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    path = tmp_path / "x.arrow"
    path.write_bytes(b"mine")
    with pytest.raises(OutputExistsError):
        child.compile(LIST, vocabulary, path, GRAMMAR)
    assert path.read_bytes() == b"mine"
    child.compile(LIST, vocabulary, path, GRAMMAR, force=True)
    assert read_artifact(path).kind == "grammar"


@NEEDED
def test_phases_are_told_in_their_order(
    child: ChildCompiler, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    seen: list[Stage] = []
    report = child.compile(LIST, vocabulary, tmp_path / "x.arrow", GRAMMAR, progress=seen.append)
    assert [stage.name for stage in seen] == list(PHASES.values())
    assert list(PHASES) == [phase for phase in report.seconds if phase != "total"]
    assert {(stage.total, stage.unit) for stage in seen} == {(len(PHASES), "stages")}


@NEEDED
def test_too_much_time_and_too_much_memory_are_limits(
    child: ChildCompiler, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    for text, limits, name in (
        (SLOW, GrammarLimits(compile_seconds=0.5), "compile_seconds"),
        (LARGE, GrammarLimits(compile_megabytes=32), "compile_megabytes"),
    ):
        started = time.monotonic()
        with pytest.raises(LimitError) as caught:
            child.compile(text, vocabulary, tmp_path / "x.arrow", GrammarOptions(limits=limits))
        assert caught.value.details["limit"] == name
        assert time.monotonic() - started < 30
        assert list(tmp_path.iterdir()) == []
    child.compile(LIST, vocabulary, tmp_path / "x.arrow", GRAMMAR)


@NEEDED
def test_a_child_that_hangs_is_ended(vocabulary: Vocabulary, tmp_path: Path) -> None:
    with ChildCompiler() as child:
        child.compile(LIST, vocabulary, tmp_path / "x.arrow", GRAMMAR)

        def stop(stage: Stage) -> None:
            assert child.pid is not None
            for pid in _children(child.pid):
                os.kill(pid, signal.SIGSTOP)

        limits = GrammarLimits(compile_seconds=0.1)
        with pytest.raises(LimitError) as caught:
            options = GrammarOptions(limits=limits)
            child.compile(SLOW, vocabulary, tmp_path / "y.arrow", options, progress=stop)
        assert caught.value.details["limit"] == "compile_seconds"


@NEEDED
def test_a_crash_is_told_and_the_next_grammar_compiles(
    child: ChildCompiler, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    def crash(stage: Stage) -> None:
        assert child.pid is not None
        for pid in _children(child.pid):
            os.kill(pid, signal.SIGSEGV)

    with pytest.raises(CdecError) as caught:
        child.compile(SLOW, vocabulary, tmp_path / "x.arrow", GRAMMAR, progress=crash)
    assert (caught.value.code, caught.value.exit_status) == ("E_INTERNAL", 70)
    assert "SIGSEGV" in caught.value.message
    child.compile(LIST, vocabulary, tmp_path / "x.arrow", GRAMMAR)


@pytest.mark.slow
@NEEDED
def test_a_server_that_was_killed_is_started_again(vocabulary: Vocabulary, tmp_path: Path) -> None:
    with ChildCompiler() as child:
        child.compile(LIST, vocabulary, tmp_path / "x.arrow", GRAMMAR)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        child.compile(LIST, vocabulary, tmp_path / "y.arrow", GRAMMAR)


@pytest.mark.slow
@NEEDED
def test_a_server_that_is_killed_when_it_is_asked_is_asked_again(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChildCompiler() as child:
        child.compile(LIST, vocabulary, tmp_path / "x.arrow", GRAMMAR)
        assert child.pid is not None
        killed = child.pid
        os.kill(killed, signal.SIGKILL)
        os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
        # As if it had been looked at the moment before.
        monkeypatch.setattr(ServerProcess, "is_running", True)
        child.compile(LIST, vocabulary, tmp_path / "y.arrow", GRAMMAR)
        assert child.pid not in (None, killed)
    assert (tmp_path / "x.arrow").read_bytes() == (tmp_path / "y.arrow").read_bytes()


@NEEDED
def test_a_system_without_descriptors_is_an_error_with_a_code_and_not_remembered(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with SourceCache(vocabulary) as cache:
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
            with pytest.raises(OutputError):
                cache.of("a+", GRAMMAR)
        assert cache.of(LIST, GRAMMAR) is cache.of(LIST, GRAMMAR)
        with without_descriptors(), pytest.raises(OutputError, match=r"descriptors|open files"):
            cache.of('start: "b"', GRAMMAR)
        assert cache.of('start: "b"', GRAMMAR).accepts(b"b")


@NEEDED
def test_an_interrupt_leaves_no_process_behind(vocabulary: Vocabulary, tmp_path: Path) -> None:
    seen: list[int] = []
    child = ChildCompiler()

    def interrupt(stage: Stage) -> None:
        assert child.pid is not None
        seen.extend([child.pid, *_children(child.pid)])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.compile(SLOW, vocabulary, tmp_path / "x.arrow", GRAMMAR, progress=interrupt)
    assert len(seen) == 2
    assert all(map(_is_gone, seen))
    assert list(tmp_path.iterdir()) == []
    child.close()


@NEEDED
def test_a_parent_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    code = (
        "import time; from cdec.compilers import ChildCompiler\n"
        "child = ChildCompiler(); print(child.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=tmp_path)
    with parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        parent.kill()
    # It may still be loading what it needs; it sees that its parent is gone when it is ready.
    assert any(_is_gone(server) for _ in range(20))


@NEEDED
def test_threads_take_turns(child: ChildCompiler, vocabulary: Vocabulary, tmp_path: Path) -> None:
    threads = [
        threading.Thread(
            target=child.compile, args=(LIST, vocabulary, tmp_path / f"{number}.arrow", GRAMMAR)
        )
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == 3


@NEEDED
def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError):
        GrammarOptions(lexer="greedy")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        GrammarOptions(format="yacc")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        GrammarOptions(limits=GrammarLimits(max_rules=0))


# --- Modules that compiling loads: no compiler where a child is asked, no lark for regexes.

ASKING = """
import sys
from pathlib import Path
from cdec.compilers import ChildCompiler, GrammarOptions
from cdec.core.tokens.vocabulary import Vocabulary

options = GrammarOptions(format="regex")
with ChildCompiler(options.kind) as child:
    child.compile("a", Vocabulary([b"a", b""], [1]), Path("a.arrow"), options)
print(*sys.modules)
"""
COMPILING = """
import sys
from pathlib import Path
from cdec.compilers.kinds import source_kind
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core.tokens.vocabulary import Vocabulary

kind, options = source_kind("regex"), GrammarOptions(format="regex")
kind.warm_up()
kind.compile("[a-z]+", Vocabulary([b"a", b""], [1]), Path("a.arrow"), options)
print(*sys.modules)
"""
TABLES = """
from pathlib import Path
from cdec.compilers.child.server import _Known
from cdec.compilers.grammars.automata import characters

known = _Known()
for kind in ("grammar", "regex"):
    characters._category.cache_clear()
    known.load(kind)
    for _ in range(3):
        known.kind_for(kind)
        print(characters._category.cache_info().currsize)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_who_asks_a_child_loads_no_compiler(tmp_path: Path) -> None:
    loaded = set(_printed(ASKING, tmp_path))
    assert "cdec.compilers.child.compiler" in loaded
    assert not {name for name in loaded if name.startswith("cdec.core.grammars.session")}
    assert not {"cdec.compilers.grammars.compile", "lark"} & loaded


@pytest.mark.slow
def test_a_regular_expression_is_compiled_without_lark(tmp_path: Path) -> None:
    assert "lark" not in _printed(COMPILING, tmp_path)


@pytest.mark.slow
def test_tables_that_many_sources_use_are_made_before_the_second(tmp_path: Path) -> None:
    assert _printed(TABLES, tmp_path) == ["0", "1", "1"] * 2


def _printed(code: str, folder: Path) -> list[str]:
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()
