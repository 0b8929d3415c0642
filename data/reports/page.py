"""Frame of a page: its head, its end, and text that stands in it as text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from cdec.data.output.terminal import escape

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 16px/1.6 system-ui, sans-serif; margin: 2em auto; max-width: 60em; color: #222;
padding: 0 1rem; overflow-wrap: anywhere; }}
{style}
</style></head><body>"""
PAGE_END = "</body></html>\n"
DOCUMENT_STYLE = """
h2 { font-size: 1.15em; margin: 2em 0 0.5em; } figure { margin: 1em 0; }
svg { max-width: 100%; height: auto; } .w { overflow-x: auto; } .w svg { min-width: 44em; }
figcaption, .n { color: #555; font-size: 0.9em; }
.s { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9em; }
th, td { text-align: left; padding: 0.15em 0.9em 0.15em 0; border-bottom: 1px solid #ddd;
white-space: nowrap; font-weight: normal; } thead th { border-bottom: 1px solid #222; }
td { font-variant-numeric: tabular-nums; } dt { margin-top: 0.4em; } dd { margin: 0 0 0 1.5em; }
"""
"""Rules of pages with headings, figures and tables."""
_SVG = re.compile(r"<svg.*</svg>", re.DOTALL)


def page_head(title: str, style: str) -> str:
    """Return a page from its beginning to the body, which loads nothing and runs nothing.

    Args:
        title: Of the window, as text.
        style: Rules of CSS beside those of all pages.
    """
    return _HEAD.format(title=safe(title), style=style)


def safe(text: str) -> str:
    """Return text as it stands in HTML: no markup, and no character that hides or reorders."""
    return html.escape(escape(text))


def figure(svg: bytes, caption: str, *, is_wide: bool = False) -> str:
    """Return a drawing with its caption; a wide one scrolls where the page is narrow."""
    found = _SVG.search(svg.decode())
    told = f"<figcaption>{safe(caption)}</figcaption>"
    drawing = found[0] if found else ""
    return f'<figure><div class="{"w" if is_wide else ""}">{drawing}</div>{told}</figure>\n'


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table, its texts escaped; it scrolls where it is wider than the page."""
    head = "".join(f"<th>{safe(str(cell))}</th>" for cell in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{safe(_cell_text(cell))}</td>' for cell in row)}</tr>\n"
        for row in rows
    )
    return (
        f'<div class="s"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n'
    )


def _cell_text(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
