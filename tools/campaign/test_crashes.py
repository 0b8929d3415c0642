"""What a crash leaves, as rebuilt folders say: unsynced bytes may be lost, synced ones are not."""

from __future__ import annotations

from pathlib import Path

from tools.campaign.crashes import crashes
from tools.campaign.shim import Note


def test_unsynced_bytes_are_lost_and_synced_ones_kept(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()

    def note(call: str, how: str = "done", data: bytes = b"", at: int = 0) -> Note:
        return Note(call, how, 7, at, str(folder / ".t"), str(folder / "x"), data)

    notes = [note("open", "made"), note("write", data=b"ab"), note("fsync"), note("rename")]
    late = [note("open", "made"), note("write", data=b"ab"), note("rename"), note("fsync")]
    assert {"x": b"ab"} in list(crashes(folder, notes, folder))
    assert {"x": b""} not in list(crashes(folder, notes, folder))
    assert {"x": b"\0\0"} in list(crashes(folder, late, folder))
