"""English words and their forms: which words of a text are forms of a dictionary form.

Irregular forms come from simplemma's dictionary, regular ones from the rules of spelling, because
the dictionary holds "sitting" and "building" as words of their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from cdec.core.errors import ExtraMissingError

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
    """Whether a word looks like a regular past (-ed), or is an irregular one and no participle."""
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
