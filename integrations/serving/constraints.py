"""ServedConstraints: the constraints of a server, by what its requests ask."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from cdec.compilers.cache import ConstraintCache, SourceCache
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import GrammarOptions, regex_options
from cdec.compilers.schemas.options import SchemaLimits, SchemaOptions
from cdec.compilers.schemas.references import references_of
from cdec.compilers.sets.cache import SetCache
from cdec.core.artifacts.opened import bind_artifact, read_artifact
from cdec.core.child.process import needing_system
from cdec.core.combine.denial import deny
from cdec.core.combine.fitting import fit
from cdec.core.combine.free_parts import FreeTextConstraint
from cdec.core.constraint import candidates_of
from cdec.core.errors import CdecError, FieldError
from cdec.core.files.cache import CacheFolder
from cdec.core.recent import Recent
from cdec.core.sets.quotes import DocumentPieces, quoted_fields
from cdec.core.sets.spans import SpanConstraint, SpanOptions
from cdec.core.sets.spelled import spelled
from cdec.core.sets.within import holding
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.serving.settings import (
    DOCUMENT,
    FIELD,
    ConstraintRequest,
    ServingSettings,
)

if TYPE_CHECKING:
    from cdec.compilers.kinds import SourceOptions
    from cdec.core.constraint import Constraint

_KEPT_BYTES = 1 << 30
"""Bytes of the constraints of requests that are kept."""


class ServedConstraints:
    """Constraints by what requests ask; those that ask for the same share one.

    Every artifact is opened at once, so that a bad one stops the server before it serves. Several
    threads may ask; what is there is given while others compile. What requests bring is compiled in
    the limited child, one after another, and sets of candidates in this process. Both are kept in
    the user's cache as well, so that of a server's processes only the first compiles them.

    Args:
        settings: The operator's.
        vocabulary: Of the served model; None: the ``tokenizer`` of the settings, or where that is
            none, what each artifact says of itself (requests are checked, nothing is decoded).

    Raises:
        CdecError: An artifact cannot be opened, or is another tokenizer's.
    """

    def __init__(self, settings: ServingSettings, vocabulary: Vocabulary | None = None) -> None:
        if vocabulary is None and settings.tokenizer is not None:
            vocabulary = Vocabulary.from_tokenizer(settings.tokenizer)
        self.settings = settings
        self.vocabulary = vocabulary
        self._compiling, self._making = threading.Lock(), threading.Lock()
        self._within = {name: spelled(path) for name, path in settings.sets.items()}
        self._named: dict[str, Constraint] = {
            name: self._held(bind_artifact(read_artifact(path), vocabulary))
            for name, path in settings.artifacts.items()
        }
        limits = settings.limits
        self._recent: Recent[Constraint] = Recent(limits.max_kept)
        kept = ConstraintCache(limits.max_kept, _KEPT_BYTES)
        self._options = _source_options(settings)
        self._sets: SetCache | None = None
        self._sources: SourceCache | None = None
        if vocabulary is not None:
            shared = CacheFolder("served", most=4 * limits.max_kept, max_bytes=_KEPT_BYTES)
            sets = ConstraintCache(limits.max_kept, _KEPT_BYTES)
            name = "the request's candidates"
            self._sets = SetCache(vocabulary, sets, name=name, shared=shared)
            self._sources = SourceCache(vocabulary, kept, shared=shared)

    def read(self, value: object) -> Constraint:
        """Return the constraint that a request's argument asks for.

        Raises:
            FieldError, LimitError: As ``ConstraintRequest.of``; candidates that are no members.
            EmptySetError: Everything is denied.
            CdecError: What the request brings cannot be compiled within the limits.
            OutputError: The system gives no descriptor or process; asked again, it may.
        """
        return self.of(ConstraintRequest.of(value, self.settings))

    def of(self, asked: ConstraintRequest) -> Constraint:
        """Return the constraint of what was asked; raises as ``read``."""
        found = self._there(asked)
        if found is not None:
            return _with_documents(found, asked)
        making = self._making if asked.source is None else self._compiling
        with making, needing_system("serving the request"):
            # Somebody else may have made it meanwhile.
            return _with_documents(self._found_or_made(asked), asked)

    def has(self, value: object) -> bool:
        """Say whether ``read`` makes nothing of a request's argument: it is there, or refused."""
        try:
            asked = ConstraintRequest.of(value, self.settings)
            return self._there(asked) is not None
        except CdecError:
            return True

    def all_named(self) -> Sequence[Constraint]:
        """Return the constraints of the registered artifacts."""
        return list(self._named.values())

    def close(self) -> None:
        """End the process that compiles; constraints stay usable."""
        if self._sources is not None:
            self._sources.close()

    def _there(self, asked: ConstraintRequest) -> Constraint | None:
        """Return a constraint that was made; nothing waits here for what others make.

        Raises:
            CdecError: It could not be made.
        """
        asks_more = asked.deny or asked.narrowed or asked.documents or asked.free is not None
        if asks_more or asked.fit is not None or asked.source == DOCUMENT:
            return self._recent.find(asked)
        if asked.source is not None and self._sources is not None:
            found = self._sources.find(asked.text, self._options[asked.source])
            return None if found is None else self._with_sets(found)
        if asked.artifact is not None:
            is_whole = asked.candidates is None
            return self._named[asked.artifact] if is_whole else self._recent.find(asked)
        if asked.candidates is None or self._sets is None:
            # Candidates are let through where they are allowed, which takes a tokenizer.
            raise KeyError(asked)
        return self._sets.find(asked.candidates)

    def _found_or_made(self, asked: ConstraintRequest) -> Constraint:
        found = self._there(asked)
        return self._made(asked) if found is None else found

    def _made(self, asked: ConstraintRequest) -> Constraint:
        if asked.free is not None:
            free, held = asked.free, self._found_or_made(replace(asked, free=None))
            return self._recent.get(asked, lambda: FreeTextConstraint(held, free))
        if asked.fit is not None:
            most, whole = asked.fit, self._found_or_made(replace(asked, fit=None))
            return self._recent.get(asked, lambda: fit(whole, most))
        if asked.deny:
            denied = [text.encode() for text in asked.deny]
            before = self._found_or_made(replace(asked, deny=()))
            return self._recent.get(asked, lambda: deny(before, denied))
        if asked.narrowed:
            every = self._found_or_made(replace(asked, narrowed=()))
            return self._recent.get(asked, lambda: every.narrowed(asked.narrowed))
        if asked.documents:
            quoting = self._found_or_made(replace(asked, documents=()))
            return self._recent.get(asked, lambda: _quoting(quoting, dict(asked.documents)))
        if asked.source == DOCUMENT:
            return self._recent.get(asked, lambda: self._pieces_of(asked.text))
        if asked.source is not None and self._sources is not None:
            return self._with_sets(self._sources.of(asked.text, self._options[asked.source]))
        texts = asked.candidates or ()
        if asked.artifact is not None:
            named = self._named[asked.artifact]
            return self._recent.get(asked, lambda: candidates_of(named, texts))
        if self._sets is None:
            raise KeyError(asked)
        return self._sets.of(texts)

    def _with_sets(self, compiled: Constraint) -> Constraint:
        """Return what a request brings with the operator's sets that it holds, once for each."""
        if not compiled.set_names:
            return compiled
        return self._recent.get(compiled, lambda: self._held(compiled))

    def _held(self, constraint: Constraint) -> Constraint:
        """Return a constraint with the operator's sets; what quotes documents gets a request's."""
        return holding(constraint, self._within, constraint.span_fields)

    def _pieces_of(self, text: str) -> Constraint:
        """Return the constraint of the pieces of a document that a request brings."""
        if self.vocabulary is None:
            raise KeyError(text)
        options = orjson.loads(text)
        return SpanConstraint(options.pop("text"), self.vocabulary, SpanOptions(**options))


