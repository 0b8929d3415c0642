"""Hooks of the site: what they make of templates."""

from __future__ import annotations

import runpy
from types import SimpleNamespace

from tests.docs.shell import ROOT

_PAGE = (
    '<link href="/assets/a.css"><script src="/assets/b.js"></script><a href="https://x.org/">x</a>'
    '<a href="/." title="cdec"></a><a href="//cdn.org/c">c</a><script>{"base": "/"}</script>'
)


def test_links_of_the_page_for_what_is_not_found_begin_where_the_site_does() -> None:
    hook = runpy.run_path(str(ROOT / "docs/_hooks/not_found.py"))["on_post_template"]
    nowhere, somewhere = SimpleNamespace(site_url=""), SimpleNamespace(site_url="https://x.org/a/")
    found = hook(_PAGE, template_name="404.html", config=nowhere)
    assert found == (
        '<link href="./assets/a.css"><script src="./assets/b.js"></script>'
        '<a href="https://x.org/">x</a><a href="./." title="cdec"></a><a href="//cdn.org/c">c</a>'
        '<script>{"base": "."}</script>'
    )
    assert hook(_PAGE, template_name="404.html", config=somewhere) == _PAGE
    assert hook(_PAGE, template_name="sitemap.xml", config=nowhere) == _PAGE
