"""Takes out of a text what differs from run to run: places, durations, rates, process numbers."""

from __future__ import annotations

import hashlib
import re
import sys
from functools import cache
from pathlib import Path

JSON_RULES: tuple[tuple[str, str], ...] = (
    (r'"seconds":\{[^}]*\}', '"seconds":<durations>'),
    (r'"seconds":[0-9.e-]+', '"seconds":<duration>'),
    (r'"(tokens_per_second|wall)":[0-9.e-]+', r'"\1":<duration>'),
)
"""For lines that begin as JSON objects do: texts of models stay as they are."""
RULES: tuple[tuple[str, str], ...] = (
    *JSON_RULES,
    # The table row and the JSON object of how long each phase of a compilation took.
    (r"(?m)^(seconds +).*$", r"\1<durations>"),
    # How fast a run was, and the shares of its time, at the end of its summary.
    (r"( s| model calls?); ([0-9][0-9,.]* tokens/s, )?([a-z]+ [0-9]+%(, )?)+$", r"\1"),
    (r"\b[0-9][0-9,.]* ?(ms|s|seconds)\b(?=[^\w]|$)", "<duration>"),
    (r"\b[0-9][0-9,.]*(?= ?(tokens|prompts|records|texts|entities|samples)?/s\b)", "<rate>"),
    (r"a call of the draft costs [0-9.]+", "a call of the draft costs <ratio>"),
    (r"\bpid [0-9]+", "pid <pid>"),
    (r"\bprocess [0-9]+", "process <pid>"),
)
_DATE = re.compile(r"\bwritten [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}\b")


def dateless(text: str) -> str:
    """Return a text without the times at which artifacts were written."""
    return _DATE.sub("written <date>", text)


def timeless_gzip(data: bytes) -> bytes:
    """Return bytes with the time 0 in their gzip header, if they have one."""
    return data[:4] + bytes(4) + data[8:] if data.startswith(b"\x1f\x8b") else data


def placeless_digest(data: bytes) -> str | None:
    """Return the digest of an artifact's columns if its metadata has that of a folder's name.

    Such metadata differs from run to run, and with it the artifact's digest of itself.
    """
    if b'"allow_imports": "sha256:' not in data:
        return None
    import pyarrow as pa

    digest = hashlib.sha256()
    for batch in pa.ipc.open_file(data).read_all().to_batches():
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            digest.update(name.encode())
            for buffer in column.buffers():
                digest.update(buffer or b"")
    return digest.hexdigest()


def normalised(text: str, folder: Path) -> str:
    """Return a text without places and times.

    Args:
        text: Of a stream or a file.
        folder: The case's own; its path, and those of the package and of Python, become words.
    """
    for place in (str(folder.resolve()), str(folder)):
        text = text.replace(place, "<case>")
    text = text.replace(str(folder.parent), "<run>")
    for place, word in _places():
        text = text.replace(place, word)
    return dateless("\n".join(_timeless(line) for line in text.split("\n")))


def _timeless(line: str) -> str:
    for pattern, replacement in JSON_RULES if line.startswith("{") else RULES:
        line = re.sub(pattern, replacement, line)
    return line


@cache
def _places() -> list[tuple[str, str]]:
    import cdec.core

    package = Path(str(cdec.core.__file__)).parents[1]
    pairs = {
        str(package): "<package>",
        str(Path(str(cdec.core.__file__)).resolve().parents[1]): "<package>",
        sys.prefix: "<python>",
        sys.base_prefix: "<python>",
        str(Path.home()): "<home>",
    }
    return sorted(pairs.items(), key=lambda pair: -len(pair[0]))
