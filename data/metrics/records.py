"""Samples and references as metrics read them: one record at a time, whatever the file's size."""

from __future__ import annotations

import json
import math
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import DataError, DuplicateIdError, FieldError
from cdec.data.ids import RecordId
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, Source, SourceStats
from cdec.data.prompts.fields import shown
from cdec.data.prompts.record import FieldColumns
from cdec.data.rows.formats import open_input
from cdec.data.rows.row import Row
from cdec.data.rows.table_process import TableProcess

CLASSIFIED = "classify"
"""Stands for a method where labels were ranked and nothing was drawn."""


NOT_JSON = object()
"""Stands for the value of a text that is no JSON."""


class IdOrderError(DataError, code="E_ID_ORDER"):
    """Samples of one record that do not stand together."""


def exactly(text: str) -> str:
    """Return a text as it is compared: as it stands."""
    return text


def folded(text: str) -> str:
    """Return a text without differences of case, compatible characters and white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass(frozen=True)
class Target:
    """The law that samples of a record are to follow, enumerated.

    Attributes:
        log_probabilities: Of Q by text, natural logs; spellings of one text are summed.
        log_mass: log P(S); None where it is not given.
    """

    log_probabilities: Mapping[str, float]
    log_mass: float | None = None

    @property
    def unlisted(self) -> float:
        """The probability of the texts that are not listed."""
        return 1.0 - math.fsum(math.exp(each) for each in self.log_probabilities.values())


class Candidate(NamedTuple):
    """A distinct answer of a record.

    Attributes:
        text: As it is compared.
        entity_ids: Ids of the entity that it names, where a set says so.
        weight: The share of the draws, weighted; these sum to 1.
    """

    text: str
    entity_ids: frozenset[str]
    weight: float


@dataclass
class Evaluated:
    """The samples of one record under one method, and what is known of the right ones.

    Attributes:
        id: The record's.
        samples: Their objects, in the order of the file; none where the record failed, or there
            is no sample of it.
        reference: The reference's fields; None where there is none.
        target: The law to follow; None where it is not given.
        as_compared: Makes of a text what is compared.
        uses_weights: Whether draws count with their weights.
    """

    id: RecordId
    samples: Sequence[Mapping[str, Any]]
    reference: Mapping[str, Any] | None = None
    target: Target | None = None
    as_compared: Callable[[str], str] = field(default=exactly, repr=False)
    uses_weights: bool = True

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the samples, float64 ``[n]``, summing to 1.

        They are proportional to the exponential of ``log_weight``, a dead end's being 0; equal
        where another sample has none, as nothing is known of its law.
        """
        logs = self._log_weights
        if not self.is_weighted or max(logs) == -math.inf:
            return np.full(len(self.samples), 1.0 / max(len(self.samples), 1))
        weights = np.exp(np.array(logs, np.float64) - max(logs))
        return np.asarray(weights / weights.sum())

    @cached_property
    def _log_weights(self) -> list[float]:
        logs = (
            -math.inf if sample.get("finish_reason") == "dead_end" else sample.get("log_weight")
            for sample in self.samples
        )
        return [log for log in logs if log is not None]

    @property
    def is_weighted(self) -> bool:
        """Whether every sample has a weight that counts."""
        return self.uses_weights and 0 < len(self._log_weights) == len(self.samples)

    @property
    def is_partly_weighted(self) -> bool:
        """Whether some samples have weights and others have none."""
        return self.uses_weights and 0 < len(self._log_weights) < len(self.samples)

    @cached_property
    def json_values(self) -> list[Any]:
        """The JSON values of the samples' texts, ``NOT_JSON`` where a text is none."""
        return [_parsed(sample.get("text")) for sample in self.samples]

    @property
    def is_ranked(self) -> bool:
        """Whether the samples are a ranking, of texts or of labels, and no draws."""
        return any("rank" in sample or "labels" in sample for sample in self.samples)

    @cached_property
    def shares(self) -> Mapping[str | None, float]:
        """The law that the draws stand for by text; draws without an end stand under None.

        Texts stand as they were drawn, whatever is compared elsewhere: a target's are such.
        """
        return self.shares_of_last(len(self.samples))

    def shares_of_last(self, count: int) -> Mapping[str | None, float]:
        """Return the law that the last draws stand for, as ``shares`` does of all."""
        first = max(0, len(self.samples) - count)
        weights = self.weights[first:]
        total = float(weights.sum())
        shares: dict[str | None, float] = defaultdict(float)
        for sample, weight in zip(self.samples[first:], weights.tolist(), strict=True):
            finished = sample.get("finish_reason", "complete") == "complete"
            shares[sample["text"] if finished else None] += weight / total
        return shares

    @cached_property
    def ranked(self) -> list[Candidate]:
        """The distinct finished answers, those of most weight first, ties in the order drawn.

        Of a classification the labels in their order.
        """
        if self.samples and "labels" in self.samples[0]:
            return [
                Candidate(
                    self.as_compared(each["text"]),
                    _names(each.get("entity_ids") or [each.get("id")]),
                    float(each["probability"]),
                )
                for each in self.samples[0]["labels"]
            ]
        found: dict[str, float] = defaultdict(float)
        ids: dict[str, frozenset[str]] = {}
        for sample, weight in zip(self.samples, self.weights.tolist(), strict=True):
            if sample["text"] is None or sample.get("finish_reason", "complete") != "complete":
                continue
            text = self.as_compared(sample["text"])
            found[text] += weight
            ids.setdefault(text, _names(sample.get("entity_ids") or []))
        order = sorted(found.items(), key=lambda each: -each[1])
        return [Candidate(text, ids[text], weight) for text, weight in order]

    @cached_property
    def relevant(self) -> Mapping[str, float] | None:
        """Grades of the right answers by text or entity id; None where the reference has none.

        Empty where it says that there is no right answer.
        """
        fields = self.reference or {}
        if "relevant" in fields:
            given = fields["relevant"]
            graded = given if isinstance(given, dict) else dict.fromkeys(given, 1.0)
            return {self.as_compared(str(key)): float(grade) for key, grade in graded.items()}
        for name in ("entity_ids", "answers", "answer", "label"):
            if name in fields:
                given = fields[name]
                listed = given if isinstance(given, list) else [given]
                return {self.as_compared(str(each)): 1.0 for each in listed if each is not None}
        return None

    def grade(self, candidate: Candidate) -> float:
        """Return the grade of an answer, 0 where it is not among the right ones."""
        relevant = self.relevant or {}
        names = (candidate.text, *map(self.as_compared, candidate.entity_ids))
        return max((relevant[name] for name in names if name in relevant), default=0.0)


