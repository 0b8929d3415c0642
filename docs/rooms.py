"""Writes the map of the code into CONTRIBUTING and ``docs/rooms.md``, from the rooms' docstrings.

``python docs/rooms.py`` writes both. CONTRIBUTING has a line for each room, and the ways of a
prompt and of a schema through them, which are written by hand; ``rooms.md`` has these ways, and
what each room's ``__init__.py`` says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDERS = ("core", "compilers", "samplers", "data", "integrations", "cli")
BEGIN, END = "<!-- rooms: written by docs/rooms.py -->\n", "<!-- end of rooms -->\n"
WAYS = re.compile(r"^## The way of .*?(?=^## (?!The way of))", re.MULTILINE | re.DOTALL)
HEAD = """# The rooms of the code

Written by `docs/rooms.py` from what every room says of itself. Imports point one way,
`cli → integrations → {compilers, samplers, data} → core`, and within a folder as the rooms say.

"""


def rooms() -> dict[str, str]:
    """Return what each room says of itself, by its folder."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("__init__.py")):
            said = ast.get_docstring(ast.parse(path.read_text())) or ""
            found[f"{path.parent.relative_to(REPOSITORY)}/"] = said.replace("``", "`")
    return found


def table() -> Iterator[str]:
    """Yield the table of CONTRIBUTING: a line for each room, the first of what it says."""
    yield "| room | what lives there |"
    yield "|---|---|"
    for room, said in rooms().items():
        yield f"| `{room}` | {said.splitlines()[0].replace('|', chr(92) + '|')} |"


def contributing() -> str:
    """Return CONTRIBUTING with its table as the rooms are now."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    before, rest = text.split(BEGIN)
    lines = "\n".join(table())
    return f"{before}{BEGIN}{lines}\n{END}{rest.split(END)[1]}"


def page() -> str:
    """Return the page: the ways, and what every room says."""
    found = WAYS.search((REPOSITORY / "CONTRIBUTING.md").read_text())
    ways = found.group() if found else ""
    parts = [f"## `{room}`\n\n{said}\n" for room, said in rooms().items()]
    return HEAD + ways + "\n".join(parts)


if __name__ == "__main__":
    (REPOSITORY / "CONTRIBUTING.md").write_text(contributing())
    (REPOSITORY / "docs" / "rooms.md").write_text(page())
