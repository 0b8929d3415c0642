"""Draws the pictures of the README from runs of the embedded model.

``python docs/pictures.py`` writes ``docs/assets/hero.svg``, whose question, answers and numbers are
those of ``cdec demo``, and ``docs/assets/report.svg``, the main plot of the report that the README
makes.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from svg import ASSETS, BLUE, GREEN, PALE, RED, bar, picture, text

from cdec.cli.demo import DRAWS, QUESTION, Answer, five_answers
from cdec.core import load_model

ROW, BAR, PANEL, LEFT, TOP = 34, 20, 190, 150, 86
"""Pixels: a row's height, a bar's, a panel's width, what stands left and above."""
PANELS = (
    ("masked", "masked decoding draws", RED),
    ("law", "the model's law", BLUE),
    ("exact", "exact draws", GREEN),
)


def hero(answers: Sequence[Answer]) -> str:
    """Return the picture: a row for each answer, a bar in each of three panels."""
    width, height = LEFT + len(PANELS) * PANEL + 20, TOP + len(answers) * ROW + 34
    likely = max(answers, key=lambda answer: answer.law)
    lured = max(answers, key=lambda answer: answer.masked)
    said = (
        f"masked decoding draws “{lured.text}” in {lured.masked:.0%} of {DRAWS:,} draws, "
        f"where the model's law gives “{likely.text}” {likely.law:.1%}"
    )
    parts = [
        text(20, 30, f"“{QUESTION}”", size=17, weight=600),
        text(20, height - 14, f"Embedded model; {said}.", size=11, fill=PALE),
    ]
    for row, answer in enumerate(answers):
        parts.append(text(LEFT - 12, TOP + row * ROW + 15, answer.text, anchor="end"))
    for column, (field, heading, colour) in enumerate(PANELS):
        left = LEFT + column * PANEL
        parts.append(text(left, TOP - 18, heading, size=13, weight=600, fill=colour))
        for row, answer in enumerate(answers):
            share = float(getattr(answer, field))
            top, length = TOP + row * ROW, max(1.0, share * (PANEL - 70))
            parts.append(bar(left, top, length, BAR, colour))
            parts.append(text(left + length + 6, top + 15, f"{share:.1%}", size=12))
    return picture(width, height, f"{QUESTION} {said}", parts)


def report() -> bytes:
    """Run the README's comparison of methods, and return its plot of quality against cost."""
    readme = Path(__file__).parents[1] / "README.md"
    blocks = re.findall(r"```console\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    compared = next(block for block in blocks if "cdec report" in block)
    listed = next(block for block in blocks if "> cities.txt" in block)
    lines = [*listed.splitlines()[:2], *compared.splitlines()]
    script = "\n".join(line[2:] for line in lines if line[:2] in ("$ ", "> "))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["sh", "-ec", script], cwd=folder, check=True)
        return Path(folder, "methods.cost.svg").read_bytes()


if __name__ == "__main__":
    (ASSETS / "report.svg").write_bytes(report())
    (ASSETS / "hero.svg").write_text(hero(five_answers(load_model())), encoding="utf-8")
