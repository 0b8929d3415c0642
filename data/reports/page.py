"""Frame of a page: its head, its end, and text that stands in it as text."""

from __future__ import annotations

import html

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
