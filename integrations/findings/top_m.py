"""DISC with masks of the model's M most probable tokens: how M and K trade accuracy for calls.

Paper: arXiv 2504.09135, Table 5. A mention's candidates are few, so that the law under such masks
is enumerated from the model's distributions, and draws are held to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.language_model import LanguageModel
from cdec.integrations.findings import enumeration
from cdec.integrations.findings.answers import TRIES, Record, Way, calls, drawn, scores
from cdec.integrations.findings.finding import Check, Found, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.laws import Law, MemberLaws, standard_errors
from cdec.integrations.findings.mentions import Mention, hits, mentions, reader
from cdec.integrations.findings.worlds import Row, Toy

SIZES = (50, 100, 500, 1000)
"""M of the paper's table."""
MENTIONS = 8
"""Of each source."""
DRAWS = 4


def samples(laboratory: Laboratory) -> Found:
    """Compute Table 5: M tokens verified at each step, by K candidates."""
    model = reader(laboratory)
    asked = mentions(laboratory, MENTIONS)
    records = [mention.record(DRAWS) for mention in asked]
    scored = scores(model, records, [mention.candidates for mention in asked])
    worlds = [
        world(model, mention.prompt, [tuple(s.token_ids) for s in own])
        for mention, own in zip(asked, scored, strict=True)
    ]
    grid: dict[int | None, list[Cell]] = {}
    for top_m in (*SIZES, None):
        known = [law_of(toy, top_m) for toy in worlds]
        grid[top_m] = [Cell(laboratory, asked, records, known, (tries, top_m)) for tries in TRIES]
    whole = model.vocabulary.size
    same = drawn(model, _way(TRIES[-1], whole), records)
    return Found(_checks(grid, same), _tables(grid), times=[_times(grid)])


