"""Prompt templates: a few-shot prompt whose {field} places are filled from a record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from cdec.core.errors import FieldError, LimitError, UsageError
from cdec.data.input.lines import LineBlock, decode_line, numbered_lines
from cdec.data.input.source import bom_length, open_source, source_name
from cdec.data.near import near_hint


def read_text_file(path: str | Path, *, max_bytes: int, what: str, hint: str) -> str:
    """Read a file as one text; one newline at its very end, which editors add, is not part of it.

    Args:
        path: The file; ``-`` is stdin.
        max_bytes: Longest file.
        what: What it is, for the message of a file that is too long.
        hint: What to do about one.

    Raises:
        InputMissingError: It cannot be read.
        EncodingError: It is not UTF-8.
        LimitError: It is longer than ``max_bytes``.
    """
    name = source_name(path)
    data = bytearray()
    with open_source(path) as stream:
        # subtle: a pipe gives what it has, not what was asked for.
        while len(data) <= max_bytes and (part := stream.read(max_bytes + 1 - len(data))):
            data += part
    if len(data) > max_bytes:
        raise LimitError(
            f"{name} is longer than {max_bytes} bytes, too long for a {what}",
            hint=hint,
            limit=f"{what} bytes {max_bytes}",
        )
    start = bom_length(bytes(data[:3]))
    lines = [
        decode_line(line, name, number, offset)
        for number, offset, line in numbered_lines(LineBlock(1, start, bytes(data[start:])))
    ]
    return "\n".join(lines)


_MAX_BYTES = 16 << 20
_PLACE = re.compile(r"[^\W\d][\w .-]*|[1-9][0-9]*")
_PIECES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """Literal text and fields in turn: text, field, text, ..., text.

    Attributes:
        texts: The literal pieces, one more than there are places.
        fields: Name of the field of each place.
    """

    texts: tuple[str, ...]
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, name: str = "template") -> PromptTemplate:
        """Read a template: ``{field}`` is a place, ``{{`` and ``}}`` are braces.

        A place is the literal name of a field: no attributes, indices or formats, and a value's
        braces are never read again.

        Args:
            text: The template.
            name: For messages.

        Raises:
            UsageError: A brace that belongs to no place, or a place that is no field name.
        """
        texts, fields, at = [""], [], 0
        for match in _PIECES.finditer(text):
            texts[-1] += text[at : match.start()]
            at = match.end()
            piece, field = match.group(), match.group(1)
            if piece in ("{{", "}}"):
                texts[-1] += piece[0]
            elif field is not None and _PLACE.fullmatch(field):
                fields.append(field)
                texts.append("")
            else:
                line = text.count("\n", 0, match.start()) + 1
                raise UsageError(
                    f"{name}, line {line}: {piece!r} is no {{field}}",
                    hint="a field name stands alone between braces; write {{ and }} for braces",
                    line=line,
                )
        texts[-1] += text[at:]
        return cls(tuple(texts), tuple(fields))

    def fill(self, fields: Mapping[str, object], line: int, unit: str = "line") -> str:
        """Return the prompt for one record.

        Args:
            fields: The record's fields. Texts go in as they are, other values as JSON.
            line: The record's 1-based line, for messages.
            unit: What ``line`` counts: lines or rows.

        Raises:
            FieldError: A field is missing or null.
        """
        parts = [self.texts[0]]
        for field, text in zip(self.fields, self.texts[1:], strict=True):
            value = fields.get(field)
            if value is None:
                found = "is null" if field in fields else "is missing"
                raise FieldError(
                    f"{unit} {line}: field {field!r}, which the template uses, {found}",
                    hint=near_hint(
                        field, [name for name in fields if name != field], _listed(fields)
                    ),
                    line=line,
                    field=field,
                )
            parts += (value if isinstance(value, str) else orjson.dumps(value).decode(), text)
        return "".join(parts)


def _listed(fields: Mapping[str, object]) -> str:
    return f"the record has {', '.join(map(repr, fields)) or 'no fields'}"


def read_template(path: str | Path) -> PromptTemplate:
    """Read a template file; one newline at its very end, which editors add, is not part of it.

    Raises:
        InputMissingError: The file cannot be read.
        EncodingError: It is not UTF-8.
        LimitError: It is longer than 16 MiB.
        UsageError: It is no template.
    """
    text = read_text_file(
        path,
        max_bytes=_MAX_BYTES,
        what="template",
        hint="give the prompts as the input, and the text around them as the template",
    )
    return PromptTemplate.parse(text, str(path))
