"""Mentions of entities in texts, each with the titles that it may mean."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cdec.core.models.language_model import LanguageModel
from cdec.integrations.findings.answers import Record, spread
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.laws import Law
from cdec.integrations.findings.tasks import mention_is_held_out, mention_prompt

SOURCES = {"KORE50": "kore50", "Wiki-Fair": "wiki_fair_v2", "WNED-WIKI": "wned_wiki"}
TITLES = "entity_sets/wikipedia_titles_93k.txt.xz"
_CANDIDATES = 16
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Mention:
    """A mention with its candidates.

    Attributes:
        source: In SOURCES. number: within it.
        prompt: Ends where the title begins.
        candidates: Titles, sorted; the right ones are among them.
        titles: The right ones: some sources have more than one.
    """

    source: str
    number: int
    prompt: str
    candidates: tuple[str, ...]
    titles: frozenset[str]

    @property
    def id(self) -> str:
        """Of its record."""
        return f"{self.source} {self.number}"

    def record(self, draws: int) -> Record:
        """Return the prompt record."""
        candidates = list(self.candidates)
        return {"id": self.id, "prompt": self.prompt, "candidates": candidates, "n": draws}

    @property
    def reference(self) -> Record:
        """The reference of its record."""
        return {"id": self.id, "answers": sorted(self.titles)}

    def chance(self, law: Law) -> float:
        """Return the probability of a right title."""
        return float(sum(p for p, t in zip(law, self.candidates, strict=True) if t in self.titles))


class NearTitles:
    """Titles that a mention may mean: those with all of its words, or with none but its words."""

    def __init__(self, titles: Sequence[str]) -> None:
        self._titles = titles
        self._words = [_words(title) for title in titles]
        self._having: dict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(self._words):
            for word in words:
                self._having[word].append(number)

    def of(self, mention: str, right: frozenset[str], most: int) -> tuple[str, ...]:
        """Return up to ``most`` titles, sorted; the right ones in any case."""
        words = _words(mention)
        seen = sorted({number for word in words for number in self._having.get(word, ())})
        near = [n for n in seen if words <= self._words[n] or self._words[n] <= words]
        random.Random(mention).shuffle(near)
        others = (self._titles[n] for n in near if self._titles[n] not in right)
        return tuple(sorted({*right, *islice(others, most - len(right))}))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def reader(laboratory: Laboratory) -> LanguageModel:
    """Return the model that was trained to name articles where it is there, or the target."""
    return laboratory.task("mention-title") or laboratory.target()


def mentions(laboratory: Laboratory, each: int, most: int = _CANDIDATES) -> list[Mention]:
    """Return mentions of every source, spread evenly over the documents that were held out.

    Args:
        laboratory: Its data.
        each: Mentions of a source. most: Candidates of a mention.
    """
    near = NearTitles(laboratory.lines(TITLES))
    return [
        Mention(source, number, prompt, near.of(text, right, most), right)
        for source, name in SOURCES.items()
        for number, (prompt, text, right) in enumerate(
            spread(list(_spans(laboratory.rows(f"entity_disambiguation/{name}.jsonl.xz"))), each)
        )
    ]


def _spans(documents: Iterator[Mapping[str, Any]]) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield prompt, text and right titles of each span that some source says is a mention."""
    for document in documents:
        if not mention_is_held_out(document["doc"]):
            continue
        spans: dict[tuple[int, int], set[str]] = defaultdict(set)
        for mention in document["mentions"]:
            spans[mention["offset"], mention["length"]].add(mention["title"])
        for (offset, length), titles in spans.items():
            text = document["text"]
            prompt = mention_prompt(text, offset, length)
            yield prompt, text[offset : offset + length], frozenset(titles)


def hits(asked: Sequence[Mention], samples: Sequence[Record]) -> list[int]:
    """Return the number of right draws of each mention."""
    found = dict.fromkeys((mention.id for mention in asked), 0)
    right = {mention.id: mention.titles for mention in asked}
    for sample in samples:
        found[sample["id"]] += sample["text"] in right[sample["id"]]
    return list(found.values())
