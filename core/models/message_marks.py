"""Marks on the strings of chat messages, which tell them from what a chat template writes.

A special token is the template's own if its text holds no mark. Two kinds of marked messages are
rendered beside the plain ones, since a template may look at what it prints:

- *broken*: every letter with which a special token begins has a stand-in, so that none begins
  within a string of a message. Lengths, spaces at the ends and most words stay.
- *parted*: there is also a mark before the first letter of each string, so that none which the
  template begins goes on in a string: ``'<|' + role + '|>'``, as templates of some models write,
  would make ``<|end|>`` of the role ``end``.

Roles, types and names of fields that the template itself names stay as they are, for it compares
them; all others are marked like texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from cdec.core.errors import EncodingError

_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
_USUAL = frozenset({"system", "developer", "user", "assistant", "tool", "function", "text"})
"""Roles and types that templates print without naming each."""
_COMPARED = frozenset({"role", "type"})
"""Fields whose values templates compare."""
_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_VALUE = r"""(['"]){}\1"""
_FIELD = _VALUE + r"|\.{}\b"
"""How a template names a value that it compares, and a field that it reads."""
_START = re.compile(r"\S")


class MessageMarks:
    """The marks for some messages.

    Args:
        special: Texts of the special tokens; not empty.
        template: Source of the chat template.
        texts: All that is rendered, and the strings of the messages: marks are characters that
            stand in none of them.

    Raises:
        EncodingError: They hold all characters for private use.
    """

    def __init__(self, special: Collection[str], template: str, texts: Iterable[str]) -> None:
        self._template = template
        self._special = special
        letters = sorted({token[0] for token in special})
        mark, *stand_ins = _unused_characters([template, *special, *texts], len(letters) + 1)
        self._mark = mark
        self._stand_ins = str.maketrans(dict(zip(letters, stand_ins, strict=True)))
        self._undone = str.maketrans(dict(zip(stand_ins, letters, strict=True)) | {mark: None})

    def broken(self, messages: list[Any]) -> list[Any]:
        """Return messages in whose strings no special token begins."""
        return [self._marked(message, self._broken) for message in messages]

    def parted(self, messages: list[Any]) -> list[Any]:
        """Return the same, where none that began before a string goes on in it either."""
        return [self._marked(message, self._parted) for message in messages]

    def undo(self, rendered: str) -> str:
        """Return a rendering of marked messages without the marks."""
        return rendered.translate(self._undone)

    def _broken(self, text: str) -> str:
        return text.translate(self._stand_ins)

    def _parted(self, text: str) -> str:
        # After the spaces, which templates trim.
        return _START.sub(lambda first: self._mark + first[0], self._broken(text), count=1)

    def _marked(self, value: Any, mark: Callable[[str], str]) -> Any:
        if isinstance(value, str):
            return mark(value)
        if isinstance(value, Mapping):
            return {
                (
                    name
                    if not isinstance(name, str) or self._is_named(name, _FIELD)
                    else mark(name)
                ): (
                    part
                    if name in _COMPARED and self._is_named(part, _VALUE)
                    else self._marked(part, mark)
                )
                for name, part in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self._marked(part, mark) for part in value]
        return value

    def _is_named(self, word: Any, how: str) -> bool:
        """Whether a role, a type or the name of a field is the template's own."""
        if not isinstance(word, str) or word in self._special or not _WORD.fullmatch(word):
            return False
        return word in _USUAL or bool(re.search(how.replace("{}", re.escape(word)), self._template))


def strings_in(value: Any) -> Iterator[str]:
    """Yield every string inside a JSON value, names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from strings_in(name)
            yield from strings_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from strings_in(part)


def _unused_characters(texts: Iterable[str], count: int) -> list[str]:
    """Return characters for private use that stand in none of ``texts``.

    Raises:
        EncodingError: There are not as many.
    """
    used = set().union(*texts)
    unused = (chr(code) for code in chain(*_PRIVATE_USE) if chr(code) not in used)
    found = list(islice(unused, count))
    if len(found) < count:
        raise EncodingError(
            "the messages hold all characters for private use, which mark their texts",
            hint="Leave some of U+E000 to U+F8FF out.",
        )
    return found
