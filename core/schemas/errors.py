"""Errors of JSON Schemas, all of exit status 65; ``path`` is the JSON pointer within the schema.

SchemaError                    E_SCHEMA
├── SchemaJsonError            E_SCHEMA_JSON
├── SchemaInvalidError         E_SCHEMA_INVALID
├── SchemaKeywordError         E_SCHEMA_KEYWORD
├── SchemaRefError             E_SCHEMA_REF
└── SchemaUnsupportedError     E_SCHEMA_UNSUPPORTED
"""

from __future__ import annotations

from cdec.core.errors import DataError


class SchemaError(DataError):
    """A JSON Schema that cannot be compiled."""

    code = "E_SCHEMA"


class SchemaJsonError(SchemaError):
    """Text that is no JSON; ``line`` and ``column`` count from 1."""

    code = "E_SCHEMA_JSON"


class SchemaInvalidError(SchemaError):
    """JSON that is no JSON Schema."""

    code = "E_SCHEMA_INVALID"


class SchemaKeywordError(SchemaError):
    """A keyword that the standard does not know, where none may stand; ``keyword`` names it."""

    code = "E_SCHEMA_KEYWORD"


class SchemaRefError(SchemaError):
    """A reference to nothing, or to another document."""

    code = "E_SCHEMA_REF"


class SchemaUnsupportedError(SchemaError):
    """A keyword that masks cannot enforce where it stands; ``keyword`` names it."""

    code = "E_SCHEMA_UNSUPPORTED"
