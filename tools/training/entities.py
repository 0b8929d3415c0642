"""Writes the entity lists: the names in the fact tables, and the names of Unicode characters."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator

from tools.training.fact_tables import read_table, table_names
from tools.training.facts import all_facts

# Prefixes of names that the Unicode standard derives from the code point alone.
ALGORITHMIC = ("CJK UNIFIED IDEOGRAPH-", "CJK COMPATIBILITY IDEOGRAPH-", "HANGUL SYLLABLE ")
# Columns that name no thing of their own.
NOT_NAMES = frozenset({"domain", "ordinal"})


def fact_entities() -> list[str]:
    """List every answer of every relation and every further name in the tables, sorted, unique."""
    names = {fact.answer for fact in all_facts()}
    for table in table_names():
        for row in read_table(table):
            names.update(value for column, value in row.items() if column not in NOT_NAMES)
    return sorted(names)


def unicode_names() -> Iterator[str]:
    """Yield the name of every named character, algorithmic ones left out, sorted."""
    names = (unicodedata.name(chr(code), "") for code in range(sys.maxunicode + 1))
    return iter(sorted({n for n in names if n and not n.startswith(ALGORITHMIC)}))
