"""Coverage: the share of a record's concepts that the text names, in any inflected form.

Irregular forms come from simplemma's dictionary, regular ones from the rules of spelling, because
the dictionary holds "sitting" and "building" as words of their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ExtraMissingError, FieldError, UsageError
from cdec.samplers.rewards.base import GivenPrompt, Record, Reward, shown

_WORD = re.compile(r"[^\W_]+")
_ONE_SYLLABLE = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]|[^aeiou]*qu[aeiou][^aeiouwxy]")
_MEMO = 1 << 17

_IRREGULAR_PASTS = """
arose ate awoke bade beat became began blew bore broke came chose did drank drew drove fell flew
forbade forgave forgot froze gave got grew hid knew mistook overcame overtook ran rang rode rose
sang sank saw shook shrank slew spoke sprang stank stole strode swam swore threw took tore trod
undertook underwent was went were withdrew woke wore wove wrote
"""
"""Simple pasts, not ending in -ed, that differ from the past participle and the present."""

_IRREGULAR_PARTICIPLES = frozenset(("bled", "bred", "fed", "fled", "led", "sped"))
_PASTS = frozenset(_IRREGULAR_PASTS.split())


def words_of(text: str) -> list[str]:
    """Return a text's words, case-folded: runs of letters and digits."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return _WORD.findall(text.casefold())


@lru_cache(maxsize=_MEMO)
def lemma_of(word: str) -> str:
    """Return the dictionary form of a case-folded word, itself if the dictionary has none.

    Raises:
        ExtraMissingError: simplemma is not installed.
    """
    return _lemmatizer()(word, "en").casefold()


@lru_cache(maxsize=_MEMO)
def regular_forms(base: str) -> frozenset[str]:
    """Return a dictionary form, its regular plural or third person, and its -ing and -ed forms."""
    if not base.isascii() or not base.isalpha() or len(base) < 2:
        return frozenset((base,))
    forms = {base, base + "s"}
    vowel = base[-2] in "aeiou"
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        forms.add(base + "es")
    if base.endswith("y") and not vowel:
        return frozenset({*forms, base[:-1] + "ies", base[:-1] + "ied", base + "ing"})
    if base.endswith(("f", "fe")):
        forms.add(base.rstrip("e")[:-1] + "ves")
    if base.endswith("ie"):
        return frozenset({*forms, base + "d", base[:-2] + "ying"})
    if base.endswith("e"):
        forms |= {base + "d", base[:-1] + "ing"}
        if base.endswith(("ee", "oe", "ye", "nge")):
            forms.add(base + "ing")
        return frozenset(forms)
    # subtle: "car" has no form "cared": a short last syllable must double its consonant.
    doubles = vowel and base[-1] not in "aeiouwxy" and base[-3:-2] not in tuple("aeio")
    if doubles:
        forms |= {base + base[-1] + "ing", base + base[-1] + "ed"}
    if not _ONE_SYLLABLE.fullmatch(base):
        forms |= {base + "ing", base + "ed"}
    return frozenset(forms)


@lru_cache(maxsize=_MEMO)
def base_forms(word: str) -> frozenset[str]:
    """Return what a wanted word may be the form of: itself, and its lemma if it is regular.

    "dogs" is a form of "dog"; "saw" stays the tool, although the dictionary says "see".
    """
    lemma = lemma_of(word)
    return frozenset({word, lemma} if word in regular_forms(lemma) else {word})


def is_past(word: str) -> bool:
    """Say whether a word looks like a past: regular (-ed), or irregular and no participle."""
    is_regular = word.endswith("ed") and word not in _IRREGULAR_PARTICIPLES
    return is_regular or word in _PASTS


@lru_cache(maxsize=1)
def _lemmatizer() -> Callable[[str, str], str]:
    try:
        from simplemma import lemmatize
    except ImportError as error:
        raise ExtraMissingError(
            "the reward coverage needs the simplemma package for records without inflections",
            hint='pip install "cdec[rewards]"',
        ) from error
    return lemmatize


