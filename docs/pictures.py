"""Draws the picture of the README from a run of the embedded model.

``python docs/pictures.py`` writes ``docs/assets/hero.svg``. Question, answers and numbers are
those of ``cdec demo``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from cdec.cli.tour.answers import DRAWS, QUESTION, Answer, five_answers
from cdec.core import load_model

ROW, BAR, PANEL, LEFT, TOP = 34, 20, 190, 150, 86
"""Pixels: a row's height, a bar's, a panel's width, what stands left and above."""
PANELS = (
    ("masked", "masked decoding draws", "#c0392b"),
    ("law", "the model's law", "#2c3e50"),
    ("exact", "exact draws", "#1e8449"),
)
FONT = "font-family='system-ui, sans-serif'"


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
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img'>",
        f"<title>{escape(f'{QUESTION} {said}')}</title>",
        f"<rect width='{width}' height='{height}' rx='6' fill='#ffffff'/>",
        _text(20, 30, f"“{QUESTION}”", size=17, weight=600),
        _text(20, height - 14, f"Embedded model; {said}.", size=11, fill="#666666"),
    ]
    for row, answer in enumerate(answers):
        parts.append(_text(LEFT - 12, TOP + row * ROW + 15, answer.text, anchor="end"))
    for column, (field, heading, colour) in enumerate(PANELS):
        left = LEFT + column * PANEL
        parts.append(_text(left, TOP - 18, heading, size=13, weight=600, fill=colour))
        for row, answer in enumerate(answers):
            share = float(getattr(answer, field))
            top, length = TOP + row * ROW, max(1.0, share * (PANEL - 70))
            parts.append(
                f"<rect x='{left}' y='{top}' width='{length:.1f}' height='{BAR}' rx='2' "
                f"fill='{colour}'/>"
            )
            parts.append(_text(left + length + 6, top + 15, f"{share:.1%}", size=12))
    return "\n".join([*parts, "</svg>\n"])


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 14,
    weight: int = 400,
    fill: str = "#222222",
    anchor: str = "start",
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y}' {FONT} font-size='{size}' font-weight='{weight}' "
        f"fill='{fill}' text-anchor='{anchor}'>{escape(text)}</text>"
    )


if __name__ == "__main__":
    path = Path(__file__).parent / "assets" / "hero.svg"
    path.parent.mkdir(exist_ok=True)
    path.write_text(hero(five_answers(load_model())), encoding="utf-8")
