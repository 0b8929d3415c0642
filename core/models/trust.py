"""What a model repository holds and what it may do: found, offline, own code, pickled weights.

Everything is decided from its config and its list of files, before anything of it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdec.core.errors import ModelError, TrustError
from cdec.core.tokens.hub import Away, hub_away

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
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
        ModelError: Not found, or no model.
        TrustError: Own code or pickled weights that were not allowed.
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
    if needs_weights and files:
        _check_weights(name, files, allow_pickle)
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


def _check_weights(name: str, files: list[str], allow_pickle: bool) -> None:
    if any(file.endswith(".safetensors") for file in files):
        return
    pickles = [file for file in files if any(Path(file).match(glob) for glob in _PICKLES)]
    if not pickles:
        raise ModelError(f"{name} has no weights", hint="Expected a .safetensors file.", name=name)
    if not allow_pickle:
        raise TrustError(
            f"{name} has pickled weights only ({min(pickles)}), which can run code when loaded",
            hint="Use a version with .safetensors, or give `allow_pickle` if you trust it.",
            name=name,
        )
