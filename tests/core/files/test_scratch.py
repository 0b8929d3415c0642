"""Temporary folders: gone at their end, and gone with the next one after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cdec.core.files.scratch import scratch_folder

_HOLDS = (
    "import sys, time\nfrom cdec.core.files.scratch import scratch_folder\n"
    "with scratch_folder() as folder:\n"
    "    (folder / 'file').touch()\n    print(folder, flush=True)\n    time.sleep(60)\n"
)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_scratch_folder_goes_at_its_end(there: Path) -> None:
    with pytest.raises(KeyError), scratch_folder() as folder:
        assert folder.parent == there
        (folder / "a").mkdir()
        (folder / "a" / "b").write_bytes(b"x")
        raise KeyError
    assert not [*there.iterdir()]


def test_what_a_killed_process_left_goes_with_the_next_one_and_what_is_held_stays(
    there: Path,
) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", _HOLDS], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    folders = [Path(process.stdout.readline().strip()) for process in running if process.stdout]
    running[0].send_signal(signal.SIGKILL)
    running[0].wait()
    (there / "cdec-longernames").mkdir()
    (there / "cdec-a.file").touch()
    (there / "cdec-linkedxx").symlink_to(there)
    with scratch_folder() as own:
        left = {entry.name for entry in there.iterdir()}
    running[1].kill()
    running[1].wait()
    kept = {"cdec-longernames", "cdec-a.file", "cdec-linkedxx"}
    assert left == {own.name, folders[1].name, *kept}
    assert folders[0].name not in left


def test_folders_beside_an_output_are_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / ".a.arrow.abcd1234.runs").mkdir()
    (tmp_path / ".b.arrow.abcd1234.runs").mkdir()
    with scratch_folder(prefix=".a.arrow.", suffix=".runs", within=tmp_path) as folder:
        assert {entry.name for entry in tmp_path.iterdir()} == {
            folder.name,
            ".b.arrow.abcd1234.runs",
        }
        assert folder.stat().st_mode & 0o77 == 0
