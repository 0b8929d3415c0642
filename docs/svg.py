"""Parts of pictures: text, boxes, lines and bars as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

ASSETS = Path(__file__).parent / "assets"
INK, PALE, RED, GREEN, BLUE = "#222222", "#666666", "#c0392b", "#1e8449", "#2c3e50"
_FONT = "font-family='system-ui, sans-serif'"


def text(
    x: float,
    y: float,
    said: str,
    *,
    size: int = 14,
    weight: int = 400,
    fill: str = INK,
    anchor: str = "start",
) -> str:
    """Return a line of text; ``y`` is its baseline, pixels."""
    return (
        f"<text x='{x:.1f}' y='{y}' {_FONT} font-size='{size}' font-weight='{weight}' "
        f"fill='{fill}' text-anchor='{anchor}'>{escape(said)}</text>"
    )


def bar(x: float, y: float, length: float, height: float, fill: str) -> str:
    """Return a filled bar, at least a pixel long."""
    return (
        f"<rect x='{x}' y='{y}' width='{max(1.0, length):.1f}' height='{height}' rx='2' "
        f"fill='{fill}'/>"
    )


def box(x: float, y: float, width: float, said: str, *, colour: str, dashed: bool = False) -> str:
    """Return a token: a frame of 28 pixels with a word in its middle."""
    dash = " stroke-dasharray='4 3'" if dashed else ""
    frame = (
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='28' rx='4' fill='#ffffff' "
        f"stroke='{colour}' stroke-width='1.5'{dash}/>"
    )
    return frame + text(x + width / 2, y + 19, said, size=13, fill=colour, anchor="middle")


def line(x: float, y: float, to_x: float, to_y: float, *, colour: str, dashed: bool = False) -> str:
    """Return a line between two points."""
    dash = " stroke-dasharray='4 3'" if dashed else ""
    return (
        f"<line x1='{x:.1f}' y1='{y:.1f}' x2='{to_x:.1f}' y2='{to_y:.1f}' stroke='{colour}' "
        f"stroke-width='1.5'{dash}/>"
    )


def picture(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """Return a whole picture on white, its title for those who cannot see it."""
    head = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img'>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{width}' height='{height}' rx='6' fill='#ffffff'/>",
    ]
    return "\n".join([*head, *parts, "</svg>\n"])
