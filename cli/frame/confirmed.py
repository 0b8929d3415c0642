"""Confirmation of a cdec.toml that names models: the folder may have been downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdec.cli.frame.config import Config
from cdec.cli.frame.declaration import CommonOptions, parameters_of
from cdec.cli.frame.spellings import flag_of
from cdec.core.errors import TrustError
from cdec.core.files.cache import CacheFolder

_FOLDER = "confirmed"
_MOST = 1000


def require_confirmed(
    config: Config,
    options_class: type[CommonOptions],
    configured: Mapping[str, Any],
    confirms: bool,
) -> None:
    """Refuse a file that names a model which nobody typed, unless it was confirmed as it stands.

    Args:
        config: The file.
        options_class: Of the command.
        configured: What the file gives that was not typed, by field name.
        confirms: Whether the file is confirmed now; its digest is remembered in the user's cache.

    Raises:
        TrustError: It names a model, and was never confirmed or has changed since.
    """
    known = parameters_of(options_class)
    named = [
        (name, value)
        for name, value in configured.items()
        if (says := known[name].declared.names_model) and value is not None and says(str(value))
    ]
    if not named:
        return
    folder = CacheFolder(_FOLDER, most=_MOST, max_bytes=0)
    if confirms:
        folder.keep(config.digest, b"")
    elif folder.read(config.digest) is None:
        name, value = named[0]
        raise TrustError(
            f"{config.path} names the {name} {value!r}, which nobody typed; a file that was found "
            "may name models that ship with the package only",
            hint=f"type {flag_of(name)} {value}, or confirm the file as it stands with "
            "--trust-config, once",
            path=str(config.path),
            key=name,
        )
