"""Secrets: what must never appear in a message, a traceback or a manifest."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_KEY|AUTH(?!OR)", re.IGNORECASE
)
_SECRET_SHAPES = (
    re.compile(r"\bhf_[A-Za-z0-9]{8,}"),
    # User information of URLs, and of those that became a path, which has one slash.
    re.compile(r"(?<=:/)[^/\s?#]+(?=@)"),
    re.compile(r"(?<=://)[^/\s?#]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/-]{8,}=*"),
    re.compile(r"(?i)(?<=signature=)[^&\s]+"),
    re.compile(r"(?i)(?<=security-token=)[^&\s]+"),
)
_SECRET_PARAMETER = re.compile(
    r"([?&;][^=&\s]*(?:token|key|sig|secret|passw|credential|auth)[^=&\s]*=)[^&\s'\"]+",
    re.IGNORECASE,
)
_SHORTEST_SECRET = 4
REPLACEMENT = "[redacted]"


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return ``text`` without the values of secret-looking variables and secret-shaped words.

    Args:
        text: A message or a traceback.
        environment: Environment variables; None takes the process's. A variable is secret by its
            name (``HF_TOKEN``); values shorter than 4 characters are taken for switches.
    """
    for name, value in (os.environ if environment is None else environment).items():
        if len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name):
            text = text.replace(value, REPLACEMENT)
    for shape in _SECRET_SHAPES:
        text = shape.sub(REPLACEMENT, text)
    return _SECRET_PARAMETER.sub(rf"\1{REPLACEMENT}", text)
