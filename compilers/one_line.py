"""choices, regex, grammar, schema, tools, spans: constraints, made for the model that draws."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cdec.core.constraint import Constraint
from cdec.core.constraint_source import ConstraintSource
from cdec.core.recent import Recent
from cdec.core.shown import cut, line

if TYPE_CHECKING:
    from cdec.compilers.grammars.options import Pattern
    from cdec.compilers.schemas.options import SchemaOptions
    from cdec.compilers.schemas.references import Refs
    from cdec.core.tokens.vocabulary import Vocabulary

_EBNF_ENDINGS = (".ebnf", ".gbnf")
_MOST = 8
"""Vocabularies for which a source's constraints are kept."""


def choices(texts: Iterable[str | Mapping[str, Any]], **options: Any) -> ConstraintSource:
    """Return the constraint of some texts, made for the model that draws.

        sample(model, choices(["red", "green"]), "The colour of grass is")

    Args:
        texts: Members: strings, or mappings with ``text`` and perhaps ``id``.
        options: As ``set_constraint`` takes them: ``prefix``, ``suffix``, ``deny``, ...

    Returns:
        What ``sample`` takes in the place of a constraint. Cost: as ``set_constraint``, once a
        vocabulary.

    Raises:
        TypeError: There is no such option.
    """
    from cdec.compilers.sets.compile import set_constraint
    from cdec.compilers.sets.options import require_list

    require_list("texts", texts)
    given = tuple(texts)
    return _Source("choices", f"{len(given):,} texts", partial(set_constraint, given, **options))


def regex(pattern: Pattern, **options: Any) -> ConstraintSource:
    r"""Return the constraint of a regular expression, made for the model that draws.

        sample(model, regex(r"\d{4}-\d{2}-\d{2}"), "The date of the moon landing:")

    Args:
        pattern: As ``compile_regex`` takes it.
        options: As ``regex_constraint`` takes them: ``conjoined``, ``deny_regex``, ``limits``.

    Returns:
        What ``sample`` takes in the place of a constraint. Cost: as ``regex_constraint``, once a
        vocabulary.
    """
    from cdec.compilers.grammars.options import pattern_text
    from cdec.compilers.grammars.patterns import regex_constraint

    return _Source("regex", pattern_text(pattern), partial(regex_constraint, pattern, **options))


def grammar(
    source: str | bytes | Path, *, sets: Mapping[str, Any] | None = None, **options: Any
) -> ConstraintSource:
    """Return the constraint of a grammar, made for the model that draws.

        sample(model, grammar('start: "yes" | "no"'), "Is grass green?")

    Args:
        source: The grammar's text, or the path of its file: GBNF where it ends so.
        sets: Those that it declares, by name, as ``Constraint.with_sets`` takes them.
        options: As ``grammar_constraint`` takes them: ``start``, ``lexer``, ``format``, ...

    Returns:
        What ``sample`` takes in the place of a constraint. Cost: as ``grammar_constraint``, once a
        vocabulary.

    Raises:
        InputMissingError: The file cannot be read.
    """
    from cdec.compilers.grammars.compile import grammar_constraint

    if isinstance(source, Path):
        if source.suffix in _EBNF_ENDINGS:
            options = {"format": "ebnf"} | options
        source = _read(source)
    make = partial(_with_sets, partial(grammar_constraint, source, **options), sets or {})
    return _Source("grammar", source, make)


def schema(
    source: Any,
    options: SchemaOptions | None = None,
    *,
    refs: Refs = (),
    sets: Mapping[str, Any] | None = None,
) -> ConstraintSource:
    """Return the constraint of a JSON Schema or a Python type, made for the model that draws.

        class City(pydantic.BaseModel):
            name: str
            people: int

        sample(model, schema(City), "The largest city:")[0].value()  # a City

    Args:
        source: A schema as a dict, a bool, its text or the path of its file; or a Pydantic model, a
            dataclass, a TypedDict, or another type that ``schema_constraint`` takes.
        options: As ``schema_constraint`` takes them.
        refs: Documents that it may refer to, beside those of the options, by URI, or a folder of
            them, as ``compile_schema`` takes them.
        sets: Those that ``x-cdec-set`` names, as ``Constraint.with_sets`` takes them.

    Returns:
        What ``sample`` takes in the place of a constraint. Cost: as ``schema_constraint``, once a
        vocabulary.

    Raises:
        InputMissingError: The file cannot be read.
    """
    from cdec.compilers.schemas.opened import schema_constraint
    from cdec.compilers.schemas.options import SchemaOptions
    from cdec.compilers.schemas.references import references_of

    options = options or SchemaOptions()
    read = references_of(refs, options.limits)
    options = replace(options, references=(*read, *options.references))
    given = _read(source) if isinstance(source, Path) else source
    said = getattr(source, "__name__", None) or source
    make = partial(schema_constraint, given, options=options)
    return _Source("schema", said, partial(_with_sets, make, sets or {}))


