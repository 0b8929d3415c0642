"""SetConstraint: a compiled set as a constraint, and the smaller sets made from it at run time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.opened import StoredConstraint
from cdec.core.artifacts.read import ArtifactFile, ArtifactKind
from cdec.core.constraint import EXACT, Constraint, Facts, Listed, all_accept
from cdec.core.errors import UsageError
from cdec.core.session import Session
from cdec.core.sets.accepted_rows import restriction
from cdec.core.sets.artifact import COLUMNS, check_set, check_set_shape
from cdec.core.sets.byte_trie import byte_session
from cdec.core.sets.members import SetMembers, TextIndex
from cdec.core.sets.report import TreeNode, describe_tree, statistics
from cdec.core.sets.rows import RowFilter, SetRows
from cdec.core.sets.session import SetSession, TrieView, make_view
from cdec.core.sets.trie import END, SetArrays
from cdec.core.tokens.vocabulary import Vocabulary


class SetConstraint(StoredConstraint, Listed):
    """A set of token rows: any member may be emitted, nothing else.

    Row numbers in this class's methods are those of its own ``arrays``.

    Args:
        rows: Which rows, with their vocabulary; its end ids end members.
        ends_itself: The last token of a row (of a set compiled with a suffix) gives DONE. A row
            that is a proper prefix of another still ends with the end event.
        metadata: Of the artifact.
        others: What the rows were held to; ``accepts`` asks them again, each by its own path.

    Raises:
        UsageError: Members end with an end-of-sequence event and the vocabulary has none.
    """

    of_kind = Facts(
        kind="set",
        is_sound=True,
        reasons={
            "lookahead": "a set's members have one tokenisation each: there is no other to allow",
            "heal": "a set's members have one tokenisation each, which begins at a token boundary",
            "draft": "a set has no scanner states to count by, and its forced tokens are evaluated "
            "ahead anyway",
        },
    )
    artifact = ArtifactKind(COLUMNS, check_set_shape, check_set, 3)
    tree_parameters = frozenset({"depth", "width"})

    def __init__(
        self,
        rows: SetRows,
        *,
        ends_itself: bool = False,
        metadata: Mapping[str, str] | None = None,
        others: Sequence[Constraint] = (),
    ) -> None:
        self.rows = rows
        self.vocabulary = rows.vocabulary
        self._ends_itself = ends_itself
        self.metadata = metadata or {}
        self.others = tuple(others)
        self.size_said = f"{rows.n_kept:,} members"
        self._denied_unknown = 0
        self._fit: str | None = None
        self._spelling: str | None = None
        # Shared by the restrictions of one set, so that each device holds the trie once.
        self._device_tries: dict[str, Any] = {}
        self._device_sessions: dict[str, Session] = {}
        # subtle: asked last, because it reads all nodes.
        if not self.vocabulary.eos_token_ids and (
            not ends_itself or END in self.arrays.node_token[1:]
        ):
            raise UsageError(
                "members of this set end with an end-of-sequence id, the vocabulary has none",
                hint="Name one with Vocabulary.with_eos, or compile the set with a suffix.",
            )

    @classmethod
    def from_file(cls, file: ArtifactFile, vocabulary: Vocabulary) -> SetConstraint:
        """Open a verified set artifact."""
        arrays = SetArrays.from_mapping(file.arrays)
        options = json.loads(file.metadata["cdec.options"])
        index = TextIndex(
            file.arrays["text_hash"],
            file.arrays["text_row"],
            arrays.tokens,
            arrays.row_offsets,
            vocabulary,
            heads=[bytes.fromhex(head) for head in options["heads"]],
            tail=bytes.fromhex(options["suffix_bytes"]),
            empty_head=bytes.fromhex(options["prefix_bytes"]),
        )
        return cls.from_arrays(arrays, index, vocabulary, options, file.arrays, file.metadata)

    @classmethod
    def from_arrays(
        cls,
        arrays: SetArrays,
        index: TextIndex,
        vocabulary: Vocabulary,
        options: Mapping[str, Any],
        columns: Mapping[str, NDArray[Any]],
        metadata: Mapping[str, str] | None = None,
    ) -> SetConstraint:
        """Make a constraint of arrays, wherever they come from.

        Args:
            arrays, index, vocabulary: Rows and trie; member text -> rows; of the model that draws.
            options: Compile options; ``normalize``, ``suffix_bytes`` (hex) and ``ends_itself``
                (default: whether there is a suffix) are read, all optional.
            columns: ``source_offsets``, ``source_lines``, ``id_offsets`` and ``id_bytes``.
            metadata: Of the artifact.
        """
        members = SetMembers.from_mapping(columns, index, str(options.get("normalize", "none")))
        ends_itself = bool(options.get("ends_itself", bool(options.get("suffix_bytes"))))
        rows = SetRows(arrays, vocabulary, members)
        return cls(rows, ends_itself=ends_itself, metadata=metadata)

    @property
    def arrays(self) -> SetArrays:
        """All rows of the trie, those that are left out included."""
        return self.rows.arrays

    @property
    def members(self) -> SetMembers:
        """Texts and entity ids of the compiled rows."""
        return self.rows.members

    @property
    def row_filter(self) -> RowFilter | None:
        """The rows that are kept; None for all."""
        return self.rows.row_filter

    @property
    def n_rows(self) -> int:
        """Rows that may be emitted."""
        return self.rows.n_kept

    @cached_property
    def max_tokens(self) -> int:
        """Tokens of the longest row, end event not counted. O(R) once."""
        return self.rows.longest

    @cached_property
    def facts(self) -> Facts:
        """Facts of sets, and of this one; each head of its rows, and the tail, frame."""
        index = self.members.index
        return replace(
            self.of_kind,
            ends_itself=self._ends_itself,
            metadata=self.metadata,
            frames=[(head, index.tail) for head in index.heads],
            denied_unknown=self._denied_unknown,
            fit=self._fit,
            spelling=self._spelling,
            unenforced=[item for other in self.others for item in other.facts.unenforced],
        )

    @property
    def listed(self) -> Listed:
        """Itself."""
        return self

    @cached_property
    def _view(self) -> TrieView:
        return make_view(
            self.arrays, self.vocabulary, self.row_filter, ends_itself=self._ends_itself
        )

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run; sessions of a set hold no walk, so each device needs one only.

        Args:
            device: ``cpu`` for numpy arrays; ``cuda``, ``cuda:1``, ``torch:cpu`` for tensors.

        Returns:
            The session. Cost: O(N) at the first one of a device, O(R) at the first one of each
            restriction there, nothing later and on ``cpu``.
        """
        if device == "cpu":
            return SetSession(self._view)
        from cdec.core.sets.torch_session import TorchSetSession, TorchTrie

        if device not in self._device_sessions:
            if device not in self._device_tries:
                self._device_tries[device] = TorchTrie.from_arrays(self.arrays, device)
            trie = self._device_tries[device]
            self._device_sessions[device] = TorchSetSession(
                trie, self._view, self.row_filter, device
            )
        return self._device_sessions[device]

    def restrict(self, rows_kept: NDArray[np.bool_]) -> SetConstraint:
        """Return this set without some rows; the trie is shared. O(R).

        Args:
            rows_kept: bool[R], one entry a row of ``arrays``.

        Raises:
            EmptySetError: Nothing is left.
            UsageError: Another shape or type.
        """
        return self._of(self.rows.keep(rows_kept))

    def deny_texts(self, texts: Iterable[bytes]) -> SetConstraint:
        """Return this set without the members of these texts, normalised as the members were.

        Texts that are no members are ignored; ``denied_unknown`` of the result's facts counts them.

        Raises:
            EmptySetError: Every member is denied.
        """
        rows, unknown = self.rows.without(texts)
        (smaller := self._of(rows))._denied_unknown = unknown
        return smaller

    def within_tokens(self, most: int) -> SetConstraint:
        """Return this set without its rows of more than ``most`` tokens; the trie is shared. O(R).

        Raises:
            FitError: Every row has more.
        """
        (smaller := self._of(self.rows.within(most)))._fit = EXACT
        return smaller

    def restricted_to(
        self, other: Constraint, *, max_steps: int, max_states: int
    ) -> SetConstraint | None:
        """Return the rows that another constraint accepts: sound, whatever the other is.

        ``accepts`` asks the other again, by its own path. None also where the other ends a row
        itself that this set ends with an end id, which no filter of rows can say. Cost: as
        ``accepted_rows``.

        Raises:
            EmptySetError: It accepts none.
        """
        session = other.session_for_texts()
        kept = restriction(self.rows, self._ends_itself, session, max_steps, max_states)
        if kept is None:
            return None
        smaller = self._of(self.rows.keep(kept), (*self.others, other))
        smaller._spelling = other.facts.spelling or self._spelling
        return smaller

    def candidates(self, texts_or_ids: Sequence[str]) -> SetConstraint:
        """Return the set of these members, texts or else ids, alone, on a small trie of its own.

        Cost: some 20 microseconds a candidate; the first entity id sorts all ids of the set.

        Raises:
            FieldError: No candidates, or some that are no members of this set.
        """
        return self._of(self.rows.candidates(texts_or_ids))

    def _of(self, rows: SetRows, others: Sequence[Constraint] | None = None) -> SetConstraint:
        kept = self.others if others is None else others
        smaller = SetConstraint(
            rows, ends_itself=self._ends_itself, metadata=self.metadata, others=kept
        )
        smaller._fit, smaller._spelling = self._fit, self._spelling
        if rows.arrays is self.arrays:
            smaller._device_tries = self._device_tries
        return smaller

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone: the tokens' bytes without forced prefix and suffix."""
        return self.members.member_text(self.vocabulary.decode(token_ids))

    def text_of_token(self, token_id: int) -> bytes | None:
        """Return None: where a forced prefix ends, and a suffix begins, is told by all tokens."""
        return None

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without forced prefix and suffix; None where it lacks them."""
        return self.members.content(text)

    def text_of(self, text: bytes) -> bytes:
        """Return the text that ``text`` stands for, with forced parts or without."""
        return self.members.text_of(text)

    def whole_texts(self, text: bytes, *, any_text: bool = False) -> list[bytes]:
        """Return a member with its forced parts: the bytes of each of its rows.

        With ``any_text`` a text with the first head, and the tail.
        """
        if any_text:
            index = self.members.index
            return [(index.heads[0] if text else index.empty_head) + text + index.tail]
        return list(dict.fromkeys(map(self.rows.spelled, self.rows.of_text(text).tolist())))

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the first row of a member; None for another text."""
        rows = self.rows.of_text(text)
        return [int(token) for token in self.arrays.row(int(rows[0]))] if rows.size else None

    def byte_session(self) -> Session:
        """Start a run over the bytes of the kept rows; O(T log T)."""
        return byte_session(*self.member_rows(), self.vocabulary, ends_itself=self._ends_itself)

    def member_rows(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the kept rows: their tokens and offsets. O(T) with a filter."""
        return self.rows.flat()

    def accepts(self, text: bytes) -> bool | None:
        """Say whether a text is a member, by the text index and not by the trie.

        None where one of ``others`` has no time to say.
        """
        if not len(self.rows.of_text(text)):
            return False
        return all_accept(self.others, self.whole_texts(text)) if self.others else True

    def annotations(self, text: bytes) -> dict[str, object]:
        """Return ``entity_ids`` of a member; none for another text."""
        return {"entity_ids": self.rows.entity_ids(self.rows.of_text(text))}

    def statistics(self) -> Mapping[str, int | float]:
        """Return sizes in rows, tokens, nodes and bytes."""
        return statistics(self.rows)

    def tree(self, **parameters: int) -> TreeNode:
        """Return the top of the trie, as ``describe_tree`` with ``depth`` and ``width``."""
        return describe_tree(self.rows, **parameters)
