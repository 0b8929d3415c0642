"""The manifest beside an output: which configuration wrote it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import orjson

from cdec.core.errors import Notice, OutputError, ResumeMismatchError
from cdec.core.files.whole import whole_file

FORMAT = 1
SUFFIX = ".manifest.json"

_KEYS = ("config_hash", "cdec_version", "config")
_ONLY_WITH = {"gamma": "draft"}
"""Entries that decide nothing where another is not set: they are not kept there, and passed over in
manifests that have them, whose defaults may be other ones."""


def manifest_path(output: Path) -> Path:
    """Return where the manifest of an output stands: ``out.jsonl.manifest.json``."""
    return output.with_name(output.name + SUFFIX)


def config_hash(config: Mapping[str, object]) -> str:
    """Return SHA-256 (hex) over a configuration as JSON with sorted keys."""
    return hashlib.sha256(orjson.dumps(config, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _decisive(config: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration without the entries that decide nothing."""
    return {
        key: value
        for key, value in config.items()
        if key not in _ONLY_WITH or config.get(_ONLY_WITH[key]) is not None
    }


def write_manifest(
    output: Path, config: Mapping[str, object], *, done: Mapping[str, object] | None = None
) -> None:
    """Write the manifest: whole or not at all, on disk before the first record.

    Args:
        output: The output it stands beside.
        config: All that decides what the records are; no secrets.
        done: What became of the records, where they are all there when it is written.

    Raises:
        OutputError: It cannot be written.
    """
    path, config = manifest_path(output), _decisive(config)
    manifest = {
        "format": FORMAT,
        "cdec_version": _version(),
        "config_hash": config_hash(config),
        "config": config,
        **({} if done is None else {"done": dict(done)}),
    }
    data = orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    try:
        with whole_file(path, force=True) as file:
            file.write(data)
    except OutputError as error:
        error.hint = error.hint or "check the disk and the permissions"
        raise


def check_manifest(
    output: Path, config: Mapping[str, object], *, unknown: Collection[str] = ()
) -> list[Notice]:
    """Compare the manifest of an output with the configuration that would continue it.

    Args:
        output: The output.
        config: As of ``write_manifest``.
        unknown: Keys that ``config`` does not have yet, which are not compared.

    Returns:
        A notice where another version of cdec wrote it; usually nothing.

    Raises:
        ResumeMismatchError: They differ (the message lists where), or the manifest is missing or
            damaged.
        OutputError: The system does not let it be read.
    """
    hash_then, version_then, whole = _read(output)
    then, config = _decisive(whole), _decisive(config)
    then = {key: value for key, value in then.items() if key not in unknown}
    if len(then) < len(whole):
        hash_then = config_hash(then)
    if hash_then != config_hash(config):
        now = orjson.loads(orjson.dumps(config))
        differing = [key for key in sorted({*then, *now}) if then.get(key) != now.get(key)]
        listed = "; ".join(
            f"{key} was {_shown(then.get(key))}, is {_shown(now.get(key))}" for key in differing
        )
        raise ResumeMismatchError(
            f"{output} was written with another configuration: {listed}",
            hint="resume with the same options, or start over with `force`",
            path=str(output),
            differing=differing,
        )
    if version_then != _version():
        return [
            Notice(
                "W_VERSION",
                f"{output} was begun by cdec {version_then},"
                f" this is {_version()}: records may differ",
            )
        ]
    return []


def _read(output: Path) -> tuple[str, str, dict[str, object]]:
    """Return the hash, the version and the configuration of the run that wrote the output."""
    path = manifest_path(output)
    problem = "is missing"
    try:
        manifest = orjson.loads(path.read_bytes())
        if isinstance(manifest, dict) and set(manifest) >= {*_KEYS}:
            hash_then, version_then, config_then = (manifest[key] for key in _KEYS)
            if isinstance(config_then, dict):
                return str(hash_then), str(version_then), config_then
        problem = "is no manifest"
    except FileNotFoundError:
        pass
    except OSError as error:
        # No reason to start over: what is there may be as good as ever.
        raise OutputError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="try again once that is mended; nothing was changed",
            path=str(path),
        ) from error
    except orjson.JSONDecodeError as error:
        problem = f"cannot be read: {error}"
    raise ResumeMismatchError(
        f"{output} cannot be resumed: its manifest {path.name} {problem}",
        hint="start over with `force`, or write to another file",
        path=str(path),
    )


def _shown(value: object) -> str:
    return "not set" if value is None else orjson.dumps(value).decode()


def _version() -> str:
    try:
        return version("cdec")
    except PackageNotFoundError:
        return "unknown"


def manifest_config(output: Path) -> dict[str, object]:
    """Return the configuration that wrote an output.

    Raises:
        ResumeMismatchError, OutputError: As ``check_manifest``.
    """
    return _read(output)[2]


def manifest_done(output: Path) -> dict[str, object]:
    """Return what ``write_manifest`` was told became of the records; empty for nothing.

    Raises:
        ResumeMismatchError, OutputError: As ``check_manifest``.
    """
    _read(output)
    done = orjson.loads(manifest_path(output).read_bytes()).get("done")
    return done if isinstance(done, dict) else {}