def tools(
    definitions: Any,
    *,
    only: str | None = None,
    parallel: bool = False,
    options: SchemaOptions | None = None,
) -> ConstraintSource:
    """Return the constraint of calls of tools as JSON, made for the model that draws.

        add = {"type": "function", "function": {"name": "add", "parameters": {...}}}
        sample(model, tools([add]), prompt)[0].value()  # {"name": "add", "arguments": {...}}

    Args:
        definitions: Functions as chat models are given them, a list or its JSON text.
        only: Name of the function that alone may be called; None for all of them.
        parallel: Whether texts are lists of calls, one or several, in the place of one call.
        options: As ``schema_constraint`` takes them.

    Returns:
        What ``sample`` takes in the place of a constraint. Formats of other families, and texts
        that may call or not, are had with ``free`` (``between=("<tool_call>", "</tool_call>")``),
        or with the ``tools`` of ``RecordSampler``. Cost: as ``schema_constraint``, once a
        vocabulary: 0.4 s for 400 functions.

    Raises:
        SchemaInvalidError: They are no such list, or have no function ``only``.
    """
    from cdec.compilers.schemas.opened import schema_constraint
    from cdec.compilers.schemas.tools import CallForm, schema_of_tools

    text = definitions if isinstance(definitions, str | bytes) else json.dumps(definitions)
    source = schema_of_tools(text, form=CallForm(is_list=parallel, only=only))
    return _Source("tools", source, partial(schema_constraint, source, options=options))


def spans(
    documents: str | Iterable[str | Mapping[str, Any]],
    *,
    whole: Literal["words", "sentences"] | None = None,
    shortest: int | None = None,
    longest: int | None = None,
) -> ConstraintSource:
    """Return the constraint of pieces of a document, or of many, made for the model that draws.

        quote = sample(model, spans(page, whole="sentences"), "The sentence that says so:")[0]
        quote.span  # {"offset": 1042, "length": 87, "places": 1}

    Args:
        documents: Text; or many: strings, or mappings with ``text`` and perhaps ``id``, by which
            samples say where a piece stands.
        whole: ``words`` or ``sentences``: pieces begin and end with whole ones; None: any
            characters.
        shortest, longest: Words that a piece touches, at least and at most.

    Returns:
        What ``sample`` takes in the place of a constraint. Cost: 0.3 s for 1 MB, once a vocabulary.

    Raises:
        UsageError: The options make no sense together.
    """
    from cdec.compilers.sets.corpus import corpus_constraint
    from cdec.core.sets.spans import SpanConstraint, SpanOptions

    options = SpanOptions(whole, shortest, longest)
    if isinstance(documents, str):
        return _Source("spans", documents, partial(SpanConstraint, documents, options=options))
    given = tuple(documents)
    make = partial(corpus_constraint, given, **asdict(options))
    return _Source("spans", f"{len(given):,} documents", make)


def _with_sets(
    make: Callable[..., Constraint], sets: Mapping[str, Any], vocabulary: Vocabulary
) -> Constraint:
    return make(vocabulary=vocabulary).with_sets(sets)


class _Source(ConstraintSource):
    """A source, and the constraints that were made of it, by vocabulary.

    Args:
        called: The function that made it.
        said: The source, for people.
        make: Compiles it.
    """

    def __init__(self, called: str, said: Any, make: Callable[..., Constraint]) -> None:
        self._called = called
        self._said = said
        self._make = make
        self._made: Recent[Constraint] = Recent(_MOST)

    def of(self, vocabulary: Vocabulary) -> Constraint:
        special = tuple(sorted(vocabulary.special_tokens.items()))
        own = (vocabulary.vocabulary_hash, vocabulary.tokenization_hash, special)
        known = (*own, vocabulary.eos_token_ids, vocabulary.width)
        return self._made.get(known, lambda: self._make(vocabulary=vocabulary))

    def __repr__(self) -> str:
        return line(self._called, cut(str(self._said)))


def _read(path: Path) -> str:
    """Return the text of a file.

    Raises:
        InputMissingError: It cannot be read.
        EncodingError: It is not UTF-8.
    """
    from cdec.core.errors import EncodingError, InputMissingError

    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise InputMissingError(
            f"{path} cannot be read: {error.strerror}", hint="check the name", path=str(path)
        ) from error
    except UnicodeDecodeError as error:
        raise EncodingError(
            f"{path} is not UTF-8 (byte {error.start + 1})",
            hint="save it as UTF-8",
            byte_offset=error.start + 1,
        ) from error
