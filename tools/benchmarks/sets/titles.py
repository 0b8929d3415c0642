"""Synthetic titles, as many as wanted: Zipfian words, shared first words, titles within titles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_STEMS = (
    "al an ar bar bel ber bo bran brook bur cal cam car cas cath clar con cor cot dal dan dor east"
)
_STEMS += (
    " el em fair far fer gar gold gran green har hart hel hol jam jan ken kir lan lin lor mal mar"
)
_STEMS += (
    " mel mont nor oak or par pen per port ram red ren ros ross sal san sel sil stan sten sun tar"
)
_STEMS += " tem tor val ver wal west wil win wood zan él ö mü são"
_MIDDLES = ["", "", "", "", "a", "e", "i", "o", "er", "in", "en", "is", "al", "ing", "ton"]
_ENDINGS = (
    "a al an and ard ber berg bury by dale den don ed en er es ey field ford ham ia ic ie ing"
)
_ENDINGS += (
    " ington ino is ka land ley lo man mann mer mont more na ne ner nia o on or ova ow port ra"
)
_ENDINGS += " ria ro sen ski son stad stein ston ta ter ton tz us va ville well wick wood worth y"
_COMMON = [
    "of",
    "the",
    "in",
    "and",
    "de",
    "List",
    "United",
    "States",
    "County",
    "River",
    "University",
]
_COMMON += ["John", "New", "Saint", "New York", "The", "Battle", "station", "album", "film", "Lake"]
_WORDS = 200_000
_BATCH = 65_536


def make_words(rng: np.random.Generator, count: int = _WORDS) -> list[str]:
    """Return made-up words that look like names; some are alike, the first are very frequent."""
    parts = [_STEMS.split(), _MIDDLES, _ENDINGS.split()]
    drawn = [rng.integers(len(part), size=count).tolist() for part in parts]
    capital = (rng.random(count) < 0.8).tolist()
    words = []
    for a, b, c, upper in zip(*drawn, capital, strict=True):
        word = parts[0][a] + parts[1][b] + parts[2][c]
        words.append(word.capitalize() if upper else word)
    return _COMMON + words


def zipf_ranks(rng: np.random.Generator, n: int, words: int) -> NDArray[np.int64]:
    """Draw ranks in [0, words) with probability about proportional to 1 / (rank + 300)."""
    uniform = rng.random(n)
    ranks = 300.0 * ((words + 300.0) / 300.0) ** uniform - 300.0
    return np.minimum(ranks.astype(np.int64), words - 1)


def synthetic_titles(n: int, seed: int = 0) -> Iterator[list[str]]:
    """Yield ``n`` titles in batches; some percent repeat another one.

    Every eighth title is the beginning of the one before it, as "New York" is of "New York City".

    Args:
        n: Number of titles.
        seed: Of the generator.

    Yields:
        Lists of up to 65,536 titles. Cost: about a microsecond a title.
    """
    rng = np.random.default_rng(seed)
    words = np.array(make_words(rng), dtype=object)
    for start in range(0, n, _BATCH):
        count = min(_BATCH, n - start)
        lengths = 1 + rng.binomial(6, 0.35, size=count)
        picked = words[zipf_ranks(rng, int(lengths.sum()), len(words))].tolist()
        titles, at = [], 0
        for i, length in enumerate(lengths.tolist()):
            # subtle: the slice that ends one word early is the beginning of the title after it.
            stop = at + length if i % 8 or length == 1 else at + length - 1
            titles.append(" ".join(picked[at:stop]))
            at += length if i % 8 else 0
        yield titles
