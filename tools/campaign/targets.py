"""The kinds of file that are mutated, each one entry: a good one, and all that uses it."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers import compile_grammar, compile_schema, compile_token_set
from cdec.core.artifacts.opened import KINDS, StoredConstraint, bind_artifact
from cdec.core.artifacts.read import ArtifactFile, verify_bytes
from cdec.core.constraint import DEAD, text_verdicts
from cdec.core.errors import CdecError
from cdec.core.mask import allocate_mask, unpack_mask
from cdec.samplers.drafts.counts import Counts
from cdec.samplers.learning import saved
from tests.cli import light
from tests.core.artifacts.hostile_files import byte_vocabulary, good_rows
from tests.laws.grammar_cases import byte_vocabulary as grammar_vocabulary
from tests.laws.worlds import toy_b
from tests.samplers.learning.tree_files import grown, reloaded
from tools.campaign.mutants import damaged, edited, edited_json, edited_metadata, resealed
from tools.campaign.parquet import ParquetTarget
from tools.campaign.target import Outcome, TargetFile

ROWS = [[0], [0, 1], [2, 0], [2, 1, 0], [1, 2], [1, 2, 2]]
GRAMMAR = 'start: "{" [A ("," A)*] "}"\nA: /[a-z]+/ | "if"\nWS: / +/\n%ignore WS\n'
DYNAMIC = "start: x\nx: A | x B | A x C\nA: /a+b?/\nB: /b+/\nC: /[bc]/\n"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "tags": {
            "type": "array",
            "items": {"enum": ["a", "bc"]},
            "maxItems": 2,
            "uniqueItems": True,
        },
        "age": {"anyOf": [{"type": "integer", "minimum": -3}, {"const": None}]},
    },
    "required": ["tags"],
    "additionalProperties": False,
}
_SECRETS = ("cdec.kind", "cdec.format", "cdec.digest")
"""Metadata that say which file this is: their damage is that of the frame, tried on bytes."""


class ArtifactTarget(TargetFile):
    """An artifact: mutants that open are walked with their arrays against unmapped pages."""

    may_be_uneven = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        path = folder / "good.arrow"
        self.compile(path)
        self.good = path.read_bytes()
        self.file = verify_bytes(self.good, KINDS)
        self.arrays = {name: array.copy() for name, array in self.file.arrays.items()}
        # The good one first: what is found later is then the mutants' own.
        for at_end in (True, False):
            assert self.use(self.file, np.random.default_rng(0), at_end=at_end) == "used"

    @abstractmethod
    def compile(self, path: Path) -> None:
        """Write the good artifact."""

    def raw(self, rng: np.random.Generator) -> Outcome:
        mutant = damaged(self.good, rng)
        return self._opened(lambda: verify_bytes(mutant, KINDS), rng)

    def sealed(self, rng: np.random.Generator) -> Outcome:
        mutant = resealed(self.good, rng)
        return self._opened(lambda: verify_bytes(mutant, KINDS), rng)

    def columns(self, rng: np.random.Generator) -> Outcome:
        arrays, metadata = self.arrays, self.file.metadata
        if rng.random() < 0.15:
            own = {key: value for key, value in metadata.items() if key not in _SECRETS}
            metadata = edited_metadata(own, rng) | {key: metadata[key] for key in _SECRETS}
        else:
            arrays = edited(arrays, rng)
        return self._opened(lambda: self._checked(arrays, metadata), rng)

    def remembered(self, rng: np.random.Generator) -> Outcome:
        """Walk a mutant of the contents that a forged memory calls good: its shape alone is seen.

        It may be refused, fail or answer nonsense; its arrays are not read outside.
        """
        arrays = edited(self.arrays, rng)
        try:
            KINDS[self.file.kind].check_shape(arrays, self.file.metadata)
        except CdecError:
            return "refused"
        guarded = self.guard.place(arrays, at_end=rng.random() < 0.5)
        try:
            file = ArtifactFile(self.file.kind, self.file.metadata, guarded, self.path)
            walk(bind_artifact(file), rng)
        except Exception as error:
            return type(error).__name__
        return "used"

    def _checked(
        self, arrays: Mapping[str, NDArray[Any]], metadata: dict[str, str]
    ) -> ArtifactFile:
        KINDS[self.file.kind].check_all(arrays, metadata)
        return ArtifactFile(self.file.kind, metadata, dict(arrays), self.path)

    def _opened(self, read: Callable[[], ArtifactFile], rng: np.random.Generator) -> Outcome:
        try:
            file = read()
            return self.use(file, rng, at_end=rng.random() < 0.5)
        except CdecError as error:
            assert error.exit_status != 70, error
            return "refused"

    def use(self, file: ArtifactFile, rng: np.random.Generator, *, at_end: bool) -> Outcome:
        """Bind a file with guarded arrays, walk it and ask it everything."""
        guarded = ArtifactFile(
            file.kind, file.metadata, self.guard.place(file.arrays, at_end=at_end), file.path
        )
        constraint = bind_artifact(guarded)
        is_even = walk(constraint, rng)
        assert is_even or self.may_be_uneven, "mask, allowed, check and advance differ"
        texts = [b"", b"a", constraint.member_text([0]), rng.bytes(3)]
        list(text_verdicts(constraint, texts))
        constraint.statistics()
        json.dumps(constraint.summary())
        self.ask(constraint, texts, rng)
        return "used" if is_even else "uneven"

    def ask(
        self, constraint: StoredConstraint, texts: list[bytes], rng: np.random.Generator
    ) -> None:
        """Ask what only this kind knows."""


class SetTarget(ArtifactTarget):
    """A small set."""

    def compile(self, path: Path) -> None:
        compile_token_set(ROWS, light.vocabulary(), path)

    def ask(
        self, constraint: StoredConstraint, texts: list[bytes], rng: np.random.Generator
    ) -> None:
        constraint.tree().lines()
        constraint.member_rows()
        for text in texts:
            constraint.accepts(text)
            constraint.annotations(text)
            constraint.token_ids_of(text)
        constraint.candidates([str(int(rng.integers(1, 7)))])
        constraint.deny_texts(texts)


class DenseTarget(SetTarget):
    """A set with a node of so many children that its mask is stored."""

    def compile(self, path: Path) -> None:
        compile_token_set(good_rows(), byte_vocabulary(), path)


class GrammarTarget(ArtifactTarget):
    """A grammar read by LALR tables."""

    may_be_uneven = True
    source = GRAMMAR

    def compile(self, path: Path) -> None:
        compile_grammar(self.source, grammar_vocabulary(), path)

    def ask(
        self, constraint: StoredConstraint, texts: list[bytes], rng: np.random.Generator
    ) -> None:
        constraint.tree().lines()
        list(constraint.explain([int(i) for i in rng.integers(200, size=4)]))
        for lookahead in (0, 1):
            walk(constraint.with_lookahead(lookahead), rng, steps=2)


class DynamicTarget(GrammarTarget):
    """A grammar read by the generalised parser."""

    source = DYNAMIC

    def compile(self, path: Path) -> None:
        compile_grammar(self.source, grammar_vocabulary(), path, lexer="dynamic")


class SchemaTarget(ArtifactTarget):
    """A JSON Schema with texts, counts, alternatives and required properties."""

    may_be_uneven = True

    def compile(self, path: Path) -> None:
        compile_schema(SCHEMA, grammar_vocabulary(), path)


class TreeTarget(TargetFile):
    """A saved tree, which a batch of toy B goes on with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.toy = toy_b()
        grown(self.toy, self.path, 30)
        self.good = self.path.read_bytes()
        self.file = verify_bytes(self.good, saved.KINDS)
        self.arrays = {name: array.copy() for name, array in self.file.arrays.items()}
        self._next: ArtifactFile | None = None
        reloaded(self.toy, self.path)
        # What a run would map; given to it here, against unmapped pages.
        saved.map_verified = self._mapped  # type: ignore[assignment]

    def raw(self, rng: np.random.Generator) -> Outcome:
        return self._opened(damaged(self.good, rng), rng)

    def sealed(self, rng: np.random.Generator) -> Outcome:
        return self._opened(resealed(self.good, rng), rng)

    def columns(self, rng: np.random.Generator) -> Outcome:
        arrays, metadata = self.arrays, self.file.metadata
        if rng.random() < 0.15:
            own = {key: value for key, value in metadata.items() if key not in _SECRETS}
            metadata = edited_metadata(own, rng) | {key: metadata[key] for key in _SECRETS}
        else:
            arrays = edited(arrays, rng)
        try:
            saved.KINDS[saved.KIND].check_all(arrays, metadata)
            return self._reloaded(ArtifactFile(saved.KIND, metadata, arrays, self.path), rng)
        except CdecError as error:
            assert error.exit_status != 70, error
            return "refused"

    def _opened(self, mutant: bytes, rng: np.random.Generator) -> Outcome:
        try:
            return self._reloaded(verify_bytes(mutant, saved.KINDS), rng)
        except CdecError as error:
            assert error.exit_status != 70, error
            return "refused"

    def _reloaded(self, file: ArtifactFile, rng: np.random.Generator) -> Outcome:
        guarded = self.guard.place(file.arrays, at_end=rng.random() < 0.5)
        self._next = ArtifactFile(file.kind, file.metadata, guarded, self.path)
        bracket, _ = reloaded(self.toy, self.path)
        assert all(value is None or value == value for value in bracket.values()), bracket
        if rng.random() < 0.2:
            grown(self.toy, self.path, 40)
        return "used"

    def _mapped(self, *_: object, **__: object) -> ArtifactFile:
        assert self._next is not None
        return self._next


