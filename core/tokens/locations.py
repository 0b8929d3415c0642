"""Locations of models and tokenizers: the folders of shipped ones, and whether the hub answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path

from cdec.core.errors import ModelError

EMBEDDED = "embedded"
"""The name of the model that ships with the package."""
EMBEDDED_DRAFT = "embedded-draft"
"""The name of its draft, a smaller model of the same vocabulary."""

_FOLDERS = {EMBEDDED: "target", EMBEDDED_DRAFT: "draft"}


def located(name_or_path: str | PathLike[str]) -> str:
    """Return what to load: the folder of a shipped model for its name, else what was given."""
    folder = _FOLDERS.get(str(name_or_path))
    if folder is None:
        return str(name_or_path)
    # subtle: found as a resource and not imported, since core knows nothing of data's modules.
    return str(Path(str(files("cdec.data"))) / "embedded" / folder)


def named(path: str) -> str:
    """Return what to call a folder: a shipped model's place on this machine says nothing."""
    return next((name for name in _FOLDERS if located(name) == path), path)


def is_shipped(name: str) -> bool:
    """Say whether this is the name of a shipped model."""
    return name in _FOLDERS


def require_hub_name(name: str, missing: str) -> None:
    """Refuse a name that is no file here and can be none on the hub.

    Raises:
        ModelError: So it is; ``missing`` says what there is not.
    """
    if name.startswith(("/", ".", "~")) or name.count("/") > 1 or not name:
        raise ModelError(
            missing, hint="Check the path; a hub name has the form owner/name.", path=name
        )


ANSWERS_WITHIN = 3.0
"""Seconds after which the hub counts as unavailable."""
_HUB = "https://huggingface.co"
_SILENCING = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class HubUnavailable:
    """A reason why models can come from this machine only.

    Attributes:
        reason: The end of a sentence about a model that is not there.
        remedy: What lets the hub be asked, the beginning of a sentence.
    """

    reason: str
    remedy: str

    @property
    def hint(self) -> str:
        """Advice about a model that is not on this machine."""
        return f"{self.remedy}, or name a local folder or file"


def hub_unavailable(environment: Mapping[str, str] = os.environ) -> HubUnavailable | None:
    """Return why the hub is not asked; None where it answers.

    The libraries below ask a hub that is unavailable again and again, for a minute and more.

    Args:
        environment: Variables that forbid to ask, and ``HF_ENDPOINT``.

    Returns:
        The reason. Cost: one connection, at most ``ANSWERS_WITHIN`` seconds.
    """
    for variable in _SILENCING:
        if environment.get(variable, "").upper() in ("1", "ON", "YES", "TRUE"):
            return HubUnavailable(f"{variable} forbids to download it", f"unset {variable}")
    host, port = _place_of(environment.get("HF_ENDPOINT") or _HUB)
    if _answers(host, port):
        return None
    remedy = "look at the network (HF_HUB_OFFLINE=1 reads the cache without asking)"
    return HubUnavailable(f"{host} cannot be reached", remedy)


def _place_of(endpoint: str) -> tuple[str, int]:
    """Return whom a request to ``endpoint`` connects to: the hub, or a proxy before it."""
    # Brings protocols and certificates along, which nobody needs who asks no hub.
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    hub = urlsplit(endpoint)
    proxies = getproxies()
    proxy = proxies.get(hub.scheme) or proxies.get("all")
    if proxy and not proxy_bypass(hub.hostname or ""):
        hub = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return hub.hostname or "", hub.port or _PORTS.get(hub.scheme, 443)


def _answers(host: str, port: int) -> bool:
    # Not above: names of shipped models are asked for by every command.
    import socket
    import threading

    found = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=ANSWERS_WITHIN).close()
        except OSError:
            return
        found.set()

    # subtle: a look-up of the name has no timeout of its own, so it is left behind where it hangs.
    asking = threading.Thread(target=connect, daemon=True)
    asking.start()
    asking.join(ANSWERS_WITHIN)
    return found.is_set()
