"""Opens URLs (``s3://``, ``gs://``, ``memory://``) through fsspec, imported on first use."""

from __future__ import annotations

import re
from typing import BinaryIO, cast

from cdec.core.errors import ExtraMissingError, InputMissingError

INSTALL = 'pip install "cdec[remote]"'
_URL = re.compile(r"[a-z][a-z0-9+.-]+(::[a-z0-9+.-]*)*://", re.IGNORECASE)
_IN_EXTRA = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
"""Packages of the extra ``remote``, by the kind of URL that they open."""


def is_url(source: object) -> bool:
    """Whether a source is the text of a URL; a path never is, since it has single slashes only."""
    return isinstance(source, str) and _URL.match(source) is not None


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
    try:
        import fsspec
    except ImportError as error:
        raise _missing(url, "fsspec", INSTALL) from error
    try:
        return cast(BinaryIO, fsspec.open(url, mode="rb").open())
    except ImportError as error:
        package = _IN_EXTRA.get(url.partition(":")[0].lower())
        # Of other kinds fsspec knows the package, and says so.
        hint = INSTALL if package is not None else f"install what fsspec names: {error}"
        raise _missing(url, package or "a package of its own", hint) from error
    except FileNotFoundError as error:
        raise InputMissingError(
            f"no such file: {url}", hint="check the name, and that you may read it", path=url
        ) from error
    except Exception as error:  # every file system has its own: no base class but this
        raise unreadable(url, error) from error


def unreadable(url: str, error: Exception) -> InputMissingError:
    """Return the error of a URL that could not be read, whatever its file system raised."""
    found = " ".join(str(error).split())
    return InputMissingError(
        f"cannot read {url}: {type(error).__name__}{': ' if found else ''}{found}",
        hint="check the name, the credentials and the connection",
        path=url,
    )


def _missing(url: str, package: str, install: str) -> ExtraMissingError:
    return ExtraMissingError(f"{url} cannot be read without {package}", hint=install)
