"""How the coverage reward, reading concepts alone, agrees with CommonGen's lists of word forms.

python -m tools.benchmarks.rewards.coverage [--data FILE] [--past] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from cdec.samplers.rewards.coverage import CoverageReward, is_past, lemma_of, words_of
from tests.shared import shared_folder
from tools.benchmarks.files import read_jsonl

DEV = "data/commongen/dev.jsonl.xz"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A (reference, concept) pair that the reward and the record's list judge differently.

    Attributes:
        line: Of the record, from 1.
        kind: ``missed``: the list holds a word of the text and the reward saw none; ``past``: the
            reward counted a simple past, which the lists leave out; ``extra``: any other word that
            the reward counted and the list lacks.
    """

    line: int
    concept: str
    kind: str
    reference: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts of (reference, concept) pairs: all, those the lists call present, disagreements."""

    pairs: int
    listed: int
    disagreements: tuple[Disagreement, ...]

    @property
    def share(self) -> float:
        """Share of all pairs that are judged alike."""
        return 1 - len(self.disagreements) / self.pairs

    @property
    def recall(self) -> float:
        """Share of the pairs with a listed form that the reward found."""
        missed = sum(found.kind == "missed" for found in self.disagreements)
        return 1 - missed / self.listed


def disagreements(path: Path, *, past: bool = False) -> Agreement:
    """Judge every reference by concepts alone and by the lists, and compare.

    Args:
        path: JSONL, xz: ``concepts``, ``references``, ``inflections``.
        past: Whether simple pasts count, as in ``coverage:past``; else as in ``coverage``.
    """
    reward = CoverageReward("past" if past else "")
    pairs = listed = 0
    found: list[Disagreement] = []
    for line, record in enumerate(read_jsonl(path), 1):
        blind = {"concepts": record["concepts"]}
        for reference in record["references"]:
            truths, guesses = reward.found(reference, record), reward.found(reference, blind)
            pairs += len(truths)
            listed += sum(truths)
            for concept, truth, guess in zip(record["concepts"], truths, guesses, strict=True):
                if truth != guess:
                    kind = "missed" if truth else _extra_kind(concept, reference)
                    found.append(Disagreement(line, concept, kind, reference))
    return Agreement(pairs, listed, tuple(found))


def rate(path: Path, repeats: int = 5) -> float:
    """Return texts scored a second, words known, three texts a record as a lookahead has them."""
    reward = CoverageReward()
    texts, rows = [], []
    for record in read_jsonl(path):
        blind = {"concepts": record["concepts"]}
        for reference in record["references"]:
            words = reference.split()
            texts += [" ".join(words[:stop]) for stop in (3, 6, len(words))]
            rows += [blind] * 3
    reward.scores(texts, rows)
    begin = time.perf_counter()
    for _ in range(repeats):
        reward.scores(texts, rows)
    return repeats * len(texts) / (time.perf_counter() - begin)


def _extra_kind(concept: str, reference: str) -> str:
    words = [word for word in words_of(reference) if is_past(word)]
    blind = CoverageReward()
    only_past = any(
        lemma_of(word) == concept or blind.found(word, {"concepts": [concept]})[0] for word in words
    )
    return "past" if only_past else "extra"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=shared_folder() / DEV)
    parser.add_argument("--past", action="store_true", help="simple pasts count")
    parser.add_argument("--json", action="store_true", help="all disagreements, as JSON")
    options = parser.parse_args()
    result = disagreements(options.data, past=options.past)
    kinds = Counter(found.kind for found in result.disagreements)
    if options.json:
        print(json.dumps(asdict(result) | {"share": result.share, "recall": result.recall}))
        return
    print(f"pairs {result.pairs}, agreement {result.share:.4f}, recall {result.recall:.4f}")
    print(", ".join(f"{kind} {count}" for kind, count in kinds.items()) or "no disagreement")
    print(f"{rate(options.data):.0f} texts a second")
    for found in result.disagreements:
        if found.kind != "past":
            print(f"line {found.line} {found.kind} {found.concept!r}: {found.reference}")


if __name__ == "__main__":
    main()
