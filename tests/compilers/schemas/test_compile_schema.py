"""Programs against the jsonschema package: the same values belong to a schema and its program."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cdec.compilers.schemas.compile import build_schema
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.schemas.errors import SchemaUnsupportedError
from cdec.core.tokens.vocabulary import Vocabulary
from tests.compilers.schemas.acceptor import Acceptor
from tests.compilers.schemas.random_schemas import random_document, random_value

BYTES = Vocabulary([*(bytes([i]) for i in range(256)), b""], [256], [256])


def program_of(schema: Any, **options: Any) -> Acceptor:
    """Return the acceptor of a schema."""
    columns, _, _ = build_schema(json.dumps(schema), BYTES, SchemaOptions(**options), Path("-"))
    return Acceptor(columns)


@pytest.mark.parametrize("seed", range(40))
def test_a_value_belongs_to_the_program_where_it_is_valid(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        schema = random_document(rng)
        values = [random_value(rng) for _ in range(25)]
        validator = jsonschema.Draft202012Validator(schema)
        expected = [validator.is_valid(value) for value in values]
        try:
            program = program_of(schema)
        except (SchemaUnsupportedError, LimitError):
            continue
        except EmptyLanguageError:
            assert not any(expected), schema
            continue
        for value, is_valid in zip(values, expected, strict=True):
            assert program(value) is is_valid, (schema, value)
