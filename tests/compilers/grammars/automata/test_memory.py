"""What passes a limit is counted before it is made: a refusal takes no memory to speak of."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import pytest

from cdec.compilers.grammars.compile import grammar_constraint
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.patterns import regex_constraint
from cdec.compilers.schemas.opened import schema_constraint
from cdec.core.errors import LimitError
from cdec.core.tokens.vocabulary import Vocabulary

BYTES = Vocabulary([*(bytes([b]) for b in range(256)), b""], [256])
_MOST = 150 << 20
"""Bytes that a refusal may take: those of the threads and states that were counted."""

NESTED = [
    r"(\w{1,500}[ -]){1,500}",
    r"(?:\w{1,300}\W){1,300}",
]


def _peak_of_refusal(make: Callable[[], object]) -> int:
    """Return the most bytes that were held at once until a LimitError came."""
    tracemalloc.start()
    try:
        with pytest.raises(LimitError):
            make()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pattern", NESTED)
def test_refusing_nested_counts_takes_little_memory(pattern: str) -> None:
    assert _peak_of_refusal(lambda: regex_constraint(pattern, BYTES)) < _MOST


def test_refusing_nested_counts_in_a_grammar_takes_little_memory() -> None:
    assert _peak_of_refusal(lambda: grammar_constraint(f"start: /{NESTED[1]}/", BYTES)) < _MOST


def test_refusing_nested_counts_in_a_schema_takes_little_memory() -> None:
    schema = json.dumps({"type": "string", "pattern": r"(\w{1,130}[ -]){1,130}"})
    assert _peak_of_refusal(lambda: schema_constraint(schema, BYTES)) < _MOST


def test_a_table_over_many_characters_is_counted() -> None:
    words = [chr(0x4E00 + i) + chr(0x4E00 + 7 * i % 2000) + "[a-z]?" for i in range(2000)]
    limits = GrammarLimits(max_states=5000)
    peak = _peak_of_refusal(lambda: regex_constraint("|".join(words), BYTES, limits=limits))
    # 5,000 states and 2,000 characters: 40 MB; allowed are 256 numbers a state, here 5 MB.
    assert peak < 30 << 20