_PART_OF_SPEECH = re.compile(r"_[A-Z]$")
_RECORDS = 4096


class CoverageReward(Reward):
    """The share of the record's ``concepts`` that occur in the text, as in CommonGen.

    A concept is a dictionary form ("catch"), with its part of speech if one likes ("catch_V"), or
    several words in a row ("ice cream"). Words are compared case-folded. Where one of the lists in
    the record's ``inflections`` holds the concept, exactly the forms of that list count; else the
    forms that simplemma's English dictionary or the regular endings give: derived words ("catcher")
    do not count, nor, as in CommonGen's lists, simple pasts ("climbed", "drove"), unless they are
    the concept itself or another form as well ("stood"). A record with no concepts asks for
    nothing: its texts score 1.

    Args:
        argument: Empty; or ``past``: without a list, simple pasts count, too.
        hard_threshold: A text satisfies the reward from this score on; 1 is all concepts.
    """

    name = "coverage"
    reads = frozenset({"concepts", "inflections"})

    def __init__(self, argument: str = "", *, hard_threshold: float = 1.0) -> None:
        super().__init__(argument, hard_threshold=hard_threshold)
        if argument not in ("", "past"):
            raise UsageError(
                f"the reward coverage:{argument} does not exist",
                hint="Give coverage, or coverage:past, which counts simple pasts.",
            )
        self._past = argument == "past"

    def check(self, record: Record) -> None:
        """Refuse a record without a list of ``concepts``, or with malformed ``inflections``.

        Raises:
            FieldError: A field is missing or of the wrong type, or a concept has no word.
        """
        _read(record)

    def scores(
        self,
        texts: Sequence[str],
        records: Sequence[Record],
        prompts: Sequence[GivenPrompt] | None = None,
    ) -> NDArray[np.float64]:
        """Return float64[n] shares from 0 to 1; microseconds a text once its words are known."""
        goals: dict[int, tuple[_Goal, ...]] = {}
        found = np.ones(len(texts), np.float64)
        for row, (text, record) in enumerate(zip(texts, records, strict=True)):
            if id(record) not in goals:
                goals[id(record)] = _goals(*_read(record), self._past)
            wanted = goals[id(record)]
            if wanted:
                words = words_of(text)
                known = _Known(words, self._past)
                found[row] = sum(goal.is_in(known) for goal in wanted) / len(wanted)
        return found

    def found(self, text: str, record: Record) -> list[bool]:
        """Return for each concept of a record whether the text names it."""
        known = _Known(words_of(text), self._past)
        return [goal.is_in(known) for goal in _goals(*_read(record), self._past)]


class _Known:
    """The words of a text, and the dictionary forms that they may be."""

    def __init__(self, words: list[str], past: bool) -> None:
        self.words = words
        self.set = frozenset(words)
        self._past = past
        self._lemmas: frozenset[str] | None = None

    @property
    def lemmas(self) -> frozenset[str]:
        """The dictionary forms; computed only where a form was not found as it stands."""
        if self._lemmas is None:
            words: Iterable[str] = self.set
            if not self._past:
                words = (word for word in words if not is_past(word))
            self._lemmas = frozenset(map(lemma_of, words))
        return self._lemmas


@dataclass(frozen=True, slots=True)
class _Goal:
    """One concept: the words that are it, or the rows of words that are it.

    Attributes:
        forms: Words any of which is enough.
        bases: Dictionary forms a word may have; None where a list says all.
        phrases: Rows of words, each of them a goal for one word.
    """

    forms: frozenset[str]
    bases: frozenset[str]
    phrases: tuple[tuple[_Goal, ...], ...] = ()

    def is_in(self, known: _Known) -> bool:
        """Say whether a text has the concept."""
        if not self.forms.isdisjoint(known.set):
            return True
        if self.bases and not self.bases.isdisjoint(known.lemmas):
            return True
        return any(_has_row(phrase, known) for phrase in self.phrases)


