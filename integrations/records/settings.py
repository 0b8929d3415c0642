"""Settings of a run over prompt records: what is drawn, what texts are held to, how it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from cdec.core.tokens.locations import EMBEDDED

if TYPE_CHECKING:
    from cdec.core.combine.free_text import FreeText, MarkerLimits
    from cdec.core.combine.thinking import Amount
    from cdec.core.files.remote import FilePath
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.run_clock import RunClock
    from cdec.core.sets.quotes import SpanField
    from cdec.data.prompts.record import PromptRecord
    from cdec.data.prompts.templates import PromptTemplate
    from cdec.integrations.records.sources import RecordSources
    from cdec.integrations.records.tools import ToolCalls

DEFAULT = ""
"""Stands for the artifact of the records that name none."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Draws for records.

    Attributes:
        method: A name in ``METHODS``.
        options: Of the method, as ``sample`` takes them, and by name: a draft's name or path, a
            reward's text, a file of counts.
        n: Draws of records that ask for no number.
        max_n: Most draws that a record may ask for; None takes ``DEFAULT_MAX_N``.
        seed: Of records that bring none.
        temperature: Of records that bring none; above 0.
        top_k: Tokens kept at each step; None keeps all.
        top_p: Mass kept at each step; None keeps all.
        max_new_tokens: Of records that bring no ``max_tokens``; None as in ``Request``.
        template: Fills a prompt from the fields of a record.
        fields: Fields of samples to keep; None keeps all.
    """

    method: str = "disc"
    options: Mapping[str, Any] = field(default_factory=dict)
    n: int = 1
    max_n: int | None = None
    seed: int = 0
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None
    template: PromptTemplate | None = None
    fields: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class ConstraintSpecification:
    """Constraint of all records of a run; its artifacts are places until they are ``read``.

    Attributes:
        named: Artifacts by the name that records give in ``constraint``, each a path or URL, or
            verified and read, or a constraint or the source of one (``regex(...)``); DEFAULT names
            the one of records that name none.
        others: Those that all texts must satisfy as well, by the words that name them.
        sets: Sets that stand within constraints, by name, likewise, or opened.
        denied: Texts never to emit.
        lookahead: Terminals that tokens of grammars may begin beyond their first; None for any
            number.
        heal: Whether the cut end of prompts is healed; needs grammars.
        prefill: What texts of records that bring none begin with; None for nothing.
        fit: Whether every text is to end within the record's number of new tokens.
        canonical: Whether texts are held to the tokens that the tokenizer itself writes for them.
        templated: Whether fixed parts of texts are spelled apart, as templates do.
        free: What the model writes freely for records that do not say; None for nothing.
        marker_limits: Of the markers of records; None takes those of ``free``, or the defaults.
        thinking: Most tokens of what a model thinks before, ``on`` or ``off``; None leaves it to
            the model.
        thinking_tags: What begins and what ends it; None where the model tells.
        tools: What texts of records without a constraint of their own may call, or have to; what
            of this a record does not say; None for no tools.
        tool_style: How calls of tools are written that records alone bring; None where the model
            tells.
        spans: What texts of records without a constraint of their own are pieces of; None for
            nothing.
        quotes: Names of sets within constraints that are pieces of records' documents, and of what.
        sources: How the grammars, regexes and schemas of records are compiled; None: the defaults.
    """

    named: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)
    sets: Mapping[str, Any] = field(default_factory=dict)
    denied: Sequence[str] = ()
    lookahead: int | None = None
    heal: bool = False
    prefill: str | None = None
    fit: bool = False
    canonical: bool = False
    templated: bool = False
    free: FreeText | None = None
    marker_limits: MarkerLimits | None = None
    thinking: Amount | None = None
    thinking_tags: tuple[str, str] | None = None
    tools: ToolCalls | None = None
    tool_style: str | None = None
    spans: SpanField | None = None
    quotes: Mapping[str, SpanField] = field(default_factory=dict)
    sources: RecordSources | None = None

    @classmethod
    def of(
        cls,
        artifact: FilePath | None = None,
        constraint: Mapping[str, FilePath] | None = None,
        conjoined: Sequence[FilePath] = (),
        deny: Sequence[str] = (),
        **others: Any,
    ) -> ConstraintSpecification:
        """Return the specification by the names of the command line's options.

        Args:
            artifact: The constraint of records that name none; None where they bring their own.
            constraint: Name → artifact that records name in their field ``constraint``.
            conjoined: Artifacts that all texts must satisfy as well.
            deny: Texts never to emit.
            others: The other attributes.
        """
        named = ({} if artifact is None else {DEFAULT: artifact}) | dict(constraint or {})
        satisfied = {str(place): place for place in conjoined}
        return cls(named=named, others=satisfied, denied=deny, **others)

    def read(self) -> ConstraintSpecification:
        """Return it with its artifacts read and verified.

        Raises:
            CdecError: One is missing or damaged, or no constraint.
        """
        from cdec.core.artifacts.opened import read_artifact
        from cdec.core.artifacts.read import ArtifactFile
        from cdec.core.constraint import Constraint
        from cdec.core.constraint_source import ConstraintSource

        known = (ArtifactFile, Constraint, ConstraintSource)

        def files(given: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: place if isinstance(place, known) else read_artifact(place)
                for name, place in given.items()
            }

        sets = {
            name: read_artifact(given) if isinstance(given, str | PathLike) else given
            for name, given in self.sets.items()
        }
        return replace(self, named=files(self.named), others=files(self.others), sets=sets)

    @property
    def document_fields(self) -> frozenset[str]:
        """Fields of records that hold documents; those of its artifacts too where they are read."""
        from cdec.core.artifacts.read import ArtifactFile

        named = {of.name for of in self.quotes.values()}
        named |= set() if self.spans is None else {self.spans.name}
        places = [*self.named.values(), *self.others.values()]
        read = (place for place in places if isinstance(place, ArtifactFile))
        return frozenset(named.union(*(fields_of_spans(file.metadata) for file in read)))

    @property
    def has_artifacts(self) -> bool:
        """True where there are any."""
        return bool(self.named or self.others)

    def prefill_of(self, record: PromptRecord) -> str | None:
        """Return what the texts of a record begin with; None for nothing."""
        return self.prefill if record.prefill is None else record.prefill

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the artifacts that were read, by name."""
        from cdec.core.artifacts.read import ArtifactFile

        files = {name: f for name, f in self.named.items() if isinstance(f, ArtifactFile)}
        return {name: file.metadata["cdec.digest"] for name, file in files.items()}

    @property
    def set_digests(self) -> dict[str, str]:
        """Digests of the sets within constraints, by name."""
        return {name: file.metadata["cdec.digest"] for name, file in sorted(self.sets.items())}

    @property
    def other_digests(self) -> list[str]:
        """Digests of the artifacts that all satisfy, sorted: their order makes no difference."""
        return sorted(file.metadata["cdec.digest"] for file in self.others.values())


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Execution of a run; but for the model this changes no record.

    Attributes:
        model: A name or path, a model, or (for workers) a function that makes it; the embedded one
            if not given.
        load: Further keywords of ``load_model`` for ``model``: ``device``, ``dtype``, ...
        draft_load: The same for a draft that is named.
        batch_size: Prompts decoded together; None takes what suits the method.
        trace: Called with each line of the traces of samples, as ``cdec sample`` writes them: a
            line a token, before the sample's record is yielded; None computes none.
        strict_fields: Refuse records with fields that nothing reads.
        strict: Raise the first error of a record in the place of its error object.
        has_one_record: Whether there is a single record, whose draws a ``tree`` may keep.
        clock: Counts the time of the model, of its draft and of the constraints; None for none.
    """

    model: str | LanguageModel | Callable[[], LanguageModel] = EMBEDDED
    load: Mapping[str, Any] = field(default_factory=dict)
    draft_load: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int | None = None
    trace: Callable[[Mapping[str, object]], None] | None = None
    strict_fields: bool = False
    strict: bool = False
    has_one_record: bool = False
    clock: RunClock | None = None


def fields_of_spans(metadata: Mapping[str, str]) -> set[str]:
    """Return the fields of records whose pieces texts of an artifact hold, by its metadata."""
    entries = json.loads(metadata.get("cdec.sets", "[]"))
    return {str(entry.get("field")) for entry in entries if isinstance(entry, dict)}


_RENAMED = {"artifact", "constraint", "conjoined", "deny"}
"""Keywords of ``ConstraintSpecification.of`` that are no attributes."""


def _names(kind: type[Any]) -> set[str]:
    return {each.name for each in fields(kind)}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """All that a run over prompt records is told.

    Attributes:
        drawing: What is drawn.
        constraint: What texts are held to.
        execution: How it runs.
    """

    drawing: Drawing = field(default_factory=Drawing)
    constraint: ConstraintSpecification = field(default_factory=ConstraintSpecification)
    execution: Execution = field(default_factory=Execution)

    @classmethod
    def of(cls, **given: Any) -> RunSettings:
        """Return the settings of keywords: attributes of the three parts, options of the method.

        Args:
            given: By name; artifacts and texts to leave out as ``ConstraintSpecification.of`` has
                them. What no part has is an option of the method.
        """
        parts: list[dict[str, Any]] = []
        for names in (
            _names(Drawing) - {"options"},
            (_names(ConstraintSpecification) | _RENAMED) - {"named", "others", "denied"},
            _names(Execution) - {"has_one_record"},
        ):
            parts.append({name: given.pop(name) for name in names & given.keys()})
        drawing, constraint, execution = parts
        known = {name: value for name, value in execution.items() if value is not None}
        return cls(
            drawing=Drawing(options=given, **drawing),
            constraint=ConstraintSpecification.of(**constraint),
            execution=Execution(**known),
        )

    @staticmethod
    def keywords() -> set[str]:
        """Return the keywords that are no options of methods."""
        named = _names(Drawing) | _names(ConstraintSpecification) | _names(Execution) | _RENAMED
        return named - {"options", "named", "others", "denied", "has_one_record"}
