"""Runs a page from top to bottom, in one folder, and compares what it shows with what happens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import Block, agrees, blocks_of, steps_of
from tests.docs.shell import Shell

SHOWN_ONLY = ("sh",)
"""Languages of blocks that install something, which no test can do without a network."""
ENGINES = ("docs/how-to/llama-cpp.md", "docs/how-to/vllm.md")
"""Pages about engines that these tests do without: tests/integrations runs their ``py`` blocks."""
INSTALLS = (
    "pip install ",
    "git clone ",
    "cd cdec",
    "make ",
    "docker ",
    "python -m venv ",
    "mkdocs ",
)

_TIMED = re.compile(r"^\d[\d,]* (record|text|prompt)s?[,:;].*\d s([,;] .*)?$|\d s so far$")
"""The last line of a run, and those of its progress."""


@dataclass(frozen=True)
class Difference:
    """An output that a page does not show as it is.

    Attributes:
        page: Its path.
        command: What was run.
        shown, printed: Lines of output.
        first: Number of the first shown line in the page, from 0.
        indent: Of the block, spaces.
    """

    page: Path
    command: str
    shown: Sequence[str]
    printed: Sequence[str]
    first: int
    indent: int

    def __str__(self) -> str:
        """Say where, and both texts."""
        texts = [f"{self.page}:{self.first}: {self.command}", "--- the page shows", *self.shown]
        return "\n".join([*texts, "--- this was printed", *self.printed])


def differences(page: Path, shell: Shell, folder: Path) -> list[Difference]:
    """Run a page's blocks and return the outputs that are other than it shows.

    Args:
        page: A Markdown file.
        shell: Runs the commands.
        folder: Empty; the working directory of the whole page.
    """
    blocks = blocks_of(page.read_text())
    found = []
    for number, block in enumerate(blocks):
        if block.title and block.language != "python":
            (folder / block.title).write_text("\n".join(block.lines) + "\n")
        elif block.language == "console":
            found += _of_console(page, block, shell, folder)
        elif block.language == "python":
            if block.title:
                (folder / block.title).write_text("\n".join(block.lines) + "\n")
            else:
                found += _of_python(page, blocks[number : number + 2], shell, folder)
    return found


def _of_console(page: Path, block: Block, shell: Shell, folder: Path) -> Iterator[Difference]:
    for step in steps_of(block):
        all_printed = shell.run(step.command, folder)
        # A page may leave out how long a run took, which no two runs have in common.
        printed = [line for line in all_printed if not _TIMED.search(line)]
        if not (agrees(step.shown, printed) or agrees(step.shown, all_printed)):
            yield Difference(page, step.command, step.shown, printed, step.first, step.indent)


def _of_python(
    page: Path, blocks: Sequence[Block], shell: Shell, folder: Path
) -> Iterator[Difference]:
    """Run a script; the next block, if its language is ``output``, is what it prints."""
    script, *after = blocks
    shows = bool(after) and after[0].language == "output"
    shown = after[0].lines if shows else []
    printed = shell.run_python("\n".join(script.lines), folder)
    if not agrees(shown, printed):
        first = after[0].first if shows else script.first
        yield Difference(page, script.lines[0], shown, printed, first, script.indent)


def updated(text: str, found: Sequence[Difference]) -> str:
    """Return a page with what was printed in the place of what it shows."""
    lines = text.split("\n")
    for each in sorted(found, key=lambda difference: -difference.first):
        printed = [" " * each.indent + line for line in each.printed]
        lines[each.first : each.first + len(each.shown)] = printed
    return "\n".join(lines)
