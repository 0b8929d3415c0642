"""Documents that a schema may refer to: as they were given, and by what URIs they are found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_REFERENCE = re.compile(r'"\$(?:r|dynamicR|recursiveR)ef"\s*:\s*("(?:[^"\\]|\\.)*")')
_ANYWHERE = ("", ".", "..")
"""Last steps of a reference that say nothing of the document's name."""


class Reference(NamedTuple):
    """A document that may be referred to.

    Attributes:
        uri: It was given, or found, for this one; "" where it lies in a folder and nobody asked.
        file: As it was named, for people; "" where it was no file.
        tail: Its path within the folder, between slashes; "" where it was given for a URI.
        id: What it says of its own URI, absolute; "" where it says none.
        text: The JSON.
    """

    uri: str
    file: str
    tail: str
    id: str
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


class References:
    """Documents by URI: the one given for it, else the one whose ``$id`` it is, else by file name.

    A file of a folder is found by as many last steps of the URI's path as lead to it within the
    folder, with or without ``.json``; not by an absolute URI where it says that its own is another.
    What comes first in the list goes before.
    """

    def __init__(self, given: Iterable[Reference]) -> None:
        self.given = tuple(given)
        self._by_uri: dict[str, Reference] = {}
        self._by_id: dict[str, Reference] = {}
        self._by_tail: dict[str, Reference] = {}
        for one in self.given:
            if one.tail:
                self._by_tail.setdefault(one.tail, one)
                self._by_tail.setdefault(one.tail.removesuffix(".json"), one)
            if one.uri or not one.tail:
                self._by_uri.setdefault(without_fragment(one.uri), one)
            if one.id:
                self._by_id.setdefault(one.id, one)

    def find(self, uri: str) -> Reference | None:
        """Return the document of a URI without fragment; None where there is none."""
        found = self._by_uri.get(uri) or self._by_id.get(uri)
        if found is not None or not self._by_tail:
            return found
        scheme, path = _split(uri)
        steps = unquote(path).split("/")
        for first in range(len(steps)):
            found = self._by_tail.get("/".join(steps[first:]))
            if found is not None and not (scheme and found.id):
                return found
        return None

    def near(self, text: str) -> tuple[Reference, ...]:
        """Return the documents to which a schema's text may lead, all to which it does among them.

        Cost: one pass through the texts of what is returned; nothing is parsed.
        """
        by_name: dict[str, list[Reference]] = {}
        for one in self.given:
            for uri in (one.uri, one.id, one.tail, one.tail.removesuffix(".json")):
                by_name.setdefault(_last_step(uri), []).append(one)
        found: dict[Reference, None] = {}
        waiting = [text]
        while waiting and len(found) < len(self.given):
            read = waiting.pop()
            try:
                names = {_last_step(json.loads(match)) for match in _REFERENCE.findall(read)}
            except ValueError:
                return self.given  # no JSON, which whoever compiles it says
            if "\\u0024" in read or not names.isdisjoint(_ANYWHERE):
                return self.given
            for one in (one for name in names for one in by_name.get(name, ())):
                if one not in found:
                    found[one] = None
                    waiting.append(one.text)
        return tuple(one for one in self.given if one in found)


def without_fragment(uri: str) -> str:
    """Return a URI as documents are found by."""
    return uri.partition("#")[0]


def to_json(references: Sequence[Reference]) -> str:
    """Return documents as an artifact stores them, with their digests."""
    return json.dumps([one._asdict() | {"digest": one.digest} for one in references])


def from_json(stored: str) -> tuple[Reference, ...]:
    """Return the documents that an artifact stores.

    Raises:
        ValueError: It stores none in that form.
    """
    rows = json.loads(stored)
    if not isinstance(rows, list):
        raise ValueError("no list")
    try:
        found = tuple(Reference(*(row[name] for name in Reference._fields)) for row in rows)
    except (KeyError, TypeError) as error:
        raise ValueError("no documents") from error
    if not all(isinstance(value, str) for one in found for value in one):
        raise ValueError("no texts")
    if any(row.get("digest") != one.digest for row, one in zip(rows, found, strict=True)):
        raise ValueError("another digest")
    return found


def _split(uri: str) -> tuple[str, str]:
    """Return the scheme and the path of a URI; of one that cannot be split, all as its path."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "", uri
    return parts.scheme, parts.path


def _last_step(uri: str) -> str:
    if uri.startswith("#"):
        return "#"  # the document itself, whatever its name
    return unquote(re.split("[#?]", uri)[0]).rsplit("/", 1)[-1]