def _parsed(text: str | None) -> Any:
    """Return the value of a text that is strict JSON; what stands for none otherwise."""
    if text is None:
        return NOT_JSON
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return NOT_JSON


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _names(ids: Iterable[object]) -> frozenset[str]:
    return frozenset(str(each) for each in ids if each is not None)


class Group(NamedTuple):
    """Neighbouring samples of one record and method, as a file has them.

    Attributes:
        method: That drew them; "" where an error stands in the record's place.
        id: The record's.
        samples: Their objects; empty for an error.
    """

    method: str
    id: RecordId
    samples: list[Mapping[str, Any]]


_NUMBER = (int, float)
_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "method": (str,),
    "finish_reason": (str,),
    "token_ids": (list,),
    "entity_ids": (list,),
    "input": (dict,),
    "labels": (list,),
    "valid": (bool,),
    "logprob": _NUMBER,
    "log_weight": _NUMBER,
    "probability": _NUMBER,
    "log_mass": _NUMBER,
    "log_mass_se": _NUMBER,
    "log_mass_lower": _NUMBER,
    "log_mass_upper": _NUMBER,
    "reward": _NUMBER,
    "satisfaction_soft": _NUMBER,
    "satisfaction_hard": (bool, *_NUMBER),
}
"""Fields of samples that metrics read; each may be missing or null."""


