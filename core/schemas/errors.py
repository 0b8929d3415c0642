"""Errors of JSON Schemas, all of exit status 65; ``path`` is the JSON pointer within the schema."""

from __future__ import annotations

from cdec.core.errors import DataError


class SchemaError(DataError, code="E_SCHEMA"):
    """A JSON Schema that cannot be compiled."""


class SchemaJsonError(SchemaError, code="E_SCHEMA_JSON"):
    """Text that is no JSON; ``line`` and ``column`` count from 1."""


class SchemaInvalidError(SchemaError, code="E_SCHEMA_INVALID"):
    """JSON that is no JSON Schema."""


class SchemaKeywordError(SchemaError, code="E_SCHEMA_KEYWORD"):
    """A keyword that the standard does not know, where none may stand; ``keyword`` names it."""


class SchemaRefError(SchemaError, code="E_SCHEMA_REF"):
    """A reference to nothing, or to another document."""


class SchemaUnsupportedError(SchemaError, code="E_SCHEMA_UNSUPPORTED"):
    """A keyword that masks cannot enforce where it stands; ``keyword`` names it."""
