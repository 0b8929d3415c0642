"""Speculation under local masks on Dyck languages: lossless, and far from Q.

Paper: arXiv 2605.07698. A mask that is applied step by step makes a law of its own; speculation
that is lossless under it draws from that law. A draft below ``exact`` and ``disc`` leaves theirs
alone.
"""

from __future__ import annotations

from cdec.core.models.tabular import TabularModel
from cdec.integrations.findings.disc import farthest, shares, slack
from cdec.integrations.findings.enumeration import disc, masked, mass, target, total_variation
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.worlds import Toy, dyck

_PAIRS = 3
_OPENS = 0.9
_CLOSES = (0.09, 0.05, 0.02, 0.01, 0.005, 0.002)
_TRIES = 8


def local_masks(laboratory: Laboratory) -> Found:
    """Compute how far laws with a draft are from Q, enumerated and drawn."""
    rows = [_row(closes) for closes in _CLOSES]
    far = [row["masked"] for row in rows]
    checks = [
        Check("largest total variation of masked decoding from Q", largest(far), at_least=0.99),
        *(
            Check(f"{name} with a draft: shares drawn, farthest from its law",
                  largest([row[f"{name}, farthest"] for row in rows]), at_most=slack())
            for name in ("speculative", "disc", "exact")
        ),
        Check("largest total variation of disc from Q over that of masked decoding",
              largest([row["disc"] / row["masked"] for row in rows]), at_most=1.0),
    ]  # fmt: skip
    names = ("masked", "disc")
    heads = {"masked": "masked and speculative, law", "disc": f"disc, K={_TRIES}, law"}
    columns = ("P(closing)", "P(S)", *(heads[n] for n in names),
               *(f"{n} with a draft, drawn" for n in ("speculative", "disc", "exact")))  # fmt: skip
    drawn = ("speculative, drawn", "disc, drawn", "exact, drawn")
    cells = [tuple(row[n] for n in ("closes", "mass", *names, *drawn)) for row in rows]
    x = [row["mass"] for row in rows]
    lines = [Line(heads[n], x, [row[n] for row in rows]) for n in names]
    lines.append(Line("exact with a draft, drawn", x, [row["exact, drawn"] for row in rows]))
    plot = Plot("dyck", "How far from Q brackets are, by how probable balanced ones are.", "P(S)",
                "total variation from Q", lines, log_x=True)  # fmt: skip
    title = f"Total variation from Q, balanced brackets of up to {_PAIRS} pairs"
    return Found(checks, [Table(title, columns, cells)], [plot])


def _row(closes: float) -> dict[str, float]:
    toy = dyck(_OPENS, closes, _PAIRS)
    q, local, tried = target(toy), masked(toy).law, disc(toy, _TRIES)
    laws = {"speculative": local, "disc": tried, "exact": q}
    row = {
        "closes": closes,
        "mass": mass(toy),
        "masked": total_variation(local, q),
        "disc": total_variation(tried, q),
    }
    for name, law in laws.items():
        options = {"K": _TRIES} if name == "disc" else {}
        drawn = shares(toy, name, draft=_draft(toy), **options)
        row[f"{name}, drawn"] = total_variation(drawn, q)
        row[f"{name}, farthest"] = farthest(drawn, law)
    return row


def _draft(toy: Toy) -> TabularModel:
    """Return a draft that knows the brackets, and closes more readily than the target."""
    other = dyck(0.6, 0.3, _PAIRS)
    return TabularModel(other.probabilities, toy.vocabulary)
