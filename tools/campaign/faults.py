"""One broken call at a time: which calls, and what a command line may leave behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyarrow.parquet import ParquetFile

from cdec.data.output.parquet import sample_schema, table_of
from cdec.data.output.writer import existing_output
from tools.campaign.commands import Command
from tools.campaign.shim import CALLS, Fault
from tools.campaign.workshop import Ended, Workshop

STATUSES = (66, 74, 78)
"""What a run ends with that could not read a file, or not write one, or not read cdec.toml."""
_LITTER = (".partial", ".tmp")


def faults_of(counts: Mapping[str, int], most: int | None = None) -> Iterator[Fault]:
    """Yield every call of a healthy run broken: alone, with all later ones, and cut short.

    Args:
        counts: How often the healthy run makes each call.
        most: Of one kind of call alone, spread evenly, first and last among them; the other ways
            are then tried once a call. None: all.
    """
    for call in CALLS:
        for at in _spread(counts[call], most):
            yield Fault(call, at)
        for deed, lasts in (("fail", True), ("short", False)):
            if deed == "fail" or call == "write":
                for at in _spread(counts[call], most and 1):
                    yield Fault(call, at, deed, lasts)


def kills_of(counts: Mapping[str, int], most: int | None = None) -> Iterator[Fault]:
    """Yield a kill before every call of a healthy run; ``most`` as in ``faults_of``."""
    for call in CALLS:
        for at in _spread(counts[call], most):
            yield Fault(call, at, "kill")


def _spread(count: int, most: int | None) -> list[int]:
    if most is None or count <= most:
        return list(range(1, count + 1))
    if most == 1:
        return [(count + 1) // 2]
    return sorted({1 + round(i * (count - 1) / (most - 1)) for i in range(most)})


@dataclass
class Target:
    """A command, the folder in which it is attacked, and what it leaves undisturbed.

    Attributes:
        name: Of the command.
        command: What is attacked.
        ready: Folder with all that it finds.
        before: Its outputs as they stood.
        whole: Its outputs as they must be.
        counts: The calls of an undisturbed run.
    """

    name: str
    command: Command
    ready: Path
    before: dict[str, bytes] = field(default_factory=dict)
    whole: dict[str, bytes] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def aim(workshop: Workshop, name: str, command: Command, files: Path, scratch: Path) -> Target:
    """Run a command undisturbed, and note what it writes.

    Args:
        workshop: Runs it.
        name: For messages.
        command: What will be attacked.
        files: As ``commands.prepare`` gives them; copied.
        scratch: Folder to work in.
    """
    target = Target(name, command, scratch / f"{name.replace(' ', '_')}.ready")
    shutil.copytree(files, target.ready)
    for words in command.before:
        ended = workshop.run(words, target.ready)
        assert ended.status == 0, (words, ended)
    shutil.rmtree(target.ready / "cache", ignore_errors=True)
    for output, lines in command.kept_lines.items():
        data = (target.ready / output).read_bytes().splitlines(keepends=True)
        (target.ready / output).write_bytes(b"".join(data[:lines]))
    target.before = outputs(command, target.ready)
    work = fresh(target, scratch)
    ended = workshop.run(command.words, work)
    assert ended.status == 0, (command.words, ended)
    target.counts = workshop.shim.counts()
    target.whole = outputs(command, work)
    assert set(target.whole) == set(command.outputs)
    return target


def fresh(target: Target, scratch: Path) -> Path:
    """Return a folder with all that the command finds, always of the same name."""
    work = scratch / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(target.ready, work)
    return work


def strike(workshop: Workshop, target: Target, fault: Fault, scratch: Path) -> list[str]:
    """Run a command with one broken call, then complete it; return what was wrong.

    An empty list is a pass: the status and the message are right, nothing is half, nothing that
    stood there is lost, and the completed run gives what the undisturbed one gives.
    """
    work = fresh(target, scratch)
    ended = workshop.run(target.command.words, work, fault)
    struck = [note.path for note in workshop.shim.notes() if note.how == "broken"]
    wrong = [] if fault.deed == "kill" else _judge_end(target, fault, ended, struck)
    wrong += judge_files(target, work, is_done=ended.status == 0)
    if fault.deed != "kill" and fault.call != "unlink":
        wrong += [f"left {path.name}" for path in work.iterdir() if path.name.endswith(_LITTER)]
    wrong += complete(workshop, target, work)
    if not struck:
        wrong.append("no call was broken")
    return [
        f"{target.name}: {fault} ({Path(struck[0]).name if struck else ''}): {w}" for w in wrong
    ]


def judge_files(target: Target, work: Path, *, is_done: bool) -> list[str]:
    """Return what is wrong with the outputs that a run left, complete or not."""
    wrong, found = [], outputs(target.command, work)
    for name, kind in target.command.outputs.items():
        data, whole, before = found.get(name), target.whole[name], target.before.get(name)
        if is_done and data != whole:
            wrong.append(f"status 0, and {name} is not whole")
        elif data is None:
            if before is not None:
                wrong.append(f"{name} is lost")
        elif kind == "whole" and data not in (whole, before):
            wrong.append(f"{name} is half")
        elif kind == "lines" and not _is_part(data, whole, before):
            wrong.append(f"{name} holds something else than whole lines")
        elif name in target.command.kept_lines and not data.startswith(before or b""):
            wrong.append(f"lines of {name} are lost")
    return wrong


def complete(workshop: Workshop, target: Target, work: Path) -> list[str]:
    """Run what completes an attacked run, undisturbed; return what is wrong then."""
    has_begun = outputs(target.command, work) != target.before
    ended = workshop.run(target.command.again if has_begun else target.command.words, work)
    if ended.status != 0:
        return [f"cannot be completed: status {ended.status}, {ended.stderr.strip()!r}"]
    if target.command.learns:
        return []
    return [f"completed: {what}" for what in judge_files(target, work, is_done=True)]


def _judge_end(target: Target, fault: Fault, ended: Ended, struck: list[str]) -> list[str]:
    if ended.status is None:
        return ["it hung"]
    wrong = []
    if "Traceback" in ended.stderr or ended.status == 70 or ended.status < 0:
        wrong.append(f"status {ended.status}, {ended.stderr.strip()[-600:]!r}")
    elif ended.status not in (0, *STATUSES):
        wrong.append(f"status {ended.status}: {ended.stderr.strip()!r}")
    if ended.status:
        if ended.stderr.count("error E_") != 1:
            wrong.append(f"not one error: {ended.stderr!r}")
        if not any(_names(path, ended.stderr) for path in struck):
            wrong.append(f"names no file: {ended.stderr.strip()!r}")
    if fault.deed == "short" and ended.status:
        wrong.append(f"a short write ended it: {ended.stderr.strip()!r}")
    return wrong


def _names(path: str, message: str) -> bool:
    """Say whether a message names a file: by the name that its temporary forms will take."""
    name, folder = Path(path).name, Path(path).parent.name
    if folder.endswith(".parts") and folder.removesuffix(".parts") in message:
        return True
    parts = name.lstrip(".").split(".")
    return any(".".join(parts[:n]) in message for n in range(min(2, len(parts)), len(parts) + 1))


def _is_part(data: bytes, whole: bytes, before: bytes | None) -> bool:
    """Say whether records are the first of a whole output, or those that stood there."""
    lines = data.endswith(b"\n") or not data
    return (lines and whole.startswith(data)) or data == before


def outputs(command: Command, work: Path) -> dict[str, bytes]:
    """Return the outputs of a command that are there."""
    found = {}
    for name in command.outputs:
        path = work / name
        if path.suffix == ".parquet" and (there := existing_output(path)) is not None:
            found[name] = _rows(there)
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def _lines_of(rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return rows as lines, without what is null: the finished file has no columns of that."""
    said = ({key: value for key, value in row.items() if value is not None} for row in rows)
    return b"".join(json.dumps(row, sort_keys=True).encode() + b"\n" for row in said)


def _rows(place: Path) -> bytes:
    """Return the records of a Parquet output as lines: of its file, or of what is there so far."""
    if place.is_file():
        return _lines_of(ParquetFile(place).read(use_threads=False).to_pylist())
    groups = sorted(place.glob("[0-9]*.parquet"))
    lines = [
        path for path in place.glob("[0-9]*.jsonl") if path.with_suffix(".parquet") not in groups
    ]
    journal = b"".join(path.read_bytes() for path in sorted(lines))
    rows, good = [], 0
    for line in journal.splitlines(keepends=True):
        # A crash may have left the length of a line, and not what it says.
        if not (line.startswith(b"{") and line.endswith(b"}\n")):
            break
        rows.append(json.loads(line))
        good += len(line)
    table = table_of(rows, sample_schema()).to_pylist()
    later = _lines_of(table)
    return b"".join(map(_rows, groups)) + later + journal[good:]
