"""schema_constraint: a JSON Schema or a Python type as a constraint, without a file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.compilers.schemas.compile import build_schema
from cdec.compilers.schemas.keywords.scalars import TYPE_NOTICES
from cdec.compilers.schemas.options import SchemaOptions
from cdec.compilers.schemas.typed.kinds import is_type, schema_text, value_parser
from cdec.core.artifacts.opened import bind_arrays
from cdec.core.artifacts.read import UNNAMED
from cdec.core.errors import UsageError
from cdec.core.schemas.schema_constraint import SchemaConstraint

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary


def schema_constraint(
    source: Any, vocabulary: Vocabulary, options: SchemaOptions | None = None
) -> SchemaConstraint:
    """Make a constraint of a JSON Schema, in memory: what ``compile_schema`` would write, opened.

        class City(pydantic.BaseModel):
            name: str
            people: int

        city = schema_constraint(City, model.vocabulary)
        sample(model, city, "The largest city:")[0].parsed  # a City

    Args:
        source: The schema's text, the schema as a dict or a bool, or a Python type: a Pydantic
            model, a dataclass, a TypedDict, an Enum, a Literal, any annotation made of these.
        vocabulary: Of the model that will draw.
        options: What it is compiled with.

    Returns:
        The constraint of that vocabulary. ``sample.parsed`` is a value of the type, or JSON. What
        the type asks and masks do not see to, such as validators of its own, is named by a
        ``UserWarning`` and in ``unenforced``.

    Raises:
        CdecError: As ``compile_schema``, but for the file.
    """
    options = options or SchemaOptions()
    arrays, metadata, report = build_schema(schema_text(source), vocabulary, options, Path(UNNAMED))
    for notice in report.notices:
        if notice.code in TYPE_NOTICES:
            warnings.warn(notice.message, stacklevel=2)
    bound = bind_arrays("schema", arrays, metadata, vocabulary)
    return typed(bound, source) if is_type(source) else _of_schema(bound)


def typed(constraint: Constraint, kind: Any) -> SchemaConstraint:
    """Return a schema's constraint whose samples' ``parsed`` is a value of a Python type.

        typed(open_artifact("city.arrow"), City)

    Args:
        constraint: Such as an artifact that ``compile_schema`` made of the type.
        kind: The type.

    Raises:
        UsageError: The constraint is none of a schema, or the type has no schema.
    """
    return _of_schema(constraint).read_by(value_parser(kind))


def _of_schema(constraint: Constraint) -> SchemaConstraint:
    if not isinstance(constraint, SchemaConstraint):
        raise UsageError(
            "texts of this constraint are no JSON of a schema",
            hint="give a constraint that was made of a JSON Schema or a type",
        )
    return constraint