class CountsTarget(TargetFile):
    """Saved counts: JSON, which no digest guards."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        counts = Counts("f" * 64)
        for key in range(-3, 9):
            for event in range(-1, key):
                counts.table("a" * 64).add(key * 2**57, event, 1 + abs(key))
        counts.save(self.path)
        self.good = self.path.read_bytes()

    def raw(self, rng: np.random.Generator) -> Outcome:
        return self._loaded(damaged(self.good, rng))

    def sealed(self, rng: np.random.Generator) -> Outcome:
        head = b'{"kind":"cdec counts","version":1,"vocabulary_hash":"f","tables":{"a":'
        return self._loaded(head + damaged(self.good[len(head) :], rng))

    def columns(self, rng: np.random.Generator) -> Outcome:
        return self._loaded(edited_json(self.good, rng))

    def _loaded(self, data: bytes) -> Outcome:
        self.path.write_bytes(data)
        try:
            counts = Counts.load(self.path)
        except CdecError as error:
            assert error.exit_status != 70, error
            return "refused"
        table = counts.table("a" * 64)
        for key in range(-3, 9):
            event, share = table.likeliest(key * 2**57)
            assert -1 <= event < 2**31 and 0 <= share < 1, (event, share)
        counts.save(self.path)
        Counts.load(self.path)
        return "used"


TARGETS: dict[str, type[TargetFile]] = {
    "set": SetTarget,
    "set with dense masks": DenseTarget,
    "grammar": GrammarTarget,
    "grammar, dynamic": DynamicTarget,
    "schema": SchemaTarget,
    "tree": TreeTarget,
    "counts": CountsTarget,
    "parquet": ParquetTarget,
}
"""Every kind of file that cdec reads back from what it wrote."""


def walk(constraint: Any, rng: np.random.Generator, *, steps: int = 6, n: int = 4) -> bool:
    """Decode a few random texts; say whether all that a session answers agreed."""
    session, width = constraint.session(), constraint.vocabulary.width
    states = session.start(n)
    mask = allocate_mask(n, width)
    every = np.broadcast_to(np.arange(width), (n, width)).copy()
    is_even = True
    for _ in range(steps):
        session.fill_mask(states, mask)
        bits = unpack_mask(mask, width)
        offsets, ids = session.allowed(states)
        is_even &= bool(np.array_equal(session.check(states, every), bits))
        is_even &= bool(np.array_equal(np.nonzero(bits)[1], ids))
        session.is_complete(states)
        session.forced(states)
        picked = [
            int(rng.choice(ids[a:b])) if b > a else int(rng.integers(width))
            for a, b in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)
        ]
        states = session.advance(states, np.array(picked))
        is_even &= bool(np.array_equal(states != DEAD, bits[np.arange(n), picked]))
    return is_even
