"""The fenced blocks of a Markdown page, and whether what a command printed is what a page shows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<rest>[^\n`]*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_ELLIPSIS = "..."


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: Of the fence, such as ``console``.
        title: File that the block is; "" for none.
        lines: Its text, without the indent of the fence.
        first: Number of its first line in the page, from 0.
        indent: Of the fence, spaces.
    """

    language: str
    title: str
    lines: Sequence[str]
    first: int
    indent: int = 0


@dataclass(frozen=True)
class Step:
    """A command of a console block, and what the page shows of its output.

    Attributes:
        command: As typed; continued lines joined by newlines.
        shown: Lines of output.
        first: Number of the first line of output in the page, from 0.
        indent: Of the block.
    """

    command: str
    shown: list[str] = field(default_factory=list)
    first: int = 0
    indent: int = 0


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in its order."""
    found: list[Block] = []
    opened: re.Match[str] | None = None
    first = 0
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if opened is None:
            opened = _FENCE.match(line)
            first = number + 1
        elif line.strip() == "```":
            indent = len(opened["indent"])
            title = _TITLE.search(opened["rest"])
            body = [each[indent:] for each in lines[first:number]]
            name = title[1] if title else ""
            found.append(Block(opened["language"], name, body, first, indent))
            opened = None
    if opened is not None:
        raise ValueError(f"the block that begins in line {first} never ends")
    return found


def steps_of(block: Block) -> list[Step]:
    """Return the commands of a console block: ``$ `` begins one, ``> `` goes on with it."""
    steps: list[Step] = []
    for number, line in enumerate(block.lines):
        after = block.first + number + 1
        if line.startswith("$ "):
            steps.append(Step(line[2:], [], after, block.indent))
        elif line.startswith("> ") and steps and not steps[-1].shown:
            joined = f"{steps[-1].command}\n{line[2:]}"
            steps[-1] = Step(joined, [], after, block.indent)
        elif not steps:
            raise ValueError(f"line {block.first + number + 1}: output before the first command")
        else:
            steps[-1].shown.append(line)
    return steps


def agrees(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Return whether a page shows what was printed.

    A line ``...`` stands for any lines, ``...`` within a line for any text; numbers with a decimal
    point may differ by 2 % or 2e-6, and columns beside them be wider: the floating-point noise of
    other processors.
    """
    if not shown:
        return not printed
    if shown[0].strip() == _ELLIPSIS:
        rest = shown[1:]
        return any(agrees(rest, printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and _is_same(shown[0], printed[0]) and agrees(shown[1:], printed[1:])


def _is_same(shown: str, printed: str) -> bool:
    parts = [_without_numbers(part) for part in _columns(shown).split(_ELLIPSIS)]
    number = f"({_NUMBER.pattern})"
    pattern = ".*?".join(number.join(map(re.escape, texts)) for texts, _ in parts)
    match = re.fullmatch(pattern, _columns(printed))
    if match is None:
        return False
    wanted = [value for _, values in parts for value in values]
    pairs = zip(wanted, match.groups(), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.02, abs_tol=2e-6) for a, b in pairs)


def _columns(line: str) -> str:
    """Return a line whose numbers, if it has any, stand in columns of any width."""
    line = line.rstrip()
    return re.sub(r"(?<=\S)  +", "  ", line) if _NUMBER.search(line) else line


def _without_numbers(text: str) -> tuple[list[str], list[str]]:
    """Return the text between the numbers, and the numbers."""
    return _NUMBER.split(text), _NUMBER.findall(text)