def _has_row(phrase: tuple[_Goal, ...], known: _Known) -> bool:
    if not all(part.is_in(known) for part in phrase):
        return False
    single = [_Known([word], known._past) for word in known.words]
    starts = range(len(single) - len(phrase) + 1)
    return any(
        all(part.is_in(single[start + i]) for i, part in enumerate(phrase)) for start in starts
    )


@lru_cache(maxsize=_RECORDS)
def _goals(
    concepts: tuple[str, ...], lists: tuple[tuple[str, ...], ...], past: bool
) -> tuple[_Goal, ...]:
    """Return what a text must have for each concept."""
    folded = [frozenset(form.casefold() for form in forms) for forms in lists]
    names = [concept.casefold() for concept in concepts]
    goals = []
    for name in names:
        # A list that holds two concepts of the record belongs to the one that has no other.
        holding = [forms for forms in folded if name in forms]
        if holding:
            goals.append(_listed(min(holding, key=lambda forms: len(forms.intersection(names)))))
        else:
            goals.append(_inflected(words_of(name), past))
    return tuple(goals)


def _listed(forms: frozenset[str]) -> _Goal:
    split = [tuple(words_of(form)) for form in sorted(forms)]
    single = frozenset(words[0] for words in split if len(words) == 1)
    rows = (words for words in split if len(words) > 1)
    phrases = tuple(tuple(_Goal(frozenset({w}), frozenset()) for w in row) for row in rows)
    return _Goal(single, frozenset(), phrases)


def _inflected(words: list[str], past: bool) -> _Goal:
    if len(words) > 1:
        row = tuple(_inflected([word], past) for word in words)
        return _Goal(frozenset(), frozenset(), (row,))
    bases = base_forms(words[0])
    forms = frozenset().union(*map(regular_forms, bases))
    if not past:
        forms = frozenset(form for form in forms if form in bases or not is_past(form))
    return _Goal(forms, bases)


def _read(record: Record) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return a record's concepts, parts of speech cut off, and its lists of forms."""
    fields: Mapping[str, Any] = {} if record is None else record
    if "concepts" not in fields:
        raise FieldError(
            "the record has no field 'concepts', which the reward coverage counts",
            hint='Give it one, such as "concepts": ["dog", "run"].',
            field="concepts",
        )
    concepts = _texts("concepts", fields["concepts"], "the record's field 'concepts'")
    names = tuple(_PART_OF_SPEECH.sub("", concept) for concept in concepts)
    for number, name in enumerate(names):
        if not words_of(name):
            raise FieldError(
                f"item {number + 1} of the record's field 'concepts' is {concepts[number]!r},"
                " which has no word",
                hint="Leave it out; a concept has letters or digits.",
                field="concepts",
            )
    return names, _lists(fields.get("inflections"))


def _lists(value: Any) -> tuple[tuple[str, ...], ...]:
    """Return a record's lists of forms; a field that is null counts as absent."""
    if value is None:
        return ()
    where = "the record's field 'inflections'"
    if not isinstance(value, list | tuple):
        raise _malformed("inflections", where, value, "a list of lists of texts")
    return tuple(
        _texts("inflections", forms, f"item {number} of {where}")
        for number, forms in enumerate(value, 1)
    )


def _texts(field: str, value: Any, where: str) -> tuple[str, ...]:
    """Return a list of texts that stands in a field of the record."""
    if not isinstance(value, list | tuple):
        raise _malformed(field, where, value, "a list of texts")
    for number, item in enumerate(value, 1):
        if not isinstance(item, str):
            raise _malformed(field, f"item {number} of {where}", item, "a text")
    return tuple(value)


def _malformed(field: str, where: str, found: Any, expected: str) -> FieldError:
    return FieldError(
        f"{where} is {shown(found)}, expected {expected}",
        hint='Correct the field; the reward coverage reads "concepts": ["dog", "run"] and, if'
        ' there are any, "inflections": [["dog", "dogs"], ["run", "ran"]].',
        field=field,
    )
