"""DISC's disambiguation of entities: which article a mention in a text is about.

Paper: arXiv 2504.09135, Tables 2, 5 and 6. Every mention has candidates of its own, few enough that
all laws are computed from the scores of all candidates, and draws are held to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cdec.integrations.findings.answers import (
    DISC,
    EXACT,
    MASKED,
    MICRO_F1,
    ROUNDING,
    TRIES,
    VANILLA,
    Record,
    Way,
    by_label,
    calls,
    difference,
    drawn,
    evaluated,
    law_checks,
    laws,
    mean_distances,
    value,
)
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.laws import MemberLaws, standard_errors
from cdec.integrations.findings.mentions import SOURCES, Mention, hits, mentions, reader

MENTIONS = 20
"""Of each source."""
DRAWS = 4
_BEAMS = (2, 3, 4)


def disambiguation(laboratory: Laboratory) -> Found:
    """Compute Tables 2 and 6: masked decoding, beams, DISC and DISC over beams."""
    asked = mentions(laboratory, MENTIONS)
    records = [mention.record(DRAWS) for mention in asked]
    model = reader(laboratory)
    known = laws(model, records, [mention.candidates for mention in asked])
    samples = {way.label: drawn(model, way, records) for way in _ways()}
    rows = _rows(asked, known, samples)
    return Found(
        [*law_checks(known), *_drawn_checks(asked, known, samples)],
        [_table(rows), _distances(known)],
        [_plot(asked, known, rows)],
    )


def _ways() -> list[Way]:
    beams = [Way(f"beam {width}", "beam", {"beams": width}, draws=1) for width in _BEAMS]
    over_beams = [
        Way(f"disc K={tries}, beam 2", "disc", {"K": tries, "beams": 2}, draws=DRAWS // 2)
        for tries in TRIES
    ]
    return [VANILLA, MASKED, *beams, *DISC.values(), *over_beams, EXACT]


def _chances(asked: Sequence[Mention], known: Sequence[MemberLaws]) -> dict[str, list[float]]:
    """Return the probability of a right title in a draw by method, for each mention."""
    each = [by_label(laws) for laws in known]
    pairs = list(zip(asked, each, strict=True))
    return {label: [m.chance(law[label]) for m, law in pairs] for label in each[0]}


def _rows(
    asked: Sequence[Mention], known: Sequence[MemberLaws], samples: Mapping[str, Sequence[Record]]
) -> dict[str, list[object]]:
    """Return the cells of each method: F1 of each source, their mean, F1 of all, its law, calls."""
    whole = evaluated(samples, [m.reference for m in asked], MICRO_F1)
    parts = [
        evaluated(samples, [m.reference for m in asked if m.source == source], MICRO_F1)
        for source in SOURCES
    ]
    chances = _chances(asked, known)
    rows: dict[str, list[object]] = {}
    for label, own in samples.items():
        each = [value(part, label)[0] for part in parts]
        law = float(np.mean(chances[label])) if label in chances else None
        rows[label] = [*each, float(np.mean(each)), *value(whole, label), law, calls(own)]
    return rows


def _table(rows: Mapping[str, Sequence[object]]) -> Table:
    heads = ("method", *SOURCES, "Avg.", "all", "low", "high", "all, by the law", "calls a draw")
    cells = [(label, *row) for label, row in rows.items()]
    return Table("Micro-F1 of draws, with the 95% interval of all mentions", heads, cells)


def _distances(known: Sequence[MemberLaws]) -> Table:
    each = [(own, by_label(own)) for own in known]
    rows = [
        (label, far, float(np.mean([own.divergence(law[label]) for own, law in each])))
        for label, far in mean_distances(known).items()
    ]
    title = f"Laws, means over mentions; P(S) has the median {_median_mass(known):.3g}"
    return Table(title, ("method", "TV from Q", "KL(Q || law), nats"), rows)


def _median_mass(known: Sequence[MemberLaws]) -> float:
    return float(np.exp(np.median([laws.log_mass for laws in known])))


def _plot(
    asked: Sequence[Mention], known: Sequence[MemberLaws], rows: Mapping[str, Sequence[Any]]
) -> Plot:
    """Return F1 against K, of draws and by the laws; K = 0 is masked decoding."""
    x = [0, *TRIES]
    labels = [MASKED.label, *(DISC[tries].label for tries in TRIES)]
    chances = {label: float(np.mean(own)) for label, own in _chances(asked, known).items()}
    found, low, high = (
        [float(rows[label][at]) for label in labels]
        for at in (len(SOURCES) + 1, len(SOURCES) + 2, len(SOURCES) + 3)
    )
    over_beams = [float(rows[f"disc K={tries}, beam 2"][len(SOURCES) + 1]) for tries in TRIES]
    lines = [
        Line("drawn", x, found, low, high),
        Line("by the law", x, [chances[label] for label in labels]),
        Line("Q", x, [chances[EXACT.label]] * len(x)),
        Line("drawn, beam 2", list(TRIES), over_beams),
    ]
    caption = "Micro-F1 of DISC; at K = 0 that of masked decoding."
    return Plot("f1", caption, "K", "micro-F1", lines)


def _drawn_checks(
    asked: Sequence[Mention], known: Sequence[MemberLaws], samples: Mapping[str, Sequence[Record]]
) -> list[Check]:
    chances = _chances(asked, known)
    gaps = {
        label: standard_errors(hits(asked, samples[label]), chances[label], DRAWS)
        for label in chances
    }
    checks = [
        Check(f"right titles drawn by {label}, standard errors from its law", gap, at_most=5.0)
        for label, gap in gaps.items()
    ]
    best = {m.id: float(own.log_p.max()) for m, own in zip(asked, known, strict=True)}
    beyond = [s["logprob"] - best[s["id"]] for w in _BEAMS for s in samples[f"beam {w}"]]
    first, last = MASKED.label, DISC[TRIES[-1]].label
    gain = np.mean(chances[last]) - np.mean(chances[first])
    pair = {label: samples[label] for label in (last, f"{last}, beam 2")}
    beam_gain = difference(evaluated(pair, [m.reference for m in asked], MICRO_F1), *pair)
    return [
        *checks,
        Check("a beam's text over the best, nats of P", largest(beyond), at_most=ROUNDING),
        Check("micro-F1 of disc K=4 less that of masked, by their laws", float(gain), at_least=0.0),
        Check(
            "micro-F1 of disc K=4, beam 2 less that of disc K=4, upper end of its 95% interval",
            beam_gain.interval.upper,
            at_least=0.0,
        ),
    ]
