"""Calls fail, are cut short, the process is killed, the machine crashes: nothing lost or half."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from cdec.compilers import ChildCompiler, GrammarOptions
from cdec.core.errors import CdecError
from tests.cli import light
from tools.campaign.commands import COMMANDS, GRAMMAR, RECORDS, prepare
from tools.campaign.crashes import crashes
from tools.campaign.faults import (
    STATUSES,
    Target,
    aim,
    complete,
    faults_of,
    fresh,
    kills_of,
    strike,
)
from tools.campaign.shim import Fault, Shim, can_shim
from tools.campaign.workshop import Workshop

pytestmark = pytest.mark.skipif(not can_shim(), reason="no compiler to make the shim with")

CHILD = "compile-grammar"
"""Starts a process of its own, for a second or two: broken through one that is kept."""
STATES = 8
"""Of those that a crash may leave, how many are completed in a test run; all are looked at."""
MOST = 2
"""Of each call and fault in a test run; `make campaign` breaks every call."""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with Workshop(tmp_path_factory.mktemp("workshop")) as opened:
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("files"))


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {CHILD}))
def test_a_broken_call_loses_nothing_and_is_told(
    workshop: Workshop, files: Path, tmp_path: Path, name: str
) -> None:
    target = aim(workshop, name, COMMANDS[name], files, tmp_path)
    faults = faults_of(target.counts, MOST)
    assert [w for fault in faults for w in strike(workshop, target, fault, tmp_path)] == []


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {CHILD}))
def test_a_kill_at_any_call_loses_nothing(
    workshop: Workshop, files: Path, tmp_path: Path, name: str
) -> None:
    target = aim(workshop, name, COMMANDS[name], files, tmp_path)
    kills = kills_of(target.counts, MOST)
    assert [w for kill in kills for w in strike(workshop, target, kill, tmp_path)] == []


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {CHILD}))
def test_a_crash_of_the_machine_leaves_nothing_half_and_the_run_can_be_completed(
    workshop: Workshop, files: Path, tmp_path: Path, name: str
) -> None:
    target = aim(workshop, name, COMMANDS[name], files, tmp_path)
    work = fresh(target, tmp_path)
    assert workshop.run(target.command.words, work, logged=True).status == 0
    states = list(crashes(target.ready, workshop.shim.notes(), work.resolve()))
    done = {name: (work / name).read_bytes() for name in target.command.outputs}.items()
    assert any(done <= state.items() for state in states), "the log does not tell all"
    for state in states:
        assert _half(target, state) == []
    chosen = states[:: max(1, len(states) // STATES)]
    wrong = []
    for state in chosen:
        _enter(work, state)
        wrong += complete(workshop, target, work)
    assert wrong == []


def test_a_broken_call_of_the_command_that_compiles_in_a_child_is_told(
    workshop: Workshop, files: Path, tmp_path: Path
) -> None:
    target = aim(workshop, CHILD, COMMANDS[CHILD], files, tmp_path)
    fault = Fault("write", target.counts["write"] // 2)
    assert strike(workshop, target, fault, tmp_path) == []


def test_every_broken_call_of_the_child_that_compiles_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    shim = Shim(tmp_path)
    for name, value in shim.environment.items():
        monkeypatch.setenv(name, value)
    path = work / "a.arrow"
    with ChildCompiler() as child:
        # The server meets the shim's library when it starts, and has met it when this returns.
        child.compile(GRAMMAR, light.vocabulary(), path, GrammarOptions())
        whole = path.read_bytes()
        path.unlink()
        shim.order(work)
        child.compile(GRAMMAR, light.vocabulary(), path, GrammarOptions())
        counts = shim.counts()
        assert counts["write"] > 2
        for fault in chain(faults_of(counts, 5), kills_of(counts, 2)):
            path.unlink(missing_ok=True)
            shim.order(work, fault)
            try:
                child.compile(GRAMMAR, light.vocabulary(), path, GrammarOptions())
            except CdecError as error:
                assert error.exit_status in STATUSES or fault.deed == "kill", (fault, error)
                assert path.name in str(error) or fault.deed == "kill", (fault, error)
                assert not path.exists() or path.read_bytes() == whole, fault
            else:
                assert path.read_bytes() == whole, fault
            assert shim.hits(), fault
            shim.stop()
            for left in work.glob(".*.partial"):
                assert fault.deed == "kill" or fault.call == "unlink", fault
                left.unlink()


def test_the_shim_sees_every_call(workshop: Workshop, files: Path, tmp_path: Path) -> None:
    target = aim(workshop, "sample", COMMANDS["sample"], files, tmp_path)
    lines = target.whole["out.jsonl"].splitlines()
    assert len(lines) == 2 * RECORDS and all("text" in json.loads(line) for line in lines)
    assert target.counts["write"] >= len(lines)
    broken = strike(workshop, target, Fault("write", 10**6), tmp_path)
    assert broken == ["sample: fail write 1000000 (): no call was broken"]


def _half(target: Target, state: dict[str, bytes]) -> list[str]:
    """Return the outputs that are neither as they stood nor as they must be."""
    wrong = []
    for name, kind in target.command.outputs.items():
        whole, before = target.whole[name], target.before.get(name)
        data = state.get(name)
        if kind == "whole" and data not in (whole, before):
            wrong.append(f"{name} is half")
        kept = before if before is not None and name in target.command.kept_lines else b""
        if kind == "lines" and data is not None and not data.startswith(kept):
            wrong.append(f"lines of {name} are lost")
    return wrong


def _enter(work: Path, state: dict[str, bytes]) -> None:
    shutil.rmtree(work)
    for name, data in state.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
