"""ATTACKS: every attack of the campaign, one entry each."""

from __future__ import annotations

import itertools
import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np

from tools.campaign.attack import Attack, NothingLeft, Try, require
from tools.campaign.commands import COMMANDS, prepare
from tools.campaign.faults import aim, faults_of, kills_of, strike
from tools.campaign.grammars import open_grammars
from tools.campaign.kills import open_kills
from tools.campaign.lines import open_lines
from tools.campaign.outputs import open_outputs
from tools.campaign.pipes import open_pipes
from tools.campaign.records import LINES, open_records
from tools.campaign.repositories import open_repositories
from tools.campaign.requests import open_requests
from tools.campaign.scarcity import open_scarcity
from tools.campaign.starts import open_starts
from tools.campaign.tables import open_tables
from tools.campaign.targets import TARGETS
from tools.campaign.urls import open_urls
from tools.campaign.workshop import Workshop

WAYS = ("raw", "sealed", "columns", "remembered")
"""Ways of mutating a kind of file; seeds take turns."""


def _open_target(kind: str, folder: Path) -> Try:
    target = TARGETS[kind](folder)

    def mutate(seed: int) -> str:
        way = WAYS[seed % len(WAYS)]
        return f"{way} {getattr(target, way)(np.random.default_rng(seed))}"

    return mutate


def _open_faults(command: str, folder: Path) -> Try:
    (folder / "shop").mkdir()
    files = prepare(folder)
    workshop = Workshop(folder / "shop")
    target = aim(workshop, command, COMMANDS[command], files, folder)
    faults = [*itertools.chain(faults_of(target.counts), kills_of(target.counts))]

    def break_one(seed: int) -> str:
        if seed >= len(faults):
            raise NothingLeft
        require(strike(workshop, target, faults[seed], folder))
        return faults[seed].deed

    return break_one


def _open_self_test(folder: Path) -> Try:
    def fall(seed: int) -> str:
        if seed == 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        if seed == 4:
            time.sleep(60)
        if seed == 6:
            raise ValueError(seed)
        return "fine"

    return fall


ATTACKS: dict[str, Attack] = {
    **{kind: Attack(partial(_open_target, kind), 100_000) for kind in TARGETS},
    "kills": Attack(open_kills, 1_000, 900),
    "records": Attack(open_records, 1_000_000 // LINES, 300),
    "requests": Attack(open_requests, 1_000_000 // LINES, 300),
    "repositories": Attack(open_repositories, 100_000),
    "tables": Attack(open_tables, 100_000),
    "scarcity": Attack(open_scarcity, 10_000, 120),
    "pipes": Attack(open_pipes, 10_000, 300),
    "urls": Attack(open_urls, 10_000),
    "outputs": Attack(open_outputs, 10_000),
    "lines": Attack(open_lines, 100_000),
    "starts": Attack(open_starts, 2_000, 300),
    "grammars": Attack(open_grammars, 100_000, 60),
    **{
        f"faults: {command}": Attack(partial(_open_faults, command), 10_000, 900)
        for command in COMMANDS
    },
}

if "CDEC_CAMPAIGN_SELF_TEST" in os.environ:
    ATTACKS["self-test"] = Attack(_open_self_test, 8)
