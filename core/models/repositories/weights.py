"""Weight files of a model repository: which are read, none of them a pickle or outside of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

import orjson

from cdec.core.errors import ModelError, TrustError

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
