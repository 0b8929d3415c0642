"""The library's words as they are typed: a parameter in backquotes becomes its option.

Errors and notices of the library name a parameter in backquotes, as it is called in Python: "raise
`max_rules`, or split the grammar". Here, and nowhere else, it becomes "raise --max-rules, ...".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from cdec.cli.frame.spellings import SPELLINGS, flag_of
from cdec.core.errors import CdecError, Notice
from cdec.integrations.records.tasks import error_object

_PARAMETER = re.compile(r"""(?<!\w)(['"])(?:\\.|(?!\1).)*\1(?!\w)|`([A-Za-z_]+)`""", re.DOTALL)
"""What stands in quotes is somebody's text and stays, whatever is in it; else a word in
backquotes."""


def in_typed_words(text: str) -> str:
    """Return ``text`` with options for the parameters in backquotes; other words stay."""
    return _PARAMETER.sub(_typed, text)


def typed_error(error: CdecError) -> CdecError:
    """Let an error name options in its message and hint; the error itself is changed."""
    error.message = in_typed_words(error.message)
    error.args = (error.message,)
    error.hint = None if error.hint is None else in_typed_words(error.hint)
    return error


def typed_notice(notice: Notice) -> Notice:
    """Return a notice that names options."""
    return Notice(notice.code, in_typed_words(notice.message), notice.details)


def notice_objects(notices: Iterable[Notice]) -> list[dict[str, object]]:
    """Return notices as the JSON-ready objects of a summary."""
    typed = map(typed_notice, notices)
    return [{"code": note.code, "message": note.message, **note.details} for note in typed]


def record_error(error: CdecError, record_id: object) -> dict[str, object]:
    """Return the object that stands in a failed record's place in the output."""
    return error_object(typed_error(error), record_id)


def _typed(match: re.Match[str]) -> str:
    name = match[2]
    return flag_of(name) if name in _parameters() else match[0]


@cache
def _parameters() -> frozenset[str]:
    """Return the names of all parameters that some command has an option for."""
    from cdec.cli.frame.config import option_fields
    from cdec.cli.frame.registry import COMMANDS, options_class_of

    fields = (option_fields(options_class_of(command)).values() for command in COMMANDS)
    return frozenset(option.name for command in fields for option in command) | SPELLINGS.keys()
