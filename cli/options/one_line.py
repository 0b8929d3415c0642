"""Options that give a constraint by its source, in the place of a compiled artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cdec.cli.frame.declaration import flag_of, option
from cdec.cli.options.shared import CONSTRAINT, THE_CONSTRAINT, require_utf8
from cdec.core.errors import UsageError
from cdec.core.files.remote import Place
from cdec.core.shown import cut

_source_option = partial(option, None, panel=CONSTRAINT, common=True, one_of=THE_CONSTRAINT)


@dataclass(frozen=True, kw_only=True)
class Source:
    """The source of a constraint, as it was typed.

    Attributes:
        kind: Key in ``SOURCE_KINDS``.
        name: Parameter that gave it.
        value: A file, a shipped grammar's name, a pattern, or texts between commas.
        tokenizer, model, revision: What to compile for; the embedded model's if all are None.
        compiled_with: By kind, the ``SourceOptions`` of those that are not compiled as usual.
    """

    kind: str
    name: str
    value: str
    tokenizer: str | None = None
    model: str | None = None
    revision: str | None = None
    compiled_with: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str | None:
        """The file that holds it; None for what was typed itself."""
        return self.value if self.name in _IN_FILES else None

    def __str__(self) -> str:
        return f"{flag_of(self.name)} {cut(self.value)}"


@dataclass(frozen=True, kw_only=True)
class OneLineOptions:
    """Sources that stand in the place of an artifact; at most one is given."""

    schema: str | None = _source_option("JSON Schema in the place of an artifact.", metavar="FILE")
    grammar: str | None = _source_option(
        "The same for a grammar, or a shipped one's name: json.", metavar="FILE"
    )
    regex: str | None = _source_option("The same for a pattern of Python's re.", metavar="PATTERN")
    choices: str | None = _source_option("The same for texts between commas.", metavar="A,B,...")
    choices_file: str | None = _source_option("The same for a file of texts.", metavar="FILE")
    spans_of: str | None = _source_option(
        "The same for a file of documents: texts are pieces of them, verbatim.",
        metavar="FILE",
        common=False,
    )

    @property
    def files(self) -> Sequence[str]:
        """The files that are given."""
        return [file for name in _IN_FILES if (file := getattr(self, name)) is not None]

    @property
    def flags(self) -> Sequence[str]:
        """The options that are given, as they are typed."""
        return [flag_of(name) for name in _KINDS if getattr(self, name) is not None]

    def constraint(
        self, artifact: Place | None, *, is_stdin_read: bool, **compiling: Any
    ) -> Place | Source | None:
        """Return the artifact of a run, or the source in its place; None where neither is given.

        Args:
            artifact: As typed, or of ``cdec.toml``.
            is_stdin_read: Whether something else comes from there.
            compiling: The other attributes of ``Source``: for what, and with what.

        Raises:
            UsageError: More than one is given, or what is given is no UTF-8, or stdin, which
                something else is read from.
        """
        given = [*([] if artifact is None else ["an artifact"]), *self.flags]
        if len(given) > 1:
            raise UsageError(
                f"{' and '.join(given)} each say what texts are held to, and a run has one such "
                "constraint",
                hint="give one of them; a further artifact that all texts satisfy is --and",
            )
        if not self.flags:
            return artifact
        (name,) = (name for name in _KINDS if getattr(self, name) is not None)
        text = require_utf8(getattr(self, name), flag_of(name))
        source = Source(kind=_KINDS[name], name=name, value=text, **compiling)
        if source.file == "-" and is_stdin_read:
            what = f"{flag_of(name)} is stdin, from which the input is read as well"
            raise UsageError(what, hint="name one of the files")
        return source


_KINDS: Mapping[str, str] = {
    "schema": "schema",
    "grammar": "grammar",
    "regex": "regex",
    "choices": "set",
    "choices_file": "set",
    "spans_of": "spans",
}
"""Parameter → the kind of source that it gives."""
_IN_FILES = ("schema", "grammar", "choices_file", "spans_of")
