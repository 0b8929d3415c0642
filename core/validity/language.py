"""What is said of a language to the process that judges texts, and by whom it is read there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Parse = Callable[[str, float], object]
"""Takes a text and the time (``time.process_time()``) to stop at; says whether it is a member, None
where that cannot be decided. Readers that are asked something else say other JSON."""


class OutOfTime(Exception):  # noqa: N818  # not an error: an answer
    """The deadline has passed."""


class Language(NamedTuple):
    """What decides whether a text is a member, compared by what it says.

    Attributes:
        reader: Dotted name of the module that reads it. It has ``parser_of(*parts)``, which returns
            a ``Parse`` (None where the parts cannot be read), and ``load()``, which does beforehand
            what all its parsers need.
        parts: As an artifact stores them.
    """

    reader: str
    parts: tuple[str, ...]
