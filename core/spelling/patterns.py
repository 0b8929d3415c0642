"""Split patterns of pre-tokenizers as ordered automata: which alternative comes first decides.

A pattern is read into a program over *atoms*, sets of characters as the pattern writes them
(``\\p{L}``, ``[^\\r\\n]``). What an atom holds is asked of the tokenizers library, never read here.
Of the syntax exactly that is read which such patterns use; all else is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cdec.core.errors import CanonicalError

ATOM, FORK, AHEAD, MATCH = range(4)
"""Instructions: consume a character, try in turn, look at the next character, accept."""
_MOST_REPEATS = 64
_MOST_INSTRUCTIONS = 4096
_FOLDED_TOGETHER = ("ss", "st", "ff", "fi", "fl")
"""Letters that one character may match together where case is ignored."""
_ESCAPES = "sSdDwWhHrntf"


@dataclass(slots=True)
class Instruction:
    """One step of a program.

    Attributes:
        kind: Of the four above.
        atom: Number of a set of characters, of ``ATOM`` and ``AHEAD``.
        to: What comes next, in the order in which it is tried.
        negated: Whether ``AHEAD`` holds where the next character is none of the atom's, or no
            character follows.
    """

    kind: int
    atom: int = -1
    to: list[int] = field(default_factory=list)
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """A part of a pattern: an ``atom``, an ``ahead``, ``all`` of parts, ``any`` of them, ``times``.

    Attributes:
        kind: One of these words.
        source: Of an atom, as the pattern writes it.
        negated: Of a look ahead.
        parts: Trees in order.
        least, most: How often the one part stands; None for no bound.
    """

    kind: str
    source: str = ""
    negated: bool = False
    parts: Sequence[Tree] = ()
    least: int = 1
    most: int | None = 1


@dataclass(slots=True)
class Program:
    """An ordered automaton of one pattern.

    Attributes:
        steps: Instructions. start: The first one's number.
        atoms: Sets of characters as the pattern writes them, by number; shared between programs.
    """

    steps: list[Instruction]
    start: int
    atoms: list[str]


class PatternReader:
    """Reads a pattern in one pass, right to left in continuation form.

    Args:
        pattern: As the tokenizer's file has it.
        atoms: Of the programs read before; new ones are added.

    Raises:
        CanonicalError: The pattern uses other syntax.
    """

    def __init__(self, pattern: str, atoms: list[str]) -> None:
        self._pattern, self._at, self._atoms = pattern, 0, atoms
        self._steps: list[Instruction] = [Instruction(MATCH)]

    def read(self) -> Program:
        """Return the program."""
        tree = self._alternatives(folds=False)
        if self._at < len(self._pattern):
            raise self._refusal("an unopened group")
        return Program(self._steps, self._compile(tree, 0), self._atoms)

    def _alternatives(self, *, folds: bool) -> Tree:
        found = [self._sequence(folds=folds)]
        while self._peek() == "|":
            self._at += 1
            found.append(self._sequence(folds=folds))
        return Tree("any", parts=found)

    def _sequence(self, *, folds: bool) -> Tree:
        found: list[Tree] = []
        letters = ""
        while self._peek() not in ("", "|", ")"):
            before = self._at
            tree = self._item(folds=folds)
            letters += self._pattern[before] if before + 1 == self._at else " "
            found.append(self._repeated(tree))
        if folds and any(pair in letters.lower() for pair in _FOLDED_TOGETHER):
            raise self._refusal("letters that one character may match together")
        return Tree("all", parts=found)

    def _item(self, *, folds: bool) -> Tree:
        head = self._peek()
        if head == "(":
            return self._group(folds=folds)
        if head == "[":
            source = self._bracket()
        elif head == "\\":
            source = self._escape()
        elif head in ".^$*+?{":
            raise self._refusal(f"{head!r}")
        else:
            self._at += 1
            source = head if head.isalnum() or not head.isascii() else f"\\x{ord(head):02x}"
        return Tree("atom", f"(?i:{source})" if folds else source)

    def _group(self, *, folds: bool) -> Tree:
        rest = self._pattern[self._at :]
        for opening, negated in (("(?!", True), ("(?=", False)):
            if rest.startswith(opening):
                self._at += len(opening)
                tree = self._item(folds=folds)
                if tree.kind != "atom" or self._peek() != ")":
                    raise self._refusal("a look at more than the next character")
                self._at += 1
                return Tree("ahead", tree.source, negated=negated)
        opening = next((each for each in ("(?:", "(?i:") if rest.startswith(each)), "(")
        if opening == "(" and rest.startswith("(?"):
            raise self._refusal(f"{rest[:4]!r}")
        self._at += len(opening)
        inner = self._alternatives(folds=folds or opening == "(?i:")
        if self._peek() != ")":
            raise self._refusal("a group without an end")
        self._at += 1
        return inner

    def _bracket(self) -> str:
        start = self._at
        self._at += 2 if self._pattern.startswith("[^", start) else 1
        first = self._at
        while self._at == first or self._peek() != "]":
            if self._peek() in ("", "[") or self._pattern.startswith("&&", self._at):
                raise self._refusal("a set of characters within another, or without an end")
            self._at += 2 if self._peek() == "\\" else 1
        self._at += 1
        return self._pattern[start : self._at]

    def _escape(self) -> str:
        start, letter = self._at, self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if letter in ("p", "P"):
            end = self._pattern.find("}", self._at)
            if self._peek() != "{" or end < 0:
                raise self._refusal("a property without braces")
            self._at = end + 1
        elif not letter or (letter.isalnum() and letter not in _ESCAPES):
            raise self._refusal(f"'\\{letter}'")
        return self._pattern[start : self._at]

    def _repeated(self, tree: Tree) -> Tree:
        least, most = 1, None
        head = self._peek()
        if not head or head not in "?*+{":
            return tree
        if head == "{":
            end = self._pattern.find("}", self._at)
            low, comma, high = self._pattern[self._at + 1 : max(end, 0)].partition(",")
            if not low.isdecimal() or (high and not high.isdecimal()):
                raise self._refusal("'{'")
            least, most = int(low), int(high) if high else None if comma else int(low)
            self._at = end
        else:
            least, most = {"?": (0, 1), "*": (0, None), "+": (1, None)}[head]
        self._at += 1
        if self._peek() and self._peek() in "?+*{":
            raise self._refusal("a repetition that is lazy or possessive")
        if tree.kind == "ahead" or max(least, most or 0) > _MOST_REPEATS:
            raise self._refusal("such a repetition")
        if most is None and tree.kind != "atom":
            raise self._refusal("a group that repeats without bound")
        return Tree("times", parts=[tree], least=least, most=most)

    def _compile(self, tree: Tree, then: int) -> int:
        """Return the number of the instruction with which a tree begins, ``then`` behind it."""
        if tree.kind in ("atom", "ahead"):
            if tree.source not in self._atoms:
                self._atoms.append(tree.source)
            step = ATOM if tree.kind == "atom" else AHEAD
            atom = self._atoms.index(tree.source)
            return self._add(Instruction(step, atom, [then], tree.negated))
        if tree.kind == "any":
            return self._add(Instruction(FORK, to=[self._compile(p, then) for p in tree.parts]))
        if tree.kind == "all":
            for part in reversed(tree.parts):
                then = self._compile(part, then)
            return then
        (inner,) = tree.parts
        behind = then
        if tree.most is None:
            then = self._add(Instruction(FORK))
            self._steps[then].to = [self._compile(inner, then), behind]
        for _ in range((tree.most or 0) - tree.least):
            then = self._add(Instruction(FORK, to=[self._compile(inner, then), behind]))
        for _ in range(tree.least):
            then = self._compile(inner, then)
        return then

    def _add(self, step: Instruction) -> int:
        if len(self._steps) >= _MOST_INSTRUCTIONS:
            raise self._refusal("so many repetitions")
        self._steps.append(step)
        return len(self._steps) - 1

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _refusal(self, what: str) -> CanonicalError:
        return CanonicalError(
            f"the tokenizer splits texts by the pattern {self._pattern!r}, and {what} at character "
            f"{self._at + 1} is not read here: which tokens it would write is not known",
            hint="leave `canonical` out",
            pattern=self._pattern,
        )
