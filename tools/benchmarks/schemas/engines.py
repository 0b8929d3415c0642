"""The engines that are given schemas: cdec's, and four peers from the index.

Each takes a schema, then tokens one by one, and says before each which tokens it allows.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.benchmarks.grammars.engines import vocabulary_of
from tools.benchmarks.grammars.workloads import shared_module

WARM_UP = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}}


class Refused(Exception):  # noqa: N818  # not an error: an answer
    """The engine says that it does not enforce this schema."""


class Engine(ABC):
    """One engine over one tokenizer."""

    bits: NDArray[np.uint32]

    def __init__(self, tokenizer: str) -> None:
        self.tok = shared_module("toks").Tok(tokenizer)

    @abstractmethod
    def compile(self, source: str) -> list[str]:
        """Take a schema.

        Returns:
            The keywords that are not enforced, where the engine says so.

        Raises:
            Refused: It is refused with an error.
        """

    @abstractmethod
    def start(self) -> None:
        """Begin a text."""

    @abstractmethod
    def fill(self) -> None:
        """Write the mask to ``bits``."""

    @abstractmethod
    def advance(self, token: int) -> None:
        """Take a token that is allowed."""

    def allows(self, token: int) -> bool:
        """Whether the mask that was written last allows a token."""
        return bool(self.bits[token >> 5] >> np.uint32(token & 31) & np.uint32(1))

    def may_end(self) -> bool:
        """Whether the text may end, once its mask was written."""
        return self.allows(self.tok.eos)


class Cdec(Engine):
    """This project's, through its public calls.

    Args:
        tokenizer: Of the shared harness.
        lenient: Record keywords that cannot be enforced.
    """

    def __init__(self, tokenizer: str, *, lenient: bool = False) -> None:
        from cdec.core.mask import allocate_mask

        super().__init__(tokenizer)
        self._lenient = lenient
        self._vocabulary = vocabulary_of(tokenizer)
        self._mask = allocate_mask(1, self._vocabulary.width)
        self.bits = self._mask.view(np.uint32)[0]
        self._token = np.zeros(1, np.int64)

    def compile(self, source: str) -> list[str]:
        from cdec.compilers.schemas.opened import schema_constraint
        from cdec.compilers.schemas.options import SchemaOptions
        from cdec.core.errors import CdecError

        options = SchemaOptions(lenient=self._lenient)
        try:
            constraint = schema_constraint(source, self._vocabulary, options)
        except CdecError as error:
            raise Refused(f"{error.code}: {error}") from error
        self._session = constraint.session()
        recorded = json.loads(constraint.metadata.get("cdec.unenforced", "[]"))
        return [entry["keyword"] for entry in recorded]

    def start(self) -> None:
        self._states = self._session.start(1)

    def fill(self) -> None:
        self._session.fill_mask(self._states, self._mask)

    def advance(self, token: int) -> None:
        self._token[0] = token
        self._states = self._session.advance(self._states, self._token)


class Harnessed(Engine):
    """A peer that the shared harness drives.

    Args:
        name: In the harness.
        tokenizer: Of the harness.
    """

    def __init__(self, name: str, tokenizer: str) -> None:
        super().__init__(tokenizer)
        self._engine = shared_module("bench").ENGINES[name](self.tok, 1)
        self.bits = self._engine.bits

    def compile(self, source: str) -> list[str]:
        try:
            self._compiled = self._taken(json.loads(source))
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        return []

    def _taken(self, schema: Any) -> Any:
        return self._engine.compile({"schema": schema})

    def start(self) -> None:
        self._matcher = self._engine.start(self._compiled)

    def fill(self) -> None:
        self._engine.fill(self._matcher)

    def advance(self, token: int) -> None:
        self._engine.commit(self._matcher, token)


class XGrammar(Harnessed):
    """xgrammar, told that unnamed properties may be there and names may come in any order."""

    def __init__(self, tokenizer: str) -> None:
        super().__init__("xgrammar", tokenizer)

    def _taken(self, schema: Any) -> Any:
        return self._engine.comp.compile_json_schema(
            json.dumps(schema), strict_mode=False, any_order=True
        )


class GlrMask(Harnessed):
    """glrmask, whose masks leave the end of sequence out."""

    def __init__(self, tokenizer: str) -> None:
        super().__init__("glrmask", tokenizer)

    def may_end(self) -> bool:
        return bool(self._matcher.is_accepting())


class Grid(Engine):
    """grid-guardrail with its compiled kernels, refusing what it does not enforce.

    Args:
        tokenizer: Of the shared harness.
        lenient: Let it record keywords that it does not enforce, as it does unless asked.
    """

    def __init__(self, tokenizer: str, *, lenient: bool = False) -> None:
        from grid.trie.build import build_trie

        super().__init__(tokenizer)
        self._lenient = lenient
        self._adapter = _Adapter(self.tok)
        self._trie = build_trie(self._adapter)
        self.bits = np.zeros((self.tok.n + 31) // 32, np.uint32)

    def compile(self, source: str) -> list[str]:
        from grid.lalr.compile import LALRConflictError

        schema = json.loads(source)
        try:
            try:
                recorded = self._build(schema)
            except LALRConflictError:
                recorded = self._build(schema, unify_string_values=True)
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        return sorted(recorded)

    def _build(self, schema: Any, **options: bool) -> set[str]:
        from grid.grammar.projection import RoleProjection
        from grid.guide import GridGuide
        from grid.jsonschema import compile_json_schema_grammar
        from grid.lalr.compile import compile_tables
        from grid.lexer.dfa import build_scanner

        grammar, recorded = compile_json_schema_grammar(schema, strict=not self._lenient, **options)
        tables = compile_tables(RoleProjection.full_built(grammar))
        scanner = build_scanner(grammar.terminals, grammar.terminal_order)
        self._guide = GridGuide(tables, scanner, self._trie, self._adapter)
        found: set[str] = set(recorded)
        return found

    def start(self) -> None:
        self._state = self._guide.initial_state

    def fill(self) -> None:
        self._guide.fill_bitmask(self._state, self.bits)

    def advance(self, token: int) -> None:
        self._state = self._guide.get_next_state(self._state, token)


class _Adapter:
    """A tokenizer of the shared harness, in the form that grid asks for."""

    def __init__(self, tok: Any) -> None:
        self._tok = tok
        self.vocabulary = {str(number): number for number in range(tok.n)}
        self.eos_token_id = tok.eos
        self.special_token_ids = frozenset({*tok.special, tok.eos})
        self.special_tokens: set[str] = set()

    def token_bytes(self, token: int) -> bytes:
        """Return a token's bytes."""
        found: bytes = self._tok.tokens[token]
        return found


def engine_of(name: str, tokenizer: str) -> Engine:
    """Return an engine by its name; "-lenient" behind it lets it record instead of refuse."""
    if name.startswith("cdec"):
        return Cdec(tokenizer, lenient=name.endswith("-lenient"))
    if name.startswith("grid"):
        return Grid(tokenizer, lenient=name.endswith("-lenient"))
    if name == "xgrammar":
        return XGrammar(tokenizer)
    if name == "glrmask":
        return GlrMask(tokenizer)
    return Harnessed(name, tokenizer)


ENGINES = ("cdec", "llguidance", "xgrammar", "glrmask", "grid")
