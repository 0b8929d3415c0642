"""GrammarConstraint: a compiled grammar as a constraint."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.constraint import Constraint
from cdec.core.device_session import on_device
from cdec.core.errors import UsageError
from cdec.core.grammars.engine.engine import DEFAULT_BUDGET, Engine
from cdec.core.grammars.session import GrammarSession
from cdec.core.grammars.state_view import Names
from cdec.core.session import Session

if TYPE_CHECKING:
    from cdec.core.grammars.columns import GrammarArrays
    from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["GrammarConstraint"]


class GrammarConstraint(Constraint):
    """The texts of a grammar.

    Args:
        arrays: The compiled grammar.
        vocabulary: Of the model that draws; its end ids end members.
        metadata: Of the artifact: ``cdec.options`` (``lexer``), ``cdec.names``, ``cdec.sound``,
            ``cdec.grammar`` and what ``accepts`` needs.
        lookahead: Terminals that may begin within a token after the first; None for any number
            (minimally invasive), 0 for one terminal at a time (DOMINO's naive masks).
        memo_bytes: Bytes of masks and memos of the sessions together.

    Raises:
        UsageError: The vocabulary has no end-of-sequence id, or the lookahead is negative.
    """

    kind = "grammar"
    has_terminals = True
    takes_bytes = True
    has_speculation_keys = True
    lookahead: int | None
    metadata: Mapping[str, str]

    def __init__(
        self,
        arrays: GrammarArrays,
        vocabulary: Vocabulary,
        metadata: Mapping[str, str],
        *,
        lookahead: int | None = None,
        memo_bytes: int = DEFAULT_BUDGET,
    ) -> None:
        if not vocabulary.eos_token_ids:
            raise UsageError(
                "texts of a grammar end with an end-of-sequence id, the vocabulary has none",
                hint="Name one with Vocabulary.with_eos.",
            )
        if lookahead is not None and lookahead < 0:
            raise UsageError(
                f"the lookahead is {lookahead}, expected at least 0",
                hint="Leave it out for exact masks.",
            )
        self.arrays = arrays
        self.vocabulary = vocabulary
        self.metadata = metadata
        self.lookahead = lookahead
        self.memo_bytes = memo_bytes
        self.lexer = str(json.loads(metadata.get("cdec.options", "{}")).get("lexer", "contextual"))
        self._engine: Engine | None = None

    @cached_property
    def is_sound(self) -> bool:
        """Whether every allowed token is proved to have a completion.

        A lookahead keeps it only where the text can go on byte by byte.
        """
        if self.metadata.get("cdec.sound") != "1":
            return False
        return self.lookahead is None or len(set(self._single_bytes())) == 256

    def _single_bytes(self) -> list[bytes]:
        return [token for token in self.vocabulary.token_bytes if len(token) == 1]

    @cached_property
    def names(self) -> Names:
        """Names of terminals and rules, for messages."""
        return Names.from_metadata(self.arrays, self.metadata)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run.

        Args:
            device: ``cpu`` for numpy arrays; ``cuda``, ``cuda:1``, ``torch:cpu`` for tensors.

        Returns:
            A session with states of its own; masks and memos are shared with the constraint's
            other sessions. When these have filled the memory budget, new sessions begin with new
            ones, and the old ones go with the last session that uses them.
        """
        if self._engine is None or self._engine.is_worn:
            self._engine = Engine(
                self.arrays,
                general=self.lexer == "dynamic",
                end_ids=self.vocabulary.eos_token_ids,
                budget=self.memo_bytes,
                lookahead=self.lookahead,
            )
        return on_device(GrammarSession(self._engine, self.vocabulary.width, self.names), device)

    def with_lookahead(self, lookahead: int | None) -> GrammarConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return GrammarConstraint(
            self.arrays,
            self.vocabulary,
            self.metadata,
            lookahead=lookahead,
            memo_bytes=self.memo_bytes,
        )

    @cached_property
    def _checker(self) -> Callable[[bytes], bool | None]:
        from cdec.core.grammars.validity import make_checker

        return make_checker(self.metadata)

    def accepts(self, text: bytes) -> bool | None:
        """Check a finished text by lark's own parser on the stored source; None if out of time."""
        return self._checker(text)

    def statistics(self) -> dict[str, int | float]:
        """Return sizes of scanner, parser and trees, for ``inspect``."""
        arrays = self.arrays
        groups = np.diff(arrays.tree_groups)
        return {
            "terminals": len(arrays.ignored),
            "scanner_states": len(arrays.live_row),
            "byte_classes": len(arrays.delta) // len(arrays.live_row),
            "contexts": len(arrays.context_start),
            "lr_states": len(arrays.action_offsets) - 1,
            "rules": len(arrays.rule_lhs),
            "trees": len(groups),
            "tree_paths": len(arrays.path_parent),
            "groups": len(arrays.group_dense),
            "largest_tree_groups": int(groups.max(initial=0)),
            "branches": len(arrays.branch_path),
            "listed_tokens": len(arrays.tokens),
            "verified_tokens": len(arrays.verify_tokens),
            "dense_masks": len(arrays.dense_masks) // max((self.vocabulary.size + 31) // 32, 1),
            **self._bytes(),
        }

    def _bytes(self) -> dict[str, int]:
        trees = ("tree_", "path_", "group_", "branch_", "tokens", "verify_")
        sizes = {name: int(array.nbytes) for name, array in self.arrays._asdict().items()}
        return {
            "tree_bytes": sum(size for name, size in sizes.items() if name.startswith(trees)),
            "mask_bytes": sizes["dense_masks"],
            "total_bytes": sum(sizes.values()),
        }
