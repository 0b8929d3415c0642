"""Free text before a constraint, by plain enumeration: no code of cdec's own finds a marker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import Constraint
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings import enumeration
from tests.core.grammars.finite_language import FiniteLanguage
from tests.laws.worlds import Row, Toy, toy_set

SPECIAL = {b"\xf5": "<s>", b"\xf6": "<e>"}
"""Special tokens: enumerated as bytes that no text has, and in the vocabulary without bytes."""
MARKER, END, NO_MARKER, LENGTH = "marker", "end", "no_marker", "length"


@dataclass(frozen=True)
class Free:
    """A free part: its tokens, what its last one has behind the marker, and its law."""

    kind: str
    tokens: Row
    onward: bytes
    p: float
    log_p: float
    log_z: float


@dataclass(frozen=True)
class World:
    """A random model, and the texts of a constraint; by bytes, or by tokens of one spelling."""

    pieces: tuple[bytes, ...]
    members: tuple[bytes, ...]
    by_tokens: bool = False
    seed: int = 0
    end: float = 0.1
    rows: tuple[Row, ...] = ()

    @property
    def vocabulary(self) -> Vocabulary:
        if self.pieces not in _VOCABULARIES:
            _VOCABULARIES[self.pieces] = Vocabulary(
                [*(b"" if piece in SPECIAL else piece for piece in self.pieces), b""],
                eos_token_ids=[len(self.pieces)],
                special_tokens={
                    SPECIAL[piece]: token
                    for token, piece in enumerate(self.pieces)
                    if piece in SPECIAL
                },
            )
        return _VOCABULARIES[self.pieces]

    def probabilities(self, prefix: Row) -> NDArray[np.float64]:
        own = np.random.default_rng([self.seed, 3, *prefix])
        weights = own.exponential(size=len(self.pieces)) + 0.05
        return np.append(weights / weights.sum() * (1 - self.end), self.end)

    def model(self) -> TabularModel:
        return TabularModel(self.probabilities, self.vocabulary)

    def constraint(self) -> Constraint:
        if self.by_tokens:
            return toy_set(self.rows, self.vocabulary)
        return FiniteLanguage(self.members, self.vocabulary)

    def text(self, tokens: Row) -> bytes:
        return b"".join(self.pieces[token] for token in tokens)

    def spellings(self, text: bytes) -> Iterator[Row]:
        """Every sequence of tokens with these bytes."""
        if not text:
            yield ()
        for token, piece in enumerate(self.pieces):
            if text.startswith(piece):
                for rest in self.spellings(text[len(piece) :]):
                    yield (token, *rest)

    def opens(self, onward: bytes) -> bool:
        """Whether a member begins so, and tokens spell the rest of it."""
        if not onward:
            return True
        if self.by_tokens:
            return False
        return any(m.startswith(onward) for m in self.members)

    def toy(self, free: Row, onward: bytes) -> Toy:
        """The constrained part behind a free one, as a toy."""
        if self.by_tokens:
            rows = list(self.rows)
        else:
            begun = [m[len(onward) :] for m in self.members if m.startswith(onward)]
            rows = [row for text in begun for row in self.spellings(text)]
        return Toy(self.vocabulary, lambda prefix: self.probabilities((*free, *prefix)), rows)

    def allowed(self, text: bytes, token: int, markers: list[bytes]) -> tuple[bool, bytes | None]:
        """Whether a token may stand in free text, and what it has behind a marker, if one ends."""
        whole = text + self.pieces[token]
        ends = [
            end
            for end in range(len(text) + 1, len(whole) + 1)
            if any(whole[:end].endswith(m) for m in markers)
        ]
        if not ends:
            return True, None
        onward = whole[ends[0] :]
        return self.opens(onward), onward

    def free_parts(
        self,
        markers: list[bytes],
        limit: int,
        begun: Row = (),
        strict: bool = True,
        onward: bytes = b"",
    ) -> list[Free]:
        """Every free part behind tokens that stand there, of at most ``limit`` tokens.

        ``onward`` is what the last of these has of it already.
        """
        found: list[Free] = []

        def walk(tokens: Row, p: float, log_p: float, log_z: float) -> None:
            if len(tokens) == limit:
                found.append(Free(LENGTH, tokens, b"", p, log_p, log_z))
                return
            given = self.probabilities((*begun, *tokens))
            text = onward + self.text(tokens)
            seen = {t: self.allowed(text, t, markers) for t in range(len(self.pieces))}
            ways = {t: onward for t, (ok, onward) in seen.items() if ok or not strict}
            z = given[len(self.pieces)] + sum(given[t] for t in ways)
            log_z += math.log(z)
            end = given[len(self.pieces)]
            found.append(Free(END, tokens, b"", p * end / z, log_p + math.log(end), log_z))
            for token, behind in ways.items():
                to = (*tokens, token)
                here = p * given[token] / z, log_p + math.log(given[token]), log_z
                if behind is None:
                    walk(to, *here)
                else:
                    found.append(Free(MARKER, to, behind, *here))

        walk((), 1.0, 0.0, 0.0)
        return found

    def forced(self, tokens: Row, marker: bytes) -> list[tuple[Row, bytes, float]]:
        """Every way into a marker behind tokens, what it has behind it, and its probability."""
        text = self.text(tokens)
        there = max(n for n in range(len(marker)) if text.endswith(marker[:n]))
        found: list[tuple[Row, bytes, float]] = []

        def walk(row: Row, left: bytes, p: float) -> None:
            if not left:
                found.append((row, b"", p))
                return
            given = self.probabilities((*tokens, *row))
            ways = [
                t
                for t, piece in enumerate(self.pieces)
                if left.startswith(piece)
                or (piece.startswith(left) and self.opens(piece[len(left) :]))
            ]
            z = sum(given[t] for t in ways)
            for t in ways:
                piece, to = self.pieces[t], p * given[t] / z
                if left.startswith(piece):
                    walk((*row, t), left[len(piece) :], to)
                else:
                    found.append(((*row, t), piece[len(left) :], to))

        walk((), marker[there:], 1.0)
        return found

    def regions(self, onward: bytes, begin: bytes, end: bytes, limit: int) -> dict[Row, bytes]:
        """Every spelling of a tagged region, and what its last token has behind it."""
        wholes = [m + end for m in self.members]
        found: dict[Row, bytes] = {}

        def walk(row: Row, text: bytes) -> None:
            done = [len(w) for w in wholes if text.startswith(w)]
            if done:
                if begin not in text[min(done) :]:
                    found[row] = text[min(done) :]
            elif len(row) < limit and any(w.startswith(text) for w in wholes):
                for token, piece in enumerate(self.pieces):
                    walk((*row, token), text + piece)

        walk((), onward)
        return found


_VOCABULARIES: dict[tuple[bytes, ...], Vocabulary] = {}

PIECES = (b"a", b"b", b"|", b"ab", b"a|", b"|a", b"b|ab", b"|bb")
MEMBERS = (b"a", b"ab", b"abb", b"ba")
WORLD = World(PIECES, MEMBERS)
SET_WORLD = World(PIECES, MEMBERS, by_tokens=True, rows=((0,), (3,), (3, 1), (1, 0)))


def tagged_law(world: World, begin: bytes, end: bytes, limit: int) -> dict[object, float]:
    """Return the law of texts with regions between two tags, of at most ``limit`` tokens.

    Free parts and regions are enumerated in turn, each under the law of its own. Texts are told
    apart as by ``tagged_outcomes``.
    """
    law: dict[object, float] = {}

    class Opening(World):
        def opens(self, text: bytes) -> bool:
            return any((m + end).startswith(text) and m + end != text for m in self.members)

    def free(tokens: Row, onward: bytes, p: float) -> None:
        same = Opening(world.pieces, world.members, end=world.end)
        for part in same.free_parts([begin], limit - len(tokens), tokens, onward=onward):
            to = tokens + part.tokens
            if part.kind == MARKER and len(to) < limit:
                region(to, part.onward, p * part.p)
            else:
                kind = "complete" if part.kind == END else "length"
                law[kind, to] = law.get((kind, to), 0.0) + p * part.p

    def region(tokens: Row, onward: bytes, p: float) -> None:
        rows = world.regions(onward, begin, end, 8)
        toy = Toy(
            world.vocabulary,
            lambda prefix: world.probabilities((*tokens, *prefix)),
            list(rows),
            ends_itself=True,
        )
        for row, q in enumeration.masked(toy, limit - len(tokens)).law.items():
            if row is None:
                law["lost"] = law.get("lost", 0.0) + p * q
            else:
                free(tokens + row, rows[row], p * q)

    free((), b"", 1.0)
    return law


def tagged_outcomes(samples: Iterable[Sample]) -> list[object]:
    """Return how texts with regions ended, and their tokens; "lost" where a region did not end."""
    return [
        "lost"
        if s.regions and s.regions[-1]["finish_reason"] != "complete"
        else (s.finish_reason, tuple(s.token_ids))
        for s in samples
    ]
