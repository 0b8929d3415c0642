"""The page for what is not found, on hosts whose address the site was not told."""

from __future__ import annotations

import re
from typing import Any


def on_post_template(output: str, *, template_name: str, config: Any) -> str:
    """Let the links of 404.html begin where the site does, rather than at the root of its host.

    The page stands in the site's first folder. An address that is given (``SITE_URL``) says where
    the site is from wherever the page is shown, and is left alone.
    """
    if template_name != "404.html" or config.site_url:
        return output
    output = re.sub(r'(\s(?:href|src|action|content)=")/(?!/)', r"\1./", output)
    return output.replace('"base": "/"', '"base": "."')
