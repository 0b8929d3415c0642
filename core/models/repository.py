"""Model repositories that may be loaded: found, offline, without own code or pickled weights.

Everything is decided from a repository's config, its list of files and its index of weights,
before anything of it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import orjson

from cdec.core.errors import ModelError, TrustError
from cdec.core.tokens.locations import HubUnavailable, hub_unavailable, require_hub_name

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
        unavailable: Why the hub is not asked; None where it is, and for folders.
        allow_pickle: Whether weights may be pickles.
    """

    name: str
    config: Mapping[str, Any]
    arguments: dict[str, Any]
    unavailable: HubUnavailable | None
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
    unavailable = None
    path = Path(name).expanduser()
    is_local = path.exists()
    if is_local:
        name = str(path)
        config = _folder_config(path, needs_weights)
        files = [file.name for file in path.iterdir()]
    else:
        _check_pin(name, trust_remote_code, revision)
        require_hub_name(name, f"there is no model folder at {name!r}")
        unavailable = hub_unavailable()
        config = _hub_config(name, revision, unavailable)
        files = _hub_files(name, revision, unavailable)
    _check_code(name, config, trust_remote_code)
    if needs_weights:
        _check_config(name, config)
        read = (
            partial(_read_folder, path)
            if is_local
            else partial(_read_hub, name, revision, unavailable)
        )
        check_weights(name, files, config, read, allow_pickle)
    arguments = {
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "local_files_only": unavailable is not None or is_local,
    }
    if revision is None:
        del arguments["revision"]
    return Repository(name, config, arguments, unavailable, allow_pickle)


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


def _hub_config(
    name: str, revision: str | None, unavailable: HubUnavailable | None
) -> dict[str, Any]:
    from transformers import PretrainedConfig

    try:
        config, _ = PretrainedConfig.get_config_dict(
            name, revision=revision, local_files_only=unavailable is not None
        )
    except Exception as error:  # OSError, ValueError, hub errors
        if unavailable is not None:
            raise ModelError(
                f"the model {name} is not on this machine, and {unavailable.reason}",
                hint=unavailable.hint,
            ) from error
        first = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"the model {name} was not found: {first}",
            hint="Check the name, or name a local folder.",
        ) from error
    return dict(config)


def _hub_files(name: str, revision: str | None, unavailable: HubUnavailable | None) -> list[str]:
    """Return a hub repository's files; none where the hub cannot be asked."""
    if unavailable is not None:
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


def _read_hub(
    name: str, revision: str | None, unavailable: HubUnavailable | None, file: str
) -> bytes | None:
    """Return a file of a hub repository, of its cached copy where the hub is unavailable."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        path = hf_hub_download(
            name, file, revision=revision, local_files_only=unavailable is not None
        )
        return Path(path).read_bytes()
    except (EntryNotFoundError, LocalEntryNotFoundError):
        return None
    except Exception as error:  # OSError, ValueError, hub errors
        first = str(error).strip().partition("\n")[0]
        raise ModelError(f"{file} of {name} cannot be read: {first}", name=name) from error


_SAFE = ".safetensors"
_INDEX = ".index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_ADAPTER = "adapter_config.json"
_INDICES = {
    f"model{_SAFE}{_INDEX}": (_SAFE,),
    f"pytorch_model.bin{_INDEX}": (_SAFE, *_PICKLES),
}
"""Files that list the shards of the weights, and how the shards' names may end."""


def check_weights(
    name: str,
    files: Iterable[str],
    config: Mapping[str, Any],
    read: Callable[[str], bytes | None],
    allow_pickle: bool,
) -> None:
    """Check which files transformers would read weights from.

    subtle: whether transformers reads a file as a pickle is decided by that file's name alone,
    whatever ``use_safetensors`` says, and an index may name any file.

    Args:
        name: Of the repository, for messages.
        files: Its files; none where that is not known.
        config: Its config.json, which may name the file of weights (``transformers_weights``).
        read: Returns a file's bytes; None where there is none.
        allow_pickle: Whether weights may be pickles.

    Raises:
        ModelError: No weights, an adapter's alone, or a damaged index.
        TrustError: Weights that are pickles and not allowed, or lie outside of the repository.
    """
    names = list(files)
    if names:
        _check_files(name, names, allow_pickle)
    if (not names or _ADAPTER in names) and read(_ADAPTER) is not None:
        raise ModelError(
            f"{name} is an adapter of another model ({_ADAPTER}); adapters are not loaded",
            hint="Merge it into its model (peft's merge_and_unload), save that, and name it.",
            name=name,
        )
    endings = (_SAFE, *_PICKLES) if allow_pickle else (_SAFE,)
    indices = dict(_INDICES)
    explicit = config.get("transformers_weights")
    if explicit is not None:
        _check_name(name, "config.json", explicit, (*endings, _SAFE + _INDEX))
        indices[explicit] = (_SAFE,)
    for index, own_endings in indices.items():
        if index.endswith(_INDEX) and (not names or index in names):
            content = read(index)
            for shard in () if content is None else _shards(name, index, content):
                _check_name(name, index, shard, [e for e in own_endings if e in endings])


def _check_files(name: str, files: list[str], allow_pickle: bool) -> None:
    if any(file.endswith(_SAFE) for file in files):
        return
    pickles = [file for file in files if file.endswith(_PICKLES)]
    if not pickles:
        raise ModelError(f"{name} has no weights", hint="Expected a .safetensors file.", name=name)
    if not allow_pickle:
        raise TrustError(
            f"{name} has pickled weights only ({min(pickles)}), which can run code when loaded",
            hint="Use a version with .safetensors, or give `allow_pickle` if you trust it.",
            name=name,
        )


def _shards(name: str, index: str, content: bytes) -> list[Any]:
    """Return the files that an index of weights names."""
    try:
        shards = set(orjson.loads(content)["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{index} of {name} is no index of weights: no JSON object with a weight_map",
            hint="Write it as save_pretrained does.",
            name=name,
        ) from error
    return sorted(shards, key=str)


def _check_name(name: str, where: str, file: object, endings: Iterable[str]) -> None:
    """Refuse a file of weights that is no file of the repository, or ends otherwise.

    Raises:
        TrustError: So it is.
    """
    said = f"{where} of {name} names the weights {file!r}"
    if not isinstance(file, str) or file != PurePath(file.replace("\\", "/")).name:
        raise TrustError(
            f"{said}, which are no file of the model's own folder",
            hint="Put the weights beside config.json and write the index as save_pretrained does.",
            name=name,
        )
    if not file.endswith(tuple(endings)):
        raise TrustError(
            f"{said}, which can run code when loaded; expected {' or '.join(endings)}",
            hint="Use a version with .safetensors, or give `allow_pickle` if you trust it.",
            name=name,
        )
