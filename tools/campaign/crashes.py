"""What a crash of the machine leaves: folders rebuilt from the logged calls, unsynced writes lost.

After each call of a run there are several folders that a file system may show after a crash there.
Names are taken to be journalled in order, as ext4, XFS and btrfs do; contents are on disk for sure
only where they were synced after they were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.campaign.shim import Note

WAYS = ("kept", "lost", "zeros")
"""What became of writes that were not synced: all there, none there, or only their length there."""


@dataclass
class _File:
    now: bytearray = field(default_factory=bytearray)
    synced: bytes = b""

    def after_crash(self, way: str) -> bytes:
        if way == "kept":
            return bytes(self.now)
        if way == "lost":
            return self.synced
        kept = self.synced[: len(self.now)]
        return kept + bytes(len(self.now) - len(kept))


def crashes(before: Path, notes: Iterable[Note], folder: Path) -> Iterator[dict[str, bytes]]:
    """Yield the contents of a folder, by name, as a crash after each call may leave them.

    Args:
        before: The folder as it stood, all of it synced.
        notes: What was called, in order.
        folder: Where it was called, at that time; names are relative to it.

    Returns:
        Distinct states, in the order in which they become possible.
    """
    names: dict[str, _File] = {
        str(path.relative_to(before)): _File(bytearray(path.read_bytes()), path.read_bytes())
        for path in before.rglob("*")
        if path.is_file()
    }
    inodes: dict[int, _File] = {}
    seen: set[frozenset[tuple[str, bytes]]] = set()
    for note in notes:
        _apply(note, names, inodes, folder)
        for way in WAYS:
            state = {name: file.after_crash(way) for name, file in names.items()}
            if (key := frozenset(state.items())) not in seen:
                seen.add(key)
                yield state


def _apply(note: Note, names: dict[str, _File], inodes: dict[int, _File], folder: Path) -> None:
    name, other = (_relative(path, folder) for path in (note.path, note.other))
    file = inodes.get(note.inode)
    match note.call, note.how:
        case "open", _:
            file = names.get(name)
            if file is None or note.inode not in inodes:
                file = inodes.setdefault(note.inode, file or _File())
            names[name] = file
            if note.how == "emptied":
                file.now.clear()
        case "write", "done" if file is not None:
            end = note.offset + len(note.data)
            file.now.extend(bytes(max(0, end - len(file.now))))
            file.now[note.offset : end] = note.data
        case "ftruncate", "done" if file is not None:
            file.now.extend(bytes(max(0, note.offset - len(file.now))))
            del file.now[note.offset :]
        case "fsync", "done" if file is not None:
            file.synced = bytes(file.now)
        case "rename", "done":
            replaced = names.get(other)
            names[other] = names.pop(name)
            _forget(replaced, names, inodes)
        case "link", "done":
            names[other] = names[name]
        case "unlink", "done":
            _forget(names.pop(name, None), names, inodes)


def _forget(file: _File | None, names: dict[str, _File], inodes: dict[int, _File]) -> None:
    """Forget the inode of a file without a name: the next file that is made may get its number."""
    if all(file is not named for named in names.values()):
        for inode in [inode for inode, known in inodes.items() if known is file]:
            del inodes[inode]


def _relative(path: str, folder: Path) -> str:
    root = f"{folder}/"
    return path.removeprefix(root)
