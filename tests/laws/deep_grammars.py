"""Random grammars that nest to the left, to the right and in brackets, with members of any height.

The other random grammars are met with texts of a few letters; no stack of a parser grows high on
them. Here members are derived, so a text of height 400 is as easily had as one of height 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Nesting:
    """One way in which a rule goes on: letters, a rule, letters.

    Attributes:
        before: Letters before the rule; each is a terminal.
        rule: Its number.
        after: Letters behind it.
    """

    before: str
    rule: int
    after: str


@dataclass(frozen=True)
class DeepGrammar:
    """A grammar whose rules nest.

    Attributes:
        nestings: Of each rule, at least one.
        ends: Letters of each rule's alternative that ends the nesting.
        optional: Whether letters behind a rule may be left out, which makes two ways of many texts.
    """

    nestings: tuple[tuple[Nesting, ...], ...]
    ends: tuple[str, ...]
    optional: bool

    @property
    def source(self) -> str:
        """The grammar in the Lark dialect."""
        lines = ["start: r0"]
        for number, nestings in enumerate(self.nestings):
            ways = [_symbols(self.ends[number])]
            for way in nestings:
                after = _symbols(way.after) + ("?" if self.optional and way.after else "")
                ways.append(f"{_symbols(way.before)} r{way.rule} {after}")
            lines.append(f"r{number}: {' | '.join(ways)}")
        return "\n".join(lines) + "\n"

    def member(self, rng: np.random.Generator, height: int) -> str:
        """Return a member in which rules nest ``height`` times."""
        rule, before, after = 0, [], []
        for _ in range(height):
            way = self.nestings[rule][int(rng.integers(len(self.nestings[rule])))]
            is_left_out = self.optional and bool(rng.random() < 0.3)
            before.append(way.before)
            after.append("" if is_left_out else way.after)
            rule = way.rule
        return "".join(before) + self.ends[rule] + "".join(reversed(after))


def deep_grammar(rng: np.random.Generator, *, ambiguous: bool) -> DeepGrammar:
    """Return a random grammar that nests.

    Args:
        rng: Draws it.
        ambiguous: Whether letters may be those of other alternatives, and be left out; if not, each
            letter has one place, and all lexers read the same language.
    """
    letters = iter(rng.permutation(list(_LETTERS)).tolist())
    rules = int(rng.integers(1, 4))

    def some(least: int) -> str:
        count = int(rng.integers(least, 3))
        if ambiguous:
            return "".join(rng.choice(list("abc"), count).tolist())
        return "".join(next(letters) for _ in range(count))

    nestings, ends = [], []
    for _ in range(rules):
        ways = []
        for _ in range(int(rng.integers(1, 3))):
            side, rule = rng.choice(["left", "right", "both"]), int(rng.integers(rules))
            before = "" if side == "left" else some(1)[:1]
            ways.append(Nesting(before, rule, "" if side == "right" else some(1)[:1]))
        nestings.append(tuple(ways))
        ends.append(some(1))
    return DeepGrammar(tuple(nestings), tuple(ends), ambiguous and bool(rng.random() < 0.5))


def _symbols(letters: str) -> str:
    return " ".join(f'"{letter}"' for letter in letters)