class Cell:
    """A cell of the grid: what was drawn with some M and K, and its law.

    Attributes:
        samples: In the order of the records. seconds: that they took.
        laws: Of each mention, float64 over all of its candidates.
        chances: Probability of a right title in a draw of each mention.
        gap: Right titles drawn, standard errors from the law.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        asked: Sequence[Mention],
        records: Sequence[Record],
        known: Sequence[tuple[list[int], MemberLaws]],
        setting: tuple[int, int | None],
    ) -> None:
        begin = laboratory.seconds()
        self.samples = drawn(reader(laboratory), _way(*setting), records)
        self.seconds = laboratory.seconds() - begin
        self.laws = [
            _over_all(members, laws.disc(setting[0]), len(mention.candidates))
            for mention, (members, laws) in zip(asked, known, strict=True)
        ]
        self.chances = [m.chance(law) for m, law in zip(asked, self.laws, strict=True)]
        self.right = hits(asked, self.samples)
        self.gap = standard_errors(self.right, self.chances, DRAWS)

    @property
    def expected(self) -> float:
        """Micro-F1 by the law: every draw is an answer, so that it is the share of right ones."""
        return float(np.mean(self.chances))

    @property
    def found(self) -> float:
        """Micro-F1 of the draws."""
        return sum(self.right) / len(self.samples)


def _over_all(members: Sequence[int], law: Law, count: int) -> Law:
    whole = np.zeros(count)
    whole[list(members)] = law
    return whole


def _way(tries: int, top_m: int | None) -> Way:
    options = {"K": tries} if top_m is None else {"K": tries, "top_m": top_m}
    return Way(f"K={tries}, M={top_m}", "disc", options)


def world(model: LanguageModel, prompt: str, rows: Sequence[Row]) -> Toy:
    """Return the world of some rows under a model: its law after every prefix of one of them."""
    prefixes = sorted({row[:depth] for row in rows for depth in range(len(row) + 1)}, key=len)
    roots = model.prefill([prompt])
    contexts: dict[Row, int] = {(): int(roots[0])}
    for prefix in prefixes[1:]:
        contexts[prefix] = int(model.advance([contexts[prefix[:-1]]], [prefix[-1]])[0])
    log_p = np.asarray(model.next_logprobs([contexts[prefix] for prefix in prefixes]), np.float64)
    model.release(roots)
    known = dict(zip(prefixes, np.exp(log_p), strict=True))
    return Toy(model.vocabulary, known.__getitem__, list(rows))


def verified(toy: Toy, top_m: int) -> Toy:
    """Return the world in which only the M most probable tokens of each step can be allowed.

    Where none of them is allowed all tokens can be, as the samplers do.
    """
    ends = list(toy.vocabulary.eos_token_ids)
    allowed: dict[Row, set[int]] = {}
    for row in toy.members:
        for depth, token in enumerate(row):
            allowed.setdefault(row[:depth], set()).add(token)
        allowed.setdefault(row, set()).update(ends)

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        given = toy.probabilities(prefix)
        top = np.argsort(given)[-top_m:]
        valid = allowed[prefix].intersection(top.tolist())
        if not valid:
            return given
        # Ends are one event: a verified one brings them all.
        kept = [*valid, *(ends if valid.intersection(ends) else ())]
        law = np.zeros_like(given)
        law[kept] = given[kept]
        return law

    return Toy(toy.vocabulary, probabilities, toy.members)


def law_of(toy: Toy, top_m: int | None) -> tuple[list[int], MemberLaws]:
    """Return the members that can be drawn, by their numbers, and the laws over these."""
    found = enumeration.masked(toy if top_m is None else verified(toy, top_m))
    members = [n for n, row in enumerate(toy.members) if found.law.get(row, 0.0) > 0]
    rows = [toy.members[n] for n in members]
    law, x = ([values[row] for row in rows] for values in (found.law, found.x))
    return members, MemberLaws(np.log(law), np.log(x))


def _checks(grid: dict[int | None, list[Cell]], same: Sequence[Record]) -> list[Check]:
    full = grid[None]
    gaps = {m: largest([cell.gap for cell in row]) for m, row in grid.items()}
    moved = [
        abs(cell.expected - other.expected)
        for m in SIZES
        for cell, other in zip(grid[m], full, strict=True)
    ]
    few, many = _apart(grid[SIZES[0]], full), _apart(grid[SIZES[-1]], full)
    pairs = zip(same, full[-1].samples, strict=True)
    return [
        *(
            Check(f"right titles drawn, M {_said(m)}, standard errors from the law", g, at_most=5.0)
            for m, g in gaps.items()
        ),
        Check(
            "texts that differ where M is the whole vocabulary, number",
            sum(one["text"] != other["text"] for one, other in pairs),
            at_most=0,
        ),
        Check("largest change of micro-F1 by M, by the laws", largest(moved), at_most=0.05),
        Check(
            "mean TV from the law without bound, M = 1000 over M = 50, K = 4",
            many / few,
            at_most=1.0,
        ),
    ]


def _apart(row: Sequence[Cell], full: Sequence[Cell]) -> float:
    """Return the mean total variation of two laws, of the largest K."""
    pairs = zip(row[-1].laws, full[-1].laws, strict=True)
    return float(np.mean([np.abs(law - other).sum() / 2 for law, other in pairs]))


def _said(top_m: int | None) -> str:
    return "without bound" if top_m is None else f"= {top_m}"


def _tables(grid: dict[int | None, list[Cell]]) -> list[Table]:
    each = [f"K={k}, {what}" for k in TRIES for what in ("by the law", "drawn", "calls")]
    heads = ("M", *each, "TV from the law of all, K=4")
    rows = [
        (
            "all" if m is None else m,
            *(v for c in row for v in (c.expected, c.found, calls(c.samples))),
            _apart(row, grid[None]),
        )
        for m, row in grid.items()
    ]
    return [Table("Micro-F1 and target calls a draw", heads, rows)]


def _times(grid: dict[int | None, list[Cell]]) -> Table:
    rows = [
        ("all" if m is None else m, *(1000 * cell.seconds / len(cell.samples) for cell in row))
        for m, row in grid.items()
    ]
    return Table("Milliseconds a draw", ("M", *(f"K={tries}" for tries in TRIES)), rows)
