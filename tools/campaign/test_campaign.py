"""A share of the campaign: mutants, kills, records, requests; no crash, no hang, no wrong end."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from cdec.samplers.registry import METHODS
from tools.campaign.attack import run_attack
from tools.campaign.attacks import ATTACKS
from tools.campaign.commands import COMMANDS
from tools.campaign.guard import Guard
from tools.campaign.kills import method_commands
from tools.campaign.mutants import damaged, edited, edited_json, resealed
from tools.campaign.shim import can_shim
from tools.campaign.targets import TARGETS

SHARE = 0.1
"""Of the whole campaign, if it can be had in ``SECONDS``."""
SECONDS = 1.5
LEAST = {
    "kills": 14,
    "records": 3,
    "requests": 3,
    "tables": 5,
    "scarcity": 3,
    "pipes": 4,
    "urls": 6,
    "outputs": 6,
    "lines": 6,
    "starts": 3,
    "grammars": 10,
    "parquet": 10,
}
"""Seeds that are tried however slow the machine is; of mutants 200, which take a process each if
they are tables."""


@pytest.mark.parametrize("name", list({**TARGETS, **LEAST}))
@pytest.mark.share(2)
def test_a_share_of_the_campaign_finds_nothing(name: str) -> None:
    if name == "kills" and not can_shim():
        pytest.skip("no compiler to make the shim with")
    attack = ATTACKS[name]
    seeds, least = range(round(attack.target * SHARE)), LEAST.get(name, 200)
    tally = run_attack(name, seeds, attack.seconds, SECONDS, least)
    print(tally.to_json())
    assert tally.failures == {}
    assert tally.seeds >= least


def test_a_seed_gives_the_same_mutant_again() -> None:
    data, arrays = b'{"a": [1, 2, {"b": "c"}]}', {"x": np.arange(9), "y": np.ones(3)}
    for mutate in (damaged, resealed, edited_json):
        assert mutate(data, np.random.default_rng(3)) == mutate(data, np.random.default_rng(3))
    first, second = (edited(arrays, np.random.default_rng(3)) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in arrays)


@pytest.mark.parametrize(("at_end", "place"), [(True, 5), (False, -1)])
def test_a_read_outside_a_guarded_array_ends_the_process(at_end: bool, place: int) -> None:
    array = Guard().place({"x": np.arange(5, dtype=np.int64)}, at_end=at_end)["x"]
    assert array.tolist() == [0, 1, 2, 3, 4]
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        ctypes.c_int64.from_address(array.ctypes.data + 8 * place).value  # noqa: B018
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGSEGV


def test_every_method_is_killed_and_every_command_that_writes_is_broken() -> None:
    assert set(method_commands()) == set(METHODS)
    assert {f"faults: {command}" for command in COMMANDS} <= set(ATTACKS)


@pytest.mark.slow
def test_a_crash_and_a_hang_are_counted_and_the_rest_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDEC_CAMPAIGN_SELF_TEST", "1")
    tally = run_attack("self-test", range(8), 3.0)
    assert {seed: what.split()[0] for seed, what in tally.failures.items()} == {
        2: "ended",
        4: "hung",
        6: "Traceback",
    }
    assert tally.outcomes == {"fine": 5} and tally.seeds == 8
