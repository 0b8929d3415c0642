"""Kills of runs of every method, and what resuming makes of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from cdec.samplers.registry import METHODS
from tools.campaign.attack import Try, require
from tools.campaign.commands import Command, prepare, sample_words
from tools.campaign.faults import Target, aim, complete, fresh, judge_files
from tools.campaign.shim import CALLS, Fault
from tools.campaign.workshop import Workshop

_MORE: dict[str, tuple[str, ...]] = {
    "asap": ("--burn-in", "3"),
    "exact": ("--max-draws", "50"),
    "smc": ("--particles", "3"),
    "topn": ("--max-evaluations", "9"),
}


def method_commands() -> dict[str, Command]:
    """Return a run of every method, and how it goes on."""
    commands = {}
    for name, method in METHODS.items():
        words = ["--method", name, "--max-new-tokens", "5", *_MORE.get(name, ())]
        if method.needs_reward:
            words += ["--reward", "regex:a"]
        commands[name] = Command(
            sample_words(*words), {"out.jsonl": "lines"}, sample_words(*words, "--resume")
        )
    return commands


def open_kills(folder: Path) -> Try:
    """Return what kills a run of some method up to three times, resumes it, and compares."""
    (folder / "shop").mkdir()
    files = prepare(folder)
    workshop = Workshop(folder / "shop")
    commands, targets = method_commands(), dict[str, Target]()
    names = sorted(commands)

    def kill(seed: int) -> dict[str, int]:
        rng = np.random.default_rng(seed)
        name = names[seed % len(names)]
        if name not in targets:
            scratch = folder / name
            scratch.mkdir()
            targets[name] = aim(workshop, name, commands[name], files, scratch)
        target = targets[name]
        work, words = fresh(target, folder / name), target.command.words
        kills, is_torn = 0, False
        for _ in range(int(rng.integers(1, 4))):
            call = CALLS[int(rng.choice([0, 0, 0, 1, 2, 4, 6]))]
            at = 1 + int(rng.integers(max(target.counts[call], 1)))
            ended = workshop.run(words, work, Fault(call, at, "kill"))
            assert ended.status in (0, -9), (name, call, at, ended)
            kills += ended.status == -9
            has_manifest = (work / "out.jsonl.manifest.json").exists()
            if not is_torn:
                require(judge_files(target, work, is_done=ended.status == 0))
            if rng.random() < 0.2 and has_manifest:
                is_torn = True
                with (work / "out.jsonl").open("ab") as file:
                    file.write([b'{"id": 5, "te', b"\xc3", b"\0" * 40][int(rng.integers(3))])
            words = target.command.again
            if not has_manifest:
                words = (*target.command.words, "--force")
        require(complete(workshop, target, work))
        shutil.rmtree(work)
        return {name: kills} if kills else {"not reached": 1}

    return kill
