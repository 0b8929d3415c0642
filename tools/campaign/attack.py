"""What an attack is, and running many seeds of it where a crash or a hang is one more count."""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
_PLACE = struct.Struct("<qd")
"""Where a worker says which seed it tries, and since when."""
_COMMAND = (sys.executable, "-X", "faulthandler", "-m", "tools.campaign.attack")
_REPORT_S = 0.5
_START_S = 300.0
"""Until the first seed: kernels may have to be compiled."""

Try = Callable[[int], "str | Mapping[str, int]"]
"""Tries one seed; says what became of it, or of each of many. Any exception is a failure."""


class NothingLeft(Exception):  # noqa: N818
    """All there is to try has been tried."""


def require(wrong: list[str]) -> None:
    """Raise what was found wrong, if anything was."""
    if wrong:
        raise AssertionError("\n".join(wrong))


@dataclass(frozen=True)
class Attack:
    """One kind of attack.

    Attributes:
        open: Makes, in a folder of its own, what tries a seed.
        target: Seeds of the whole campaign.
        seconds: That one seed may take; longer is a hang.
    """

    open: Callable[[Path], Try]
    target: int
    seconds: float = 60.0


@dataclass
class Tally:
    """What became of an attack's seeds.

    Attributes:
        name: Of the attack.
        seeds: How many were tried.
        outcomes: How often each thing happened; one seed may try many.
        failures: Seed → what went wrong.
        spent: Seconds.
    """

    name: str
    seeds: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    spent: float = 0.0

    @property
    def tried(self) -> int:
        """How many things were tried, failures included."""
        return sum(self.outcomes.values()) + len(self.failures)

    def to_json(self) -> dict[str, Any]:
        """Return it JSON-ready."""
        return {
            "attack": self.name,
            "seeds": self.seeds,
            "tried": self.tried,
            "outcomes": dict(self.outcomes.most_common()),
            "failures": {str(seed): what for seed, what in self.failures.items()},
            "seconds": round(self.spent, 1),
        }


def run_attack(
    name: str,
    seeds: Iterable[int],
    seconds_a_seed: float,
    seconds: float | None = None,
    least: int = 0,
) -> Tally:
    """Try seeds in a worker process, in a new one after each crash or hang.

    Args:
        name: In ``attacks.ATTACKS``.
        seeds: Ascending and without gaps.
        seconds_a_seed: Longer is a hang.
        seconds: For all of them, after what they need is made; None for as long as it takes.
        least: Seeds below this one are tried however long it takes.
    """
    seeds = range(min(seeds), max(seeds) + 1) if not isinstance(seeds, range) else seeds
    tally, started = Tally(name), time.monotonic()
    at, skipped = seeds.start, []
    deadline = None if seconds is None else started + seconds
    while at < seeds.stop and (at < least or deadline is None or time.monotonic() < deadline):
        left = None if deadline is None else deadline - time.monotonic()
        with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
            worker = _Worker(Path(folder), name, range(at, seeds.stop), skipped, left, least)
            at = worker.watch(tally, seconds_a_seed)
            if worker.fallen is None:
                break
            seed, what = worker.fallen
            tally.failures[seed] = what
            tally.seeds += 1
            skipped.append(seed)
            if len(skipped) > 50:
                break
    tally.spent = time.monotonic() - started
    return tally


class _Worker:
    """A process that tries seeds and tells what became of them."""

    def __init__(
        self,
        folder: Path,
        name: str,
        seeds: range,
        skipped: list[int],
        seconds: float | None,
        least: int,
    ) -> None:
        self.fallen: tuple[int, str] | None = None
        self._at = seeds.start
        place = folder / "place"
        place.write_bytes(_PLACE.pack(-1, time.time()))
        with place.open("r+b") as file:
            self._place = mmap.mmap(file.fileno(), _PLACE.size)
        order = {"name": name, "first": seeds.start, "stop": seeds.stop, "skipped": skipped}
        order |= {"least": least}
        self._errors = folder / "stderr"
        path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
        own = {"PYTHONPATH": path, "CDEC_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        own |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*_COMMAND, json.dumps(order | {"folder": str(folder), "seconds": seconds})],
                cwd=REPOSITORY,
                env=os.environ | own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    def watch(self, tally: Tally, seconds_a_seed: float) -> int:
        """Collect what it tells until it ends; return the next seed for another worker."""
        output = self._process.stdout
        assert output is not None
        pending = b""
        while True:
            ready, _, _ = select.select([output], [], [], 1.0)
            if ready:
                data = os.read(output.fileno(), 1 << 16)
                if not data:
                    break
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line), tally)
            elif self._hangs(seconds_a_seed):
                os.killpg(self._process.pid, signal.SIGKILL)
                seed = self._seed()
                hung = f"hung for {seconds_a_seed:g} s"
                self.fallen = (seed, hung if seed >= 0 else f"did not begin within {_START_S:g} s")
        status = self._process.wait()
        output.close()
        if status and self.fallen is None:
            said = self._errors.read_text(errors="replace").strip()
            self.fallen = (self._seed(), f"ended with {status}: {said[:200]} ... {said[-1200:]}")
        return self._at

    def _take(self, told: dict[str, Any], tally: Tally) -> None:
        tally.seeds += told["seeds"]
        tally.outcomes.update(told["outcomes"])
        tally.failures.update({int(seed): what for seed, what in told["failures"].items()})
        self._at = told["next"]

    def _seed(self) -> int:
        return int(_PLACE.unpack_from(self._place)[0])

    def _hangs(self, seconds: float) -> bool:
        seed, since = _PLACE.unpack_from(self._place)
        return time.time() - since > (_START_S if seed < 0 else seconds)


def _shortened(text: str) -> str:
    return text if len(text) < 2400 else f"{text[:400]} ... {text[-2000:]}"


def _work(order: dict[str, Any]) -> None:
    """Be the worker."""
    import resource
    import traceback

    from tools.campaign.attacks import ATTACKS

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = Path(order["folder"])
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    with (folder / "place").open("r+b") as file:
        place = mmap.mmap(file.fileno(), _PLACE.size)
    try_seed = ATTACKS[order["name"]].open(folder)
    deadline = None if order["seconds"] is None else time.monotonic() + order["seconds"]
    skipped = set(order["skipped"])
    outcomes: Counter[str] = Counter()
    failures: dict[int, str] = {}
    seeds, told = 0, time.monotonic()

    def tell(following: int) -> None:
        nonlocal seeds, told
        report = {"seeds": seeds, "outcomes": outcomes, "failures": failures, "next": following}
        answers.write(json.dumps(report).encode() + b"\n")
        outcomes.clear()
        failures.clear()
        seeds, told = 0, time.monotonic()

    seed = order["first"]
    for seed in range(order["first"], order["stop"]):
        is_late = deadline is not None and time.monotonic() > deadline
        if is_late and seed >= order["least"]:
            break
        if seed in skipped:
            continue
        place[: _PLACE.size] = _PLACE.pack(seed, time.time())
        try:
            found = try_seed(seed)
            outcomes.update([found] if isinstance(found, str) else found)
        except NothingLeft:
            break
        except Exception:
            failures[seed] = _shortened(traceback.format_exc())
        seeds += 1
        if time.monotonic() - told > _REPORT_S:
            tell(seed + 1)
    tell(seed + 1)


if __name__ == "__main__":
    # subtle: this module is a second one of its name, whose NothingLeft attacks do not raise.
    from tools.campaign import attack

    attack._work(json.loads(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Whatever an attack has opened ends with the process, without ceremony.
    os._exit(0)
