"""The options that say how a JSON Schema is read, which commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options import shared
from cdec.compilers.schemas.options import Escapes, Formats, NumberRange, PropertyOrder, Whitespace


@dataclass(frozen=True, kw_only=True)
class SchemaReadingOptions(CommonOptions):
    """What a JSON Schema means where the standard leaves it open, and what masks cannot hold."""

    lenient: Annotated[
        bool,
        Declared(
            "Where masks cannot enforce a keyword of a JSON Schema, record it (`unenforced`) and "
            "go on, instead of refusing the schema.",
            shared.CONSTRAINT,
            decides=True,
            common=True,
        ),
    ] = False
    property_order: Annotated[
        PropertyOrder,
        Declared(
            "Order of an object's properties: any, or as the schema declares them.",
            shared.CONSTRAINT,
            decides=True,
            common=True,
        ),
    ] = "any"
    whitespace: Annotated[
        Whitespace,
        Declared(
            "White space of JSON: as writers have it, any, none, or lines indented by 2 blanks.",
            shared.CONSTRAINT,
            decides=True,
            common=True,
        ),
    ] = "usual"
    escapes: Annotated[
        Escapes,
        Declared(
            "Escapes in JSON texts: those that writers have (usual: of printable ASCII only "
            "quotes and backslashes are escaped), or any.",
            shared.CONSTRAINT,
            decides=True,
        ),
    ] = "usual"
    formats: Annotated[
        Formats,
        Declared(
            "Whether `format` is enforced, or only an annotation.",
            shared.CONSTRAINT,
            decides=True,
        ),
    ] = "enforce"
    numbers: Annotated[
        NumberRange,
        Declared(
            "Numbers of JSON texts: those that doubles can hold, neither infinite nor taken for 0, "
            "or any.",
            shared.CONSTRAINT,
            decides=True,
        ),
    ] = "finite"
