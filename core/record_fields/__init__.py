"""RECORD_FIELDS: every field of every output record, with its meaning, said once.

What selects fields, the reference page and the tests of records read this table, which ``texts``,
``masses`` and ``costs`` make up; ``declared`` says what a field is, ``text_warnings`` what is amiss
with a text; ``shown`` is how objects that carry fields look at a prompt and in notebooks.
"""

from __future__ import annotations

from cdec.core.record_fields.costs import COSTS
from cdec.core.record_fields.declared import RecordField as RecordField
from cdec.core.record_fields.masses import MASSES
from cdec.core.record_fields.texts import TEXTS

RECORD_FIELDS: tuple[RecordField, ...] = (*TEXTS, *MASSES, *COSTS)
"""All fields, those of samples in the order of the record."""


def fields_of(command: str) -> tuple[str, ...]:
    """Return the names of the fields that a command's records can have.

    Args:
        command: ``sample``, ``score``, ``mass``, ``classify``, ``check`` or ``retokenize``.
    """
    return tuple(field.name for field in RECORD_FIELDS if command in field.of)