def read_groups(source: Source, limits: InputLimits = PROMPT_LIMITS) -> Iterator[Group]:
    """Yield the records of a file of samples, or of classifications, in their order.

    Args:
        source: Path, URL, ``"-"`` or a binary stream: JSON lines, or a table.
        limits: Of the input.

    Raises:
        InputMissingError: It cannot be read.
        JsonError: A line is torn or no JSON.
        FieldError: An object is no sample.
        IdOrderError: Samples of one record and method stand apart.
    """
    held: Group | None = None
    seen: set[tuple[str, RecordId]] = set()
    for row, name in _rows(source, limits):
        method, record_id, sample = _sample(row, name)
        if held is not None and (method, record_id) == held[:2] and sample is not None:
            held.samples.append(sample)
            continue
        if held is not None:
            yield held
        held = Group(method, record_id, [] if sample is None else [sample])
        if (method, record_id) in seen:
            raise IdOrderError(
                f"{name}, {row.unit} {row.line}: samples of the record {record_id!r} stand apart",
                hint="sort the file by its ids, or evaluate its parts as files of their own",
                line=row.line,
            )
        seen.add((method, record_id))
    if held is not None:
        yield held


def read_first(source: Source, limits: InputLimits = PROMPT_LIMITS) -> Mapping[str, Any]:
    """Return the first object of an input, which tells what it holds; an empty one for none.

    Raises:
        CdecError: As ``read_groups``.
    """
    for row, name in _rows(source, limits):
        return _fields(row, name)
    return {}


def _sample(row: Row, name: str) -> tuple[str, RecordId, Mapping[str, Any] | None]:
    """Return method, id and the object of a sample; None for an error in a record's place."""
    fields = _fields(row, name)
    record_id = _id(fields, row, name)
    if "error" in fields and "text" not in fields:
        return "", record_id, None
    if "labels" in fields:
        _check_labels(fields, row, name)
        return CLASSIFIED, record_id, fields
    if "text" not in fields:
        raise _bad(
            row, name, "text", "is missing: this is no sample", "give what a run of samples wrote"
        )
    _check_types(fields, _TYPES, row, name)
    return str(fields.get("method") or "samples"), record_id, fields


def _check_labels(fields: Mapping[str, Any], row: Row, name: str) -> None:
    labels = fields["labels"]
    good = isinstance(labels, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("text"), str)
        and isinstance(each.get("probability"), _NUMBER)
        for each in labels
    )
    if not good:
        hint = "give what a classification wrote"
        raise _bad(row, name, "labels", "is no list of texts with probabilities", hint)


def read_references(
    source: Source, limits: InputLimits = PROMPT_LIMITS
) -> dict[RecordId, Mapping[str, Any]]:
    """Return references by id: objects with any of the fields that metrics read.

    ``answer`` or ``answers``, ``entity_ids``, ``label``; ``relevant``, a list or an object of
    grades; ``value``, any JSON value; ``concepts``. Other fields are kept for hooks.

    Raises:
        CdecError: As ``read_groups``; ``E_DUPLICATE_ID`` for two of one id.
    """
    found: dict[RecordId, Mapping[str, Any]] = {}
    for row, name in _rows(source, limits):
        fields = _fields(row, name)
        record_id = _id(fields, row, name)
        if record_id in found:
            raise DuplicateIdError(
                f"{name}, {row.unit} {row.line}: the id {record_id!r} was there before",
                hint="give each id once",
                line=row.line,
            )
        check_reference(fields, f"{name}, {row.unit} {row.line}")
        found[record_id] = fields
    return found


_REFERENCE_TYPES: dict[str, tuple[type, ...]] = {
    "answer": (str, int),
    "answers": (list,),
    "entity_ids": (list,),
    "label": (str,),
    "relevant": (list, dict),
    "concepts": (list,),
}


