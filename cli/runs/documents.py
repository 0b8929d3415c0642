"""Verdicts of texts that quote the documents of their records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cdec.core.errors import CdecError, FieldError

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.sets.quotes import SpanField
    from cdec.data.prompts.record import BadRecord
    from cdec.data.prompts.texts import ScoreRecord


def verdicts_of_documents(
    records: Iterable[ScoreRecord | BadRecord],
    fields: Mapping[str, SpanField],
    constraint_of: Callable[[Mapping[str, str]], Constraint],
    shown: int,
) -> Iterator[dict[str, Any]]:
    """Say of each record whether its text is a member, with the documents that it brings.

    Args:
        records: Texts with the fields of their records.
        fields: Whose pieces are meant, by name.
        constraint_of: Makes the constraint of documents by name; those of neighbours are shared.
        shown: As ``text_verdicts`` has it.

    Yields:
        As ``text_verdicts``; where a record lacks a document, or it has no such piece, ``valid``
        is None, and ``error`` says why.

    Raises:
        CdecError: A line that cannot be read.
    """
    from cdec.core.constraint import text_verdicts
    from cdec.data.prompts.record import BadRecord

    last: Mapping[str, str] | None = None
    constraint: Constraint | None = None
    for record in records:
        if isinstance(record, BadRecord):
            raise record.error
        try:
            documents = {name: of.of(record.input or {}) for name, of in fields.items()}
            if constraint is None or documents != last:
                last, constraint = documents, constraint_of(documents)
            text = _text(record)
        except CdecError as error:
            yield {"text": record.text, "valid": None, "error": error.to_json()}
            continue
        yield from text_verdicts(constraint, [text], shown=shown)


def _text(record: ScoreRecord) -> bytes:
    if record.text is None:
        raise FieldError("the record has token ids and no text", hint="give the text", field="text")
    return record.text.encode("utf-8", "surrogatepass")
