"""Places that an input names: files, folders, patterns, URLs; as files in their order."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from cdec.core.errors import InputMissingError, UsageError
from cdec.core.files.remote import Place, Url, file_system, is_url, readable
from cdec.data.rows.dataset import STATE, is_dataset
from cdec.data.rows.formats import ENDINGS, without_compression

_URL_PATTERN = re.compile(r"[*\[]")


@dataclass(frozen=True)
class InputFile:
    """A file of an input.

    Attributes:
        source: As ``open_source`` takes it.
        bytes: Its size; None where it was not asked for.
    """

    source: str
    bytes: int | None = None

    @property
    def name(self) -> str:
        """The last part of its name."""
        return PurePosixPath(self.source.partition("?")[0]).name


def input_files(places: Sequence[str]) -> list[InputFile]:
    """Return the files that places name: in the order of the places, within each by their names.

    A folder names the files in it, a pattern (``*``, ``?``, ``[...]``, ``**`` over folders) those
    that it matches; hidden ones, those that begin with an underscore and manifests are none. A
    saved dataset is one file. What is no folder and no pattern stands for itself and is not looked
    at.

    Args:
        places: Paths, URLs, ``"-"`` for stdin.

    Raises:
        InputMissingError: A folder or a pattern names no file, or cannot be read.
        UsageError: A folder holds a folder, or a file that is none of prompts by its name; a file
            is named twice.
        ExtraMissingError: A URL whose package is not installed.
    """
    found = [file for place in places for file in _files_of(place)]
    seen: set[str] = set()
    for file in found:
        if file.source in seen:
            raise UsageError(
                f"{_shown(file.source)} is named twice by `input`", hint="name each file once"
            )
        seen.add(file.source)
    return found


def names_many(place: str) -> bool:
    """Say whether a place stands for other files: a folder or a pattern."""
    if place == "-":
        return False
    if is_url(place):
        return _is_url_pattern(place) or _is_url_folder(place)
    path = Path(place)
    return (path.is_dir() and not is_dataset(path)) or _is_pattern(place)


def would_hold(place: str, output: Place) -> bool:
    """Say whether a folder or pattern would name a file, once that is there."""
    if place == "-" or is_url(place) != is_url(output):
        return False
    if isinstance(output, Url):
        folder = output.rpartition("/")[0]
        return folder == place.rstrip("/") or (_is_url_pattern(place) and fnmatch(output, place))
    whole = output.resolve()
    if _is_pattern(place):
        pattern = Path(place).absolute()
        # A star stands for one part of a path, two for any number.
        is_deep = "**" in place or len(pattern.parts) == len(whole.parts)
        return is_deep and fnmatch(str(whole), str(pattern).replace("**/", "*"))
    return names_many(place) and whole.parent == Path(place).resolve()


def _files_of(place: str) -> Iterator[InputFile]:
    if not names_many(place):
        yield InputFile(place)
        return
    if is_url(place):
        files = _of_url(place)
    elif _is_pattern(place):
        matches = sorted(glob.glob(place, recursive=True))  # noqa: PTH207  # may be absolute
        # subtle: ** matches folders as well, whose files it matches by themselves.
        files = [
            InputFile(name, _size(Path(name)))
            for name in matches
            if _counts(Path(name).name) and (Path(name).is_file() or is_dataset(name))
        ]
    else:
        files = _of_folder(Path(place))
    if not files:
        what = "matches no file" if _is_pattern(place) else "holds no files of prompts"
        raise InputMissingError(
            f"{place} {what}",
            hint=f"their names end in {', '.join(ENDINGS)}; check the name",
            path=place,
        )
    yield from files


def _of_folder(folder: Path) -> list[InputFile]:
    try:
        entries = sorted(path for path in folder.iterdir() if _counts(path.name))
    except OSError as error:
        raise InputMissingError(
            f"cannot read {folder}: {error.strerror}", hint="check the name", path=str(folder)
        ) from error
    _refuse_foreign(
        str(folder), ((path.name, path.is_dir() and not is_dataset(path)) for path in entries)
    )
    return [InputFile(str(path), _size(path)) for path in entries]


def _of_url(url: str) -> list[InputFile]:
    system, path = file_system(url)
    is_pattern = _is_url_pattern(url)
    with readable(url):
        found = (
            system.glob(path, detail=True).values() if is_pattern else system.ls(path, detail=True)
        )
        # subtle: some stores list a folder as an empty object in itself.
        entries = [entry for entry in found if entry["name"].strip("/") != path.strip("/")]
    named = {str(entry["name"]): entry for entry in entries}
    named = {name: named[name] for name in sorted(named) if _counts(PurePosixPath(name).name)}
    if is_pattern:
        named = {name: entry for name, entry in named.items() if entry["type"] == "file"}
    else:
        inside = {PurePosixPath(name).name: entry["type"] for name, entry in named.items()}
        if STATE in inside:
            raise UsageError(
                f"{url} holds a saved dataset, which is read from a folder of this machine",
                hint=f"copy it, or name its rows alone: `input` '{url.rstrip('/')}/*.arrow'",
            )
        _refuse_foreign(url, ((name, kind == "directory") for name, kind in inside.items()))
    # What stands before the file system's own part of a URL: simplecache::s3://...
    head = "".join(url.rpartition("::")[:2])
    return [
        InputFile(head + str(system.unstrip_protocol(name)), entry.get("size"))
        for name, entry in named.items()
    ]


def _refuse_foreign(folder: str, entries: Iterable[tuple[str, bool]]) -> None:
    """Refuse a folder with something in it that is no file of prompts.

    Args:
        folder: Its name.
        entries: Name of each entry, and whether that is a folder.

    Raises:
        UsageError: There is one.
    """
    entries = list(entries)
    good = (Path(name).suffix for name, is_folder in entries if _is_of_prompts(name))
    ending = next(filter(None, good), ".jsonl")
    for name, is_folder in entries:
        if is_folder or not _is_of_prompts(name):
            what = "the folder " if is_folder else ""
            why = "" if is_folder else ", which is no file of prompts by its name"
            pattern = f"{folder.rstrip('/')}/{'**/' if is_folder else ''}*{ending}"
            raise UsageError(
                f"{folder} holds {what}{name}{why}",
                hint=f"take it away, or say which files are meant: `input` '{pattern}'",
            )


def _is_of_prompts(name: str) -> bool:
    lower = without_compression(name)
    # One without any ending, as ``split`` makes them, is read as lines.
    return lower.endswith(ENDINGS) or "." not in lower


def _counts(name: str) -> bool:
    return not name.startswith((".", "_")) and not name.endswith(".manifest.json")


def _is_pattern(place: str) -> bool:
    if is_url(place):
        return _is_url_pattern(place)
    return glob.has_magic(place) and not Path(place).exists()


def _is_url_pattern(url: str) -> bool:
    return _URL_PATTERN.search(url) is not None and not _is_web(url)


def _is_web(url: str) -> bool:
    """Whether a URL is of the web, which has neither folders nor patterns."""
    return url.partition(":")[0].lower() in ("http", "https")


def _is_url_folder(url: str) -> bool:
    if _is_web(url):
        return False
    if url.endswith("/"):
        return True
    system, path = file_system(url)
    try:
        return bool(system.info(path)["type"] == "directory")
    except Exception:  # every file system has its own: whoever opens it says why
        return False


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _shown(source: str) -> str:
    return "stdin" if source == "-" else source
