"""The three tests of speculative lookahead on worlds of one token: which of them is lossless.

Paper: Constrained Decoding with Speculative Lookaheads, section 3.2.2. The draft says its most
probable token x. Hard rejection keeps it if the target's most probable token y is x; speculative
sampling as it is meant for a draft that always says x (p = 1) keeps it with q(x); the rule as it is
printed keeps it with min(1, q(x) / p(x)). Where x is refused, Algorithm 1 goes on with the reward's
choice among the target's candidates, which is y where the reward likes all alike: so no test makes
the law of the texts that of the target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.disc import DRAWS, farthest, shares, slack
from cdec.integrations.findings.enumeration import Law, total_variation
from cdec.integrations.findings.finding import Check, Found, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.worlds import Toy
from cdec.samplers.rewards import build_reward

TESTS = ("hard", "speculative", "ratio")
_LETTERS = Vocabulary([b"a", b"b", b"c", b"d", b""], eos_token_ids=[4], special_token_ids=[4])
_WORLDS = (
    ((0.5, 0.3, 0.1, 0.1), (0.1, 0.6, 0.2, 0.1)),
    ((0.4, 0.35, 0.2, 0.05), (0.3, 0.4, 0.2, 0.1)),
    ((0.7, 0.1, 0.1, 0.1), (0.6, 0.2, 0.1, 0.1)),
)
"""q and p, the target's and the draft's probabilities of the four texts."""
Probabilities = tuple[float, ...]


def verification(laboratory: Laboratory) -> Found:
    """Compute how often each test keeps the draft's token, and the laws of texts, also drawn."""
    rows = [row for q, p in _WORLDS for row in _rows(q, p)]
    kept = {test: [row for row in rows if row["test"] == test] for test in TESTS}
    checks = [
        Check("shares drawn, farthest from the law of their test",
              largest([row["farthest"] for row in rows]), at_most=slack(DRAWS)),
        Check("test speculative: largest |P(kept) - q(x)|",
              largest([abs(row["kept"] - row["q"]) for row in kept["speculative"]]),
              at_most=1e-12),
        *(Check(f"test {test}: largest |P(kept) - q(x)|",
                largest([abs(row["kept"] - row["q"]) for row in kept[test]]), at_least=0.1)
          for test in ("hard", "ratio")),
        Check("ratio over speculative: smallest P(kept)",
              min(a["kept"] / b["kept"] for a, b in zip(kept["ratio"], kept["speculative"],
                                                        strict=True)), at_least=1.0),
        *(Check(f"cdsl with the test {test}: total variation of texts from the target's, largest",
                largest([row["distance"] for row in kept[test]]), at_least=0.1)
          for test in TESTS),
        Check("speculative decoding with the same draft, drawn: farthest from the target's law",
              largest([_plain(q, p) for q, p in _WORLDS]), at_most=slack(DRAWS)),
    ]  # fmt: skip
    columns = ("world", "test", "q(x)", "p(x)", "P(kept)", "TV of texts from the target's",
               "the same, drawn")  # fmt: skip
    cells = [
        (number // len(TESTS) + 1, *(row[name] for name in
         ("test", "q", "p", "kept", "distance", "drawn")))
        for number, row in enumerate(rows)
    ]  # fmt: skip
    return Found(checks, [Table("Worlds of four texts of one token", columns, cells)])


def _rows(q: Probabilities, p: Probabilities) -> list[dict[str, Any]]:
    x, y, target = int(np.argmax(p)), int(np.argmax(q)), _law(q)
    chances = {"hard": float(x == y), "speculative": q[x], "ratio": min(1.0, q[x] / p[x])}
    rows = []
    for test, chance in chances.items():
        law: Law = {(x,): chance}
        law[y,] = law.get((y,), 0.0) + 1 - chance
        drawn = shares(_toy(q), "cdsl", draft=_model(p), reward=build_reward("regex:."),
                       verify=test, depth=1, accept_threshold=0.5)  # fmt: skip
        rows.append({
            "test": test, "q": q[x], "p": p[x], "kept": chance,
            "distance": total_variation(law, target), "drawn": total_variation(drawn, target),
            "farthest": farthest(drawn, law),
        })  # fmt: skip
    return rows


def _plain(q: Probabilities, p: Probabilities) -> float:
    return farthest(shares(_toy(q), "speculative", draft=_model(p), gamma=1), _law(q))


def _law(q: Probabilities) -> Law:
    return {(token,): share for token, share in enumerate(q)}


def _table(shares_: Probabilities) -> Any:
    row: NDArray[np.float64] = np.array([*shares_, 0.0])
    return lambda prefix: row


def _model(p: Probabilities) -> TabularModel:
    return TabularModel(_table(p), _LETTERS)


def _toy(q: Probabilities) -> Toy:
    return Toy(_LETTERS, _table(q), [(0,), (1,), (2,), (3,)], ends_itself=True)
