"""URLs (``s3://``, ``gs://``, ``memory://``): read through fsspec, imported on first use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from cdec.core.errors import CdecError, ExtraMissingError, InputMissingError

INSTALL = 'pip install "cdec[remote]"'
_URL = re.compile(r"[a-z][a-z0-9+.-]+(::[a-z0-9+.-]*)*://", re.IGNORECASE)
_IN_EXTRA = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "http": "aiohttp"}
"""Packages of the extra ``remote``, by the kind of URL that they open."""

_COMMON = ("s3", "gs", "az", "abfs", "hf", "http", "https", "file", "memory", "sftp", "hdfs")

FilePath: TypeAlias = "str | PathLike[str]"
"""A path, or the text of a URL."""


class Url(str):
    """The text of a URL, told from a path by its type: what was typed as one place or the other."""

    __slots__ = ()


Place: TypeAlias = Url | Path
"""Location of a file."""


def place_of(text: str) -> Place:
    """Return what a text names: a URL as it stands, everything else as a path."""
    return Url(text) if is_url(text) else Path(text)


def is_url(source: object) -> bool:
    """Say whether a source is the text of a URL; a path has single slashes only."""
    return isinstance(source, str) and _URL.match(source) is not None


def public_name(source: str) -> str:
    """Return what may be kept of a source's name: of a URL nothing that lets its bearer in.

    User information, query and fragment go; what is no URL stays as it is.
    """
    if not is_url(source):
        return source
    kind, _, rest = source.partition("://")
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{kind}://{host.rpartition('@')[2]}{slash}{path}"


def open_url(url: str) -> BinaryIO:
    """Open a URL for reading bytes; the caller closes it.

    Credentials and endpoints are those that the file system's own package finds: its environment
    variables and configuration files, and fsspec's.

    Args:
        url: As fsspec takes it.

    Returns:
        A file that can be read from any place where the file system allows that.

    Raises:
        ExtraMissingError: fsspec or the package of this kind of URL is not installed.
        InputMissingError: Nothing there, no permission, no connection, no such kind of URL.
    """
    fsspec = _fsspec(url)
    with readable(url):
        return cast(BinaryIO, fsspec.open(_lower(url), mode="rb").open())


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, as fsspec has it, and what the URL is called there.

    What it remembers of listings is forgotten first: others write there, too.

    Raises:
        ExtraMissingError, InputMissingError: As ``open_url``, but for what only its file tells.
    """
    fsspec = _fsspec(url)
    with readable(url):
        system, path = fsspec.core.url_to_fs(_lower(url))
        system.invalidate_cache()
        return system, path


@contextmanager
def readable(url: str) -> Iterator[None]:
    """Let what a file system raises while a URL is read become errors that say what to do.

    Raises:
        ExtraMissingError, InputMissingError: As ``open_url``.
    """
    try:
        yield
    except CdecError:
        raise
    except ImportError as error:
        package = _IN_EXTRA.get(url.partition(":")[0].lower().replace("https", "http"))
        # Of other kinds fsspec knows the package, and says so.
        hint = INSTALL if package is not None else f"install what fsspec names: {error}"
        raise _missing(url, package or "a package of its own", hint) from error
    except FileNotFoundError as error:
        raise InputMissingError(
            f"no such file: {public_name(url)}",
            hint="check the name, and that you may read it",
            path=public_name(url),
        ) from error
    except Exception as error:  # every file system has its own: no base class but this
        raise unreadable(url, error) from error


def unreadable(url: str, error: Exception) -> InputMissingError:
    """Return the error of a URL that could not be read, whatever its file system raised."""
    name = public_name(url)
    found = " ".join(str(error).replace(url, name).split())
    return InputMissingError(
        f"cannot read {name}: {type(error).__name__}{': ' if found else ''}{found}",
        hint="check the name, the credentials and the connection",
        path=name,
    )


def meant_url(path: str) -> str | None:
    """Return the URL that a path is that lost a slash or its colon; None for any other path."""
    kind, _, rest = path.partition("/")
    is_one = kind.removesuffix(":").lower() in _COMMON[:5] and bool(rest.strip("/"))
    return f"{kind.removesuffix(':')}://{rest.lstrip('/')}" if is_one else None


def _lower(url: str) -> str:
    """Return a URL with its kind as fsspec knows it."""
    kind, colon, rest = url.partition(":")
    return kind.lower() + colon + rest


def _fsspec(url: str) -> Any:
    try:
        import fsspec
        import fsspec.core
    except ImportError as error:
        raise _missing(url, "fsspec", INSTALL) from error
    kind = url.partition(":")[0].lower()
    if kind not in fsspec.available_protocols():
        close = get_close_matches(kind, _COMMON, n=1)
        raise InputMissingError(
            f"cannot read {public_name(url)}: there is no kind of URL {kind}://",
            hint=f"did you mean {close[0]}://?" if close else "write for example s3://BUCKET/NAME",
            path=public_name(url),
        )
    return fsspec


def _missing(url: str, package: str, install: str) -> ExtraMissingError:
    return ExtraMissingError(f"{public_name(url)} cannot be read without {package}", hint=install)
