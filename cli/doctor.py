"""``cdec doctor``: what is installed, and what installs what is missing."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions
from cdec.cli.frame.tables import flatten, print_json, print_table
from cdec.cli.options import shared
from cdec.core.errors import ExtraMissingError, NativeLibraryError

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<extras>[^]]*)\])?[^;]*"
    r"(?:;.*extra\s*==\s*[\"'](?P<extra>[^\"']+)[\"'])?"
)


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec doctor``; the documented defaults stand here."""

    json: bool = shared.json_option()


def execute(options: Options, run: Run) -> int:
    """Show versions, devices, caches, extras.

    Says how to install what is missing. Ends with status 69 where something that cdec needs is
    missing; extras may be.

    \b
    Examples:
      cdec doctor
      cdec doctor --json | jq .devices
    """
    required, extras = _requirements()
    packages = {name: _version(name) for name in required}
    library, unusable = _library()
    report: dict[str, object] = {
        "cdec": metadata.version("cdec"),
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "packages": packages,
        "library": library,
        "devices": _devices(),
        "caches": _caches(),
        "embedded_model": _embedded_model(),
        "extras": {name: _extra(name, packages) for name, packages in extras.items()},
    }
    missing = [name for name, version in packages.items() if version is None]
    if options.json:
        print_json(run.console, report | {"missing": missing})
    else:
        print_table(run.console, flatten(report))
    if unusable:
        raise unusable
    if missing:
        raise ExtraMissingError(
            f"packages that cdec needs are missing: {', '.join(missing)}",
            hint=f"pip install {' '.join(missing)}",
            missing=missing,
        )
    return 0


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Return the required packages, and those of each extra, from the installed metadata."""
    required: list[str] = []
    extras: dict[str, list[str]] = {}
    for text in metadata.requires("cdec") or []:
        match = _REQUIREMENT.match(text)
        if match is None or match["name"] == "cdec":
            continue
        if match["extra"]:
            extras.setdefault(match["extra"], []).append(match["name"])
        else:
            required.append(match["name"])
    return required, extras


def _library() -> tuple[str, NativeLibraryError | None]:
    """Return where the compiled library is, or why it cannot be used."""
    try:
        from cdec.core.native import load

        return str(load().__file__), None
    except NativeLibraryError as error:
        return f"unusable: {error.message}", error


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extra(name: str, packages: list[str]) -> dict[str, object]:
    absent = [package for package in packages if _version(package) is None]
    if not absent:
        return {"installed": True}
    return {"installed": False, "missing": absent, "install": f'pip install "cdec[{name}]"'}


def _devices() -> dict[str, object]:
    try:
        import torch
    except ImportError:
        return {"cpu": f"{os.cpu_count()} cores"}
    devices: dict[str, object] = {
        "cpu": f"{os.cpu_count()} cores, {torch.get_num_threads()} threads used by torch"
    }
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        memory = properties.total_memory / 2**30
        devices[f"cuda:{index}"] = f"{properties.name}, {memory:.1f} GiB"
    return devices


def _caches() -> dict[str, object]:
    import platformdirs

    from cdec.cli.compiling.kept import KeptArtifacts

    own = os.environ.get("CDEC_CACHE_DIR") or platformdirs.user_cache_dir("cdec")
    hub = os.environ.get("HF_HUB_CACHE") or str(
        Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser() / "hub"
    )
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    return {
        "cdec": _folder(own),
        "compiled": KeptArtifacts().described(),
        "models": _folder(hub),
        "hub_offline": offline,
    }


def _folder(path: str) -> str:
    folder = Path(path)
    if not folder.exists():
        return f"{path} (not there yet)"
    return path if os.access(folder, os.W_OK) else f"{path} (not writable)"


def _embedded_model() -> str:
    from cdec.core.errors import CdecError
    from cdec.data.assets import embedded_model_path

    try:
        return str(embedded_model_path())
    except CdecError as error:
        return f"missing: {error.message}"
