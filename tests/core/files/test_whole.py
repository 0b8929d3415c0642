"""Files written whole or not at all, scratch folders, the user's cache."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import OutputError, OutputExistsError
from cdec.core.files import whole
from cdec.core.files.cache import CacheFolder
from cdec.core.files.whole import scratch_folder, whole_file

# --- A file is whole under its name or not there; nobody's link is followed, no litter grows.


def write(path: Path, data: bytes = b"new", *, force: bool = True) -> None:
    with whole_file(path, force=force) as file:
        file.write(data)


def test_nothing_is_there_before_the_block_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with whole_file(path, force=False) as file:
        file.write(b"x")
        assert not path.exists()
    assert path.read_bytes() == b"x"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, b"old")
    for raised in (OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()):
        expected = OutputError if isinstance(raised, OSError) else KeyboardInterrupt
        with pytest.raises(expected), whole_file(path, force=True) as file:
            file.write(b"half")
            raise raised
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, b"old")
    with pytest.raises(OutputExistsError):
        write(path, force=False)
    with pytest.raises(OutputExistsError), whole_file(tmp_path / "b", force=False):
        (tmp_path / "b").write_bytes(b"someone else's")
    assert path.read_bytes() == b"old"
    assert (tmp_path / "b").read_bytes() == b"someone else's"


def test_planted_links_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    path = tmp_path / "a"
    path.symlink_to(victim)
    write(path)
    assert not path.is_symlink()
    assert path.read_bytes() == b"new"
    # A name that somebody guessed is refused by the system.
    monkeypatch.setattr(secrets, "token_hex", lambda _: "00" * 6)
    (tmp_path / f".a.{'00' * 6}.partial").symlink_to(victim)
    with pytest.raises(OutputError):
        write(path, b"guessed")
    assert victim.read_bytes() == b"precious"
    assert path.read_bytes() == b"new"


def test_what_a_killed_writer_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    code = (
        "import os, sys; from cdec.core.files.whole import whole_file\n"
        "with whole_file(sys.argv[1], force=True) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".a.arrow.") and left.name.endswith(".partial")
    others = [".b.arrow.0123456789ab.partial", ".a.arrow.mine.partial", "a.arrow.partial"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    write(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*others, path.name])


def test_another_writers_file_is_not_swept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with whole_file(path, force=True) as file:
        file.write(b"slow")
        write(path, b"quick")
        assert path.read_bytes() == b"quick"
    assert path.read_bytes() == b"slow"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["hardlink_to", "flock"])
def test_file_systems_without_links_or_locks_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    owner: Any = Path if name == "hardlink_to" else whole.fcntl
    monkeypatch.setattr(owner, name, unsupported)
    (tmp_path / ".a.0123456789ab.partial").write_bytes(b"whose is it")
    write(tmp_path / "a", force=False)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == (1 if name == "hardlink_to" else 2)


def _artifact(path: Path) -> None:
    import numpy as np

    from cdec.core.artifacts.write import write_artifact

    write_artifact(path, "tree", {"x": np.zeros(3)}, {}, force=True)


def _counts(path: Path) -> None:
    from cdec.samplers.drafts.counts import Counts

    Counts("hash").save(path)


def _manifest(path: Path) -> None:
    from cdec.data.output.manifest import write_manifest

    write_manifest(path.with_name(path.name.removesuffix(".manifest.json")), {})


def _verified(path: Path) -> None:
    from cdec.core.artifacts.read import VerifiedFiles

    VerifiedFiles("test").remember(__file__, Path(__file__).stat(), "0")


def _trie(path: Path) -> None:
    from cdec.core.tokens.token_trie import TokenTrie
    from cdec.core.tokens.vocabulary import Vocabulary

    TokenTrie.of(Vocabulary([b"a", b""], [1]))


@pytest.mark.parametrize("writer", [_artifact, _counts, _manifest, _verified, _trie])
def test_every_file_of_cdec_is_written_this_way(
    writer: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    writer(tmp_path / "a.manifest.json")
    opened: list[tuple[str, int]] = []
    plain = os.open

    def watched(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            opened.append((Path(path).name, flags))
        return plain(path, flags, *rest, **named)

    def unlooked(*_: Any, **__: Any) -> Any:
        raise AssertionError("a file of cdec's own is written another way")

    monkeypatch.setattr(os, "open", watched)
    monkeypatch.setattr(Path, "write_text", unlooked)
    monkeypatch.setattr(Path, "write_bytes", unlooked)
    writer(tmp_path / "a.manifest.json")
    assert opened or writer is _trie  # a trie that is kept is read
    for name, flags in opened:
        assert name.startswith(".") and name.endswith(".partial")
        assert flags & os.O_EXCL and flags & os.O_NOFOLLOW


# --- Temporary folders: gone at their end, and gone with the next one after a kill.

_HOLDS = (
    "import sys, time\nfrom cdec.core.files.whole import scratch_folder\n"
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


# --- What others could have put into the user's cache counts as none.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheFolder:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    folder = CacheFolder("things", most=9, max_bytes=1000)
    folder.keep("a", b"kept")
    return folder


def test_what_is_kept_is_read_by_this_user_alone(folder: CacheFolder) -> None:
    assert folder.read("a") == b"kept"
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert (folder.path / "a").stat().st_mode & 0o777 == 0o600
    assert folder.read("b") is None


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(folder: CacheFolder, mode: int) -> None:
    folder.path.chmod(mode)
    assert folder.read("a") is None
    folder.keep("b", b"more")
    assert not (folder.path / "b").exists()
    folder.path.chmod(0o700)
    assert folder.read("a") == b"kept"


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_to_is_not_read(folder: CacheFolder, mode: int) -> None:
    (folder.path / "a").chmod(mode)
    assert folder.read("a") is None


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_another_user_is_not_read(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if os.geteuid() == 0:
        os.chown(folder.path if what == "folder" else folder.path / "a", 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert folder.read("a") is None


def test_links_pipes_and_large_files_are_not_read(folder: CacheFolder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"planted")
    (folder.path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder.path / "pipe", 0o600)
    folder.keep("large", bytes(1001))
    assert [folder.read(name) for name in ("link", "pipe", "large")] == [None] * 3
    folder.path.rename(tmp_path / "moved")
    folder.path.symlink_to(tmp_path / "moved")
    assert folder.read("a") is None


def test_the_oldest_files_go_first(folder: CacheFolder) -> None:
    small = CacheFolder("things", most=3, max_bytes=1000)
    for number in range(5):
        small.keep(str(number), b"x")
    assert sorted(file.name for file in folder.path.iterdir()) == ["2", "3", "4"]
