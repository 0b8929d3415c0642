"""Whether the hub of models may be asked and answers, so that nobody waits for one that is away."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

ANSWERS_WITHIN = 3.0
"""Seconds after which the hub counts as away."""
_HUB = "https://huggingface.co"
_SILENCING = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Away:
    """Why models can come from this machine only.

    Attributes:
        reason: The end of a sentence about a model that is not there.
        remedy: What lets the hub be asked, the beginning of a sentence.
    """

    reason: str
    remedy: str

    @property
    def hint(self) -> str:
        """What to do about a model that is not on this machine."""
        return f"{self.remedy}, or name a local folder or file"


def hub_away(environment: Mapping[str, str] = os.environ) -> Away | None:
    """Return why the hub is not asked; None where it answers.

    The libraries below ask a hub that is away again and again, for a minute and more.

    Args:
        environment: Variables that forbid to ask, and ``HF_ENDPOINT``.

    Returns:
        The reason. Cost: one connection, at most ``ANSWERS_WITHIN`` seconds.
    """
    for variable in _SILENCING:
        if environment.get(variable, "").upper() in ("1", "ON", "YES", "TRUE"):
            return Away(f"{variable} forbids to download it", f"unset {variable}")
    host, port = _place_of(environment.get("HF_ENDPOINT") or _HUB)
    if _answers(host, port):
        return None
    remedy = "look at the network (HF_HUB_OFFLINE=1 reads the cache without asking)"
    return Away(f"{host} cannot be reached", remedy)


def _place_of(endpoint: str) -> tuple[str, int]:
    """Return whom a request to ``endpoint`` connects to: the hub, or a proxy before it."""
    # Brings protocols and certificates along, which nobody needs who asks no hub.
    from urllib.request import getproxies, proxy_bypass

    hub = urlsplit(endpoint)
    proxies = getproxies()
    proxy = proxies.get(hub.scheme) or proxies.get("all")
    if proxy and not proxy_bypass(hub.hostname or ""):
        hub = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return hub.hostname or "", hub.port or _PORTS.get(hub.scheme, 443)


def _answers(host: str, port: int) -> bool:
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
