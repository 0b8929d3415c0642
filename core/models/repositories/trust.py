"""A model repository that may be loaded: found, offline, without own code or pickled weights.

Everything is decided from its config, its list of files and its index of weights (``weights``),
before anything of it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cdec.core.errors import ModelError, TrustError
from cdec.core.models.repositories.weights import check_weights
from cdec.core.tokens.hub import Away, hub_away

_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_LAYERS = 1024
"""Layers that a config may ask for: each is an object before any weight is read."""
_MAX_EXPERTS = 65_536
_KERNELS = re.compile(r"_?(attn|experts)_implementation(_internal)?")
"""Keys of a config whose value may name a hub repository of compiled code."""
_FILES_THAT_NAME_CODE = ("config.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class Repository:
    """A model repository that may be loaded.

    Attributes:
        name: Folder or hub name.
        config: Its config.json.
        arguments: For every ``from_pretrained``: revision, trust, offline.
        away: Why the hub is not asked; None where it is, and for folders.
        allow_pickle: Whether weights may be pickles.
    """

    name: str
    config: Mapping[str, Any]
    arguments: dict[str, Any]
    away: Away | None
    allow_pickle: bool

    def weight_arguments(self) -> dict[str, Any]:
        """Return the argument of ``from_pretrained`` that rules out pickled weights."""
        return {} if self.allow_pickle else {"use_safetensors": True}


def open_repository(
    name: str,
    revision: str | None,
    trust_remote_code: bool,
    allow_pickle: bool,
    *,
    needs_weights: bool = True,
) -> Repository:
    """Find a repository and check what it asks for.

    Args:
        name: A folder, or a hub name.
        revision: Branch, tag or commit of a hub name.
        trust_remote_code: Run its own code; of a hub repository only at a full commit.
        allow_pickle: Accept pickled weights.
        needs_weights: False where only its tokenizer is wanted.

    Raises:
        ModelError: Not found, or no model, or one of more layers than there are.
        TrustError: Own code, compiled code of others, or weights that are pickles or lie outside.
    """
    away = None
    path = Path(name).expanduser()
    is_local = path.exists()
    if is_local:
        name = str(path)
        config = _folder_config(path, needs_weights)
        files = [file.name for file in path.iterdir()]
    else:
        _check_pin(name, trust_remote_code, revision)
        if name.startswith(("/", ".", "~")) or name.count("/") > 1 or not name:
            raise ModelError(
                f"there is no model folder at {name!r}",
                hint="Check the path; a hub name has the form owner/name.",
                path=name,
            )
        away = hub_away()
        config = _hub_config(name, revision, away)
        files = _hub_files(name, revision, away)
    _check_code(name, config, trust_remote_code)
    if needs_weights:
        _check_config(name, config)
        read = partial(_read_folder, path) if is_local else partial(_read_hub, name, revision, away)
        check_weights(name, files, config, read, allow_pickle)
    arguments = {
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "local_files_only": away is not None or is_local,
    }
    if revision is None:
        del arguments["revision"]
    return Repository(name, config, arguments, away, allow_pickle)


def _folder_config(folder: Path, needs_config: bool) -> dict[str, Any]:
    """Return what config.json says, and whose code tokenizer_config.json names."""
    import orjson

    if not folder.is_dir():
        raise ModelError(f"{folder} is a file; a model is a folder with a config.json")
    if needs_config and not (folder / "config.json").is_file():
        raise ModelError(
            f"the folder {folder} is no model: it has no config.json",
            hint="Name the folder that save_pretrained wrote.",
            path=str(folder),
        )
    found: dict[str, Any] = {}
    for name in reversed(_FILES_THAT_NAME_CODE):
        file = folder / name
        if not file.is_file():
            continue
        try:
            content = orjson.loads(file.read_bytes())
        except (OSError, ValueError) as error:
            raise ModelError(f"{file} cannot be read as JSON: {error}", path=str(file)) from error
        if not isinstance(content, dict):
            raise ModelError(f"{file} holds no JSON object", path=str(file))
        auto_map = content.get("auto_map") or found.get("auto_map")
        found = (
            {**content, "auto_map": auto_map} if name == "config.json" else {"auto_map": auto_map}
        )
    return found


def _hub_config(name: str, revision: str | None, away: Away | None) -> dict[str, Any]:
    from transformers import PretrainedConfig

    try:
        config, _ = PretrainedConfig.get_config_dict(
            name, revision=revision, local_files_only=away is not None
        )
    except Exception as error:  # OSError, ValueError, hub errors
        if away is not None:
            raise ModelError(
                f"the model {name} is not on this machine, and {away.reason}", hint=away.hint
            ) from error
        first = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"the model {name} was not found: {first}",
            hint="Check the name, or name a local folder.",
        ) from error
    return dict(config)


def _hub_files(name: str, revision: str | None, away: Away | None) -> list[str]:
    """Return a hub repository's files; none where the hub cannot be asked."""
    if away is not None:
        return []
    from huggingface_hub import list_repo_files

    try:
        return list(list_repo_files(name, revision=revision))
    except Exception:  # the load that follows reports what is wrong
        return []


def _check_code(name: str, config: Mapping[str, Any], trust_remote_code: bool) -> None:
    if config.get("auto_map") and not trust_remote_code:
        raise TrustError(
            f"{name} brings its own code, which is not run unless you trust it",
            hint="Read its code, then give `trust_remote_code` and `revision` COMMIT.",
            name=name,
        )


def _check_pin(name: str, trust_remote_code: bool, revision: str | None) -> None:
    if trust_remote_code and not _COMMIT.fullmatch(revision or ""):
        raise TrustError(
            f"`trust_remote_code` needs the commit of {name} whose code was read, "
            f"not {revision or 'its newest version'}",
            hint="Give `revision` with the 40 hex digits of a commit.",
            name=name,
        )


def _check_config(name: str, config: Mapping[str, Any]) -> None:
    """Refuse a config that names compiled code of others, or more layers than any model has."""
    for key, value in _entries(config):
        if _KERNELS.fullmatch(key) and "/" in str(value):
            raise TrustError(
                f"config.json of {name} names compiled code of a hub repository ({key}: {value}), "
                "which is not run",
                hint="Take the key out of config.json; `attn_implementation` chooses among those "
                "of torch.",
                name=name,
            )
        most = _MAX_LAYERS if "layer" in key else _MAX_EXPERTS if "expert" in key else None
        if most is not None and isinstance(value, int) and value > most:
            raise ModelError(
                f"config.json of {name} says {key} is {value}; at most {most} are built",
                hint="Correct config.json: it does not fit the weights.",
                name=name,
            )


def _entries(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a config and of all configs within it."""
    waiting: list[Any] = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield from value.items()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _read_folder(folder: Path, file: str) -> bytes | None:
    """Return a file of a folder; None where there is none."""
    try:
        return (folder / file).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ModelError(f"{folder / file} cannot be read: {error.strerror}") from error


def _read_hub(name: str, revision: str | None, away: Away | None, file: str) -> bytes | None:
    """Return a file of a hub repository, of its cached copy where the hub is away."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        path = hf_hub_download(name, file, revision=revision, local_files_only=away is not None)
        return Path(path).read_bytes()
    except (EntryNotFoundError, LocalEntryNotFoundError):
        return None
    except Exception as error:  # OSError, ValueError, hub errors
        first = str(error).strip().partition("\n")[0]
        raise ModelError(f"{file} of {name} cannot be read: {first}", name=name) from error