def check_reference(fields: Mapping[str, Any], place: str) -> None:
    """Refuse a reference with a field that metrics cannot read.

    Raises:
        FieldError: It is of another type, or a grade is no number.
    """
    for name, types in _REFERENCE_TYPES.items():
        value = fields.get(name)
        if value is not None and (not isinstance(value, types) or isinstance(value, bool)):
            raise FieldError(
                f"{place}: {name!r} is {shown(value)}, expected {_words(types)}",
                hint="give each field what metrics read there, or leave it out",
                field=name,
            )
    graded = fields.get("relevant")
    for grade in graded.values() if isinstance(graded, dict) else ():
        if not isinstance(grade, _NUMBER) or isinstance(grade, bool) or grade < 0:
            raise FieldError(
                f"{place}: a grade of 'relevant' is {shown(grade)}, a number from 0 was expected",
                hint="give {answer: grade}",
                field="relevant",
            )


def read_targets(source: Source, limits: InputLimits = PROMPT_LIMITS) -> dict[RecordId, Target]:
    """Return the laws to follow by id: rows with ``id``, ``text`` and the text's ``probability``.

    What ``topn`` writes is one where it found every text. ``log_mass`` is taken where it stands,
    or the middle of its bounds.

    Raises:
        CdecError: As ``read_groups``.
    """
    sums: dict[RecordId, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    masses: dict[RecordId, float] = {}
    for row, name in _rows(source, limits):
        fields = _fields(row, name)
        record_id = _id(fields, row, name)
        text, probability = fields.get("text"), fields.get("probability")
        _check_types(fields, _TYPES, row, name)
        if text is None or probability is None or not 0.0 <= probability <= 1.0:
            field_name = "text" if text is None else "probability"
            problem = f"is {shown(fields.get(field_name))}"
            hint = "give texts with the probability that each has under the target"
            raise _bad(row, name, field_name, problem, hint)
        sums[record_id][text] += probability
        bounds = [fields.get(key) for key in ("log_mass_lower", "log_mass_upper")]
        if fields.get("log_mass") is not None:
            masses[record_id] = fields["log_mass"]
        elif None not in bounds:
            masses[record_id] = sum(map(float, bounds)) / 2  # type: ignore[arg-type]
    return {
        key: Target(
            {text: math.log(p) if p > 0 else -math.inf for text, p in texts.items()},
            masses.get(key),
        )
        for key, texts in sums.items()
    }


def _rows(source: Source, limits: InputLimits) -> Iterator[tuple[Row, str]]:
    """Yield the rows of an input with its name; the first bad one is an error."""
    how = {"format": "auto", "limits": limits}
    with TableProcess() as tables, open_input(source, tables=tables, **how) as opened:
        for row in opened.rows(SourceStats(), FieldColumns(opened.name)):
            if row.error is not None:
                raise row.error
            yield row, opened.name


def _fields(row: Row, name: str) -> Mapping[str, Any]:
    if row.fields is None:
        raise FieldError(
            f"{name}, {row.unit} {row.line} is a text, an object was expected",
            hint="give JSON lines, each an object with its id",
            line=row.line,
        )
    return row.fields


def _id(fields: Mapping[str, Any], row: Row, name: str) -> RecordId:
    record_id = fields.get("id")
    if not isinstance(record_id, str | int) or isinstance(record_id, bool):
        problem = "is missing" if record_id is None else f"is {shown(record_id)}"
        raise _bad(row, name, "id", problem, "give each record a text or a whole number")
    return record_id


def _check_types(
    fields: Mapping[str, Any], types: Mapping[str, tuple[type, ...]], row: Row, name: str
) -> None:
    for key, allowed in types.items():
        value = fields.get(key)
        if value is None:
            continue
        is_bool = isinstance(value, bool)
        if not isinstance(value, allowed) or is_bool != (bool in allowed):
            problem = f"is {shown(value)}, expected {_words(allowed)}"
            raise _bad(row, name, key, problem, "give what a run of samples wrote")


def _words(types: tuple[type, ...]) -> str:
    names = {str: "a text", int: "a number", float: "", list: "a list", dict: "an object"}
    return " or ".join(filter(None, (names.get(each, "true or false") for each in types)))


def _bad(row: Row, name: str, field: str, problem: str, hint: str) -> FieldError:
    return FieldError(
        f"{name}, {row.unit} {row.line}: {field!r} {problem}",
        hint=hint,
        field=field,
        line=row.line,
    )
