"""Files of a recipe: places relative to its folder, and what they and its models hold."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from cdec.core.files.remote import is_url
from cdec.core.options import Option
from cdec.core.tokens.locations import located as place_of_model
from cdec.data.assets import grammar_names

_END_BYTES = 1 << 20
"""Read of the beginning and of the end of a file of weights."""


def located(option: Option, value: Any, folder: Path, but: Collection[str] = ()) -> Any:
    """Return a value of an option with the places in it taken relative to a folder.

    URLs and shipped names stay, and so do names of models that do not begin with a dot.

    Args:
        option: Says by its metavar whether values are places.
        value: As checked.
        folder: Of the recipe.
        but: Names of artifacts, which are no places.
    """
    if isinstance(value, list):
        return [located(option, each, folder, but) for each in value]
    if option.metavar in ("NAME=ARTIFACT", "URL=FILE"):
        name, equals, place = value.partition("=")
        return value if place in but else f"{name}{equals}{_located(place, folder)}"
    if option.metavar == "ARTIFACT" and str(value) in but:
        return value
    if option.metavar == "NAME_OR_PATH":
        return _located(value, folder) if value.startswith(("./", "../")) else value
    if option.metavar.startswith(("FILE", "ARTIFACT", "DIR")):
        place = _located(str(value), folder)
        is_shipped = str(value) in grammar_names() and not Path(place).exists()
        return value if is_shipped else type(value)(place)
    return value


def _located(place: str, folder: Path) -> str:
    return place if is_url(place) or place == "-" else str(folder / place)


def model_facts(name: str, revision: str | None) -> Mapping[str, str]:
    """Return what tells a model from another of its name.

    Args:
        name: As it is loaded.
        revision: On the hub.

    Returns:
        Of a folder a hash over the names, sizes, first and last bytes of its files; of the hub the
        commit, once it is there; otherwise nothing. Cost: 2 MiB read a file.
    """
    folder = Path(place_of_model(name)).expanduser()
    if folder.is_dir():
        digest = hashlib.sha256()
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            size = path.stat().st_size
            digest.update(f"{path.name} {size}\n".encode())
            with path.open("rb") as file:
                digest.update(file.read(_END_BYTES))
                file.seek(max(_END_BYTES, size - _END_BYTES))
                digest.update(file.read(_END_BYTES))
        return {"files": digest.hexdigest()}
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(name, "config.json", revision=revision)
    except ValueError:
        return {}  # no name of the hub: what loads the model says so
    return {"commit": Path(found).parent.name} if isinstance(found, str) else {}
