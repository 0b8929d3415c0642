"""Grammars to test with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cdec.compilers import compile_grammar
from cdec.core import Vocabulary, open_artifact

# --- Grammars, vocabularies and random grammars for tests of whole grammar constraints.

BRIDGES = ["}]", '"}', '",\n', '": ', "aa", "ab", "ba", "abc", "bc", "a b", " a", "1.", "..", "é"]


def byte_vocabulary(extra: Sequence[str] = BRIDGES) -> Vocabulary:
    """Return 256 single bytes, the given texts, a second id for ``a``, and last an end id."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [text.encode() for text in extra] + [b"a", b""]
    return Vocabulary(tokens, [len(tokens) - 1], [len(tokens) - 1], name="bytes")


def compiled(
    source: str, folder: Path, vocabulary: Vocabulary | None = None, **options: Any
) -> Any:
    """Compile a grammar with the public call and open it; blanks are not bounded unless asked."""
    options = {"max_whitespace": None} | options
    vocabulary = vocabulary or byte_vocabulary()
    path = folder / "grammar.arrow"
    compile_grammar(source, vocabulary, path, force=True, **options)
    return open_artifact(path, vocabulary=vocabulary)


def texts_over(alphabet: str, longest: int) -> Iterator[str]:
    """Yield every text over the alphabet, short ones first."""
    for length in range(longest + 1):
        for letters in itertools.product(alphabet, repeat=length):
            yield "".join(letters)


def random_split(text: bytes, vocabulary: Vocabulary, rng: np.random.Generator) -> list[int]:
    """Split a text into tokens at random."""
    by_bytes: dict[bytes, list[int]] = {}
    for token, token_bytes in enumerate(vocabulary.token_bytes):
        if token_bytes:
            by_bytes.setdefault(token_bytes, []).append(token)
    longest = max(map(len, by_bytes))
    ids: list[int] = []
    at = 0
    while at < len(text):
        fits = [n for n in range(1, longest + 1) if text[at : at + n] in by_bytes]
        length = int(rng.choice([n for n in fits if at + n <= len(text)]))
        ids.append(int(rng.choice(by_bytes[text[at : at + length]])))
        at += length
    return ids


_PATTERNS = [
    "/a+/",
    "/ab?/",
    "/b+?/",
    "/a|ab/",
    "/[ab]+/",
    "/(ab)+/",
    "/c/",
    "/b(c|a)/",
    "/a{2,3}/",
]
_LITERALS = ['"a"', '"b"', '"ab"', '"c"', '"ba"']


def random_grammar(rng: np.random.Generator, *, nullable: bool) -> str:
    """Return a small random grammar over the letters a, b and c in the Lark dialect."""
    terminals = [str(rng.choice(_PATTERNS)) for _ in range(int(rng.integers(1, 4)))]
    lines = [f"T{i}{_priority(rng)}: {pattern}" for i, pattern in enumerate(terminals)]
    rules = ["start", "x", "y"][: int(rng.integers(1, 4))]
    names = [f"T{i}" for i in range(len(terminals))] + _LITERALS + rules[1:] + rules
    for rule in rules:
        alternatives = []
        for _ in range(int(rng.integers(1, 4))):
            length = int(rng.integers(0 if nullable else 1, 4))
            symbols = [str(rng.choice(names)) + _repeat(rng) for _ in range(length)]
            alternatives.append(" ".join(symbols))
        lines.append(f"{rule}: " + " | ".join(alternatives))
    if rng.random() < 0.3:
        lines.append("%ignore /c+/" if rng.random() < 0.5 else '%ignore "c"')
    return "\n".join(lines) + "\n"


def _priority(rng: np.random.Generator) -> str:
    return ".2" if rng.random() < 0.15 else ""


def _repeat(rng: np.random.Generator) -> str:
    return str(rng.choice(["", "", "", "", "?", "*", "+"]))


AWKWARD: dict[str, tuple[str, list[str]]] = {
    "ambiguous": ("start: A B\nA: /ab*/\nB: /bc?/\n", ["abbbc", "ab", "abb", "abc", "abbc"]),
    "range": (
        'start: N ".." N\nN: /[0-9]+(\\.[0-9]+)?/\n',
        ["1..2", "1.5..2", "1.5", "1...2", "1..2.5", "1.", "12..34.0"],
    ),
    "keywords": (
        'start: "if" ID "then" ID\nID: /[a-z]+/\nWS: / +/\n%ignore WS\n',
        ["if a then b", "ifa then b", "if then then b", "if athen b", "if if then then"],
    ),
    "two words": ("start: A A\nA: /[a-z]+/\nWS: / +/\n%ignore WS\n", ["a b", "ab", " a b ", "a"]),
    "shorter first": ('start: A "c"\nA: /a|ab/\n', ["ac", "abc", "ab"]),
    "lazy": ('start: C "x"\nC: /<!--.*?-->/\n', ["<!--a-->x", "<!---->x", "<!---->-->x"]),
    "case": (
        'start: "if"i ID\nID: /[a-z]+/\nWS: / +/\n%ignore WS\n',
        ["IF a", "if a", "ifa", "If if"],
    ),
    "no end": ("start: A B?\nA: /a+/\nB: /a/\n", ["a", "aa", ""]),
    "unicode": (
        "start: /[\\u00e0-\\u00ff]+/ /[\\u4e00-\\u9fff]/?\n",
        ["é", "éß", "é東", "東", "e"],
    ),
}
"""Name -> Lark grammar and texts that lexers read differently."""


# --- Random grammars that nest to the left, to the right and in brackets, with members of any
# height.
#
# The other random grammars are met with texts of a few letters; no stack of a parser grows high on
# them. Here members are derived, so a text of height 400 is as easily had as one of height 4.

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