def _quoting(constraint: Constraint, documents: Mapping[str, str]) -> Constraint:
    """Return a constraint with the pieces of a request's documents within it.

    Raises:
        FieldError: A document is missing, or nothing quotes it.
        CdecError: One has no such piece.
    """
    fields = quoted_fields(constraint, {})
    unknown = sorted(documents.keys() - {of.name for of in fields.values()})
    if unknown:
        raise FieldError(
            f"the request's {FIELD!r} has the document {unknown[0]!r}, which its constraint does "
            "not quote",
            hint="leave it out",
            field=FIELD,
        )
    return constraint.with_sets(
        {name: DocumentPieces(of.of(documents), of) for name, of in fields.items()}
    )


def _with_documents(constraint: Constraint, asked: ConstraintRequest) -> Constraint:
    """Return a constraint that quotes no documents, or those of its request.

    Raises:
        FieldError: The request has none.
    """
    if constraint.span_fields and not asked.documents:
        names = ", ".join(str(of["field"]) for of in constraint.span_fields.values())
        raise FieldError(
            f"the request's {FIELD!r} has no documents, and its constraint quotes {names}",
            hint='give "documents": {"FIELD": TEXT}',
            field=FIELD,
        )
    return constraint


def _source_options(settings: ServingSettings) -> dict[str, SourceOptions[Any]]:
    limits = settings.limits
    bounds: Any = {
        "compile_seconds": limits.compile_seconds,
        "compile_megabytes": limits.compile_megabytes,
    }
    grammars = GrammarLimits(**bounds)
    references = references_of([settings.refs, *settings.ref_dirs])
    return {
        "grammar": GrammarOptions(limits=grammars, precompute=0, name="the request's grammar"),
        "regex": regex_options(limits=grammars, precompute=0, name="the request's regex"),
        "schema": SchemaOptions(
            limits=SchemaLimits(**bounds),
            name="the request's schema",
            references=references,
            **settings.schema,
        ),
    }
