"""How the coverage reward agrees with CommonGen's own lists of word forms, without reading them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.shared import shared_folder
from tools.benchmarks.drafts.common import save
from tools.benchmarks.report import show
from tools.benchmarks.rewards.coverage import DEV, disagreements, rate
from tools.benchmarks.setting import Setting

TARGET = 0.99


def run(setting: Setting) -> dict[str, Any]:
    """Measure both variants, print and save; disagreements are listed in the JSON."""
    path = shared_folder() / DEV
    variants: dict[str, dict[str, Any]] = {}
    for name, past in (("coverage", False), ("coverage:past", True)):
        found = disagreements(path, past=past)
        variants[name] = {
            "pairs": found.pairs,
            "agreement": found.share,
            "recall": found.recall,
            "kinds": dict(Counter(one.kind for one in found.disagreements)),
            "disagreements": [
                {"line": one.line, "concept": one.concept, "kind": one.kind, "text": one.reference}
                for one in found.disagreements
            ],
        }
    figures = {"variants": variants, "texts_a_second": rate(path), "target": TARGET}
    kinds = ("missed", "past", "extra")
    show(
        f"Coverage against the lists of CommonGen's dev part (target ≥ {TARGET})",
        ("reward", "pairs", "agreement", "recall", *kinds),
        [
            (
                *(name, one["pairs"], one["agreement"], one["recall"]),
                *(one["kinds"].get(kind, 0) for kind in kinds),
            )
            for name, one in variants.items()
        ],
    )
    save(setting, "coverage", figures)
    return figures
