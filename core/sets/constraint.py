"""SetConstraint: a compiled set as a constraint, and the smaller sets made from it at run time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.agreement import all_accept
from cdec.core.constraint import Constraint
from cdec.core.errors import EmptySetError, UsageError
from cdec.core.session import Session
from cdec.core.sets.accepted_rows import accepted_rows
from cdec.core.sets.filter import RowFilter, narrow
from cdec.core.sets.members import SetMembers
from cdec.core.sets.report import TreeNode, describe_tree, statistics
from cdec.core.sets.session import SetSession
from cdec.core.sets.trie import END, SetArrays, build_trie
from cdec.core.sets.view import TrieView, make_view

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.sets.members import MemberIndex
    from cdec.core.tokens.vocabulary import Vocabulary

_REASONS = {
    "lookahead": "a set's members have one tokenisation each, so there is nothing to look ahead",
    "heal": "a set's members have one tokenisation each, which begins at a token boundary",
    "draft": "a set has no scanner states to count by, and its forced tokens are evaluated ahead "
    "anyway",
}


class SetConstraint(Constraint):
    """A set of token rows: any member may be emitted, nothing else.

    Row numbers in this class's methods are those of its own ``arrays``.

    Args:
        arrays: Rows and trie.
        vocabulary: Of the model that draws; its end ids end members.
        members: Texts and entity ids of the compiled rows.
        ends_itself: The last token of a row (of a set compiled with a suffix) gives DONE. A row
            that is a proper prefix of another still ends with the end event.
        compiled_rows: int64[R] ascending, the compiled set's row of each row; None: the same.
        row_filter: Rows that are kept; None keeps all.
        metadata: Of the artifact, for ``statistics``.
        others: What the rows were held to; ``accepts`` asks them again, each by its own path.

    Raises:
        UsageError: Members end with an end-of-sequence event and the vocabulary has none.
    """

    kind = "set"
    is_sound = True
    lists_members = True
    reasons = _REASONS
    ends_itself: bool
    metadata: Mapping[str, str]
    denied_unknown: int = 0

    def __init__(
        self,
        arrays: SetArrays,
        vocabulary: Vocabulary,
        members: SetMembers,
        *,
        ends_itself: bool = False,
        compiled_rows: NDArray[np.int64] | None = None,
        row_filter: RowFilter | None = None,
        metadata: Mapping[str, str] | None = None,
        others: tuple[Constraint, ...] = (),
    ) -> None:
        self.arrays = arrays
        self.vocabulary = vocabulary
        self.members = members
        self.ends_itself = ends_itself
        self.row_filter = row_filter
        self.metadata = metadata or {}
        self.others = others
        self._compiled_rows = compiled_rows
        # Shared by the restrictions of one set, so that each device holds the trie once.
        self._device_tries: dict[str, Any] = {}
        self._device_sessions: dict[str, Session] = {}
        # subtle: asked last, because it reads all nodes.
        if not vocabulary.eos_token_ids and (not ends_itself or END in arrays.node_token[1:]):
            raise UsageError(
                "members of this set end with an end-of-sequence id, the vocabulary has none",
                hint="Name one with Vocabulary.with_eos, or compile the set with a suffix.",
            )

    @classmethod
    def from_file(
        cls, file: ArtifactFile, arrays: SetArrays, index: MemberIndex, vocabulary: Vocabulary
    ) -> SetConstraint:
        """Make the constraint of a verified artifact."""
        options = json.loads(file.metadata["cdec.options"])
        return cls.from_arrays(arrays, index, vocabulary, options, file.arrays, file.metadata)

    @classmethod
    def from_arrays(
        cls,
        arrays: SetArrays,
        index: MemberIndex,
        vocabulary: Vocabulary,
        options: Mapping[str, Any],
        columns: Mapping[str, NDArray[Any]],
        metadata: Mapping[str, str] | None = None,
    ) -> SetConstraint:
        """Make a constraint of arrays, wherever they come from.

        Args:
            arrays: Rows and trie.
            index: Member text -> rows.
            vocabulary: Of the model that draws.
            options: Compile options; ``normalize``, ``suffix_bytes`` (hex) and ``ends_itself``
                (default: whether there is a suffix) are read, all optional.
            columns: ``source_offsets``, ``source_lines``, ``id_offsets`` and ``id_bytes``.
            metadata: Shown by ``statistics``.
        """
        members = SetMembers.from_mapping(columns, index, str(options.get("normalize", "none")))
        ends_itself = bool(options.get("ends_itself", bool(options.get("suffix_bytes"))))
        return cls(arrays, vocabulary, members, ends_itself=ends_itself, metadata=metadata)

    @property
    def n_rows(self) -> int:
        """Rows that may be emitted."""
        return self.arrays.n_rows if self.row_filter is None else self.row_filter.n_kept

    @cached_property
    def max_tokens(self) -> int:
        """Tokens of the longest row, end event not counted. O(R) once."""
        lengths = np.diff(self.arrays.row_offsets)
        return int((lengths if self.row_filter is None else lengths[self.row_filter.kept]).max())

    @cached_property
    def _view(self) -> TrieView:
        return make_view(
            self.arrays, self.vocabulary, self.row_filter, ends_itself=self.ends_itself
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
        row_filter = narrow(self.row_filter, rows_kept, self.arrays.n_rows)
        smaller = SetConstraint(
            self.arrays,
            self.vocabulary,
            self.members,
            ends_itself=self.ends_itself,
            compiled_rows=self._compiled_rows,
            row_filter=row_filter,
            metadata=self.metadata,
            others=self.others,
        )
        smaller._device_tries = self._device_tries
        return smaller

    def deny_texts(self, texts: Iterable[bytes]) -> SetConstraint:
        """Return this set without the members of these texts, normalised as the members were.

        Texts that are no members are ignored; ``denied_unknown`` of the result counts them.

        Raises:
            EmptySetError: Every member is denied.
        """
        kept = np.ones(self.arrays.n_rows, np.bool_)
        unknown = 0
        for text in texts:
            rows = self._own(self.members.rows_of_text(text))
            kept[rows] = False
            unknown += not len(rows)
        smaller = self.restrict(kept)
        smaller.denied_unknown = unknown
        return smaller

    def restricted_to(
        self, other: Constraint, *, max_steps: int, max_states: int
    ) -> SetConstraint | None:
        """Return the rows that another constraint accepts: sound, whatever the other is.

        Args:
            other: Opened for the same vocabulary; asked again by ``accepts``, by its own path.
            max_steps: Most tokens of rows to follow.
            max_states: Most states that the other's session may come to hold.

        Returns:
            The set of these rows. None where that is too much to walk; or where the other ends a
            row itself that this set ends with an end id, which no filter of rows can say. Cost: as
            ``accepted_rows``.

        Raises:
            EmptySetError: It accepts none.
        """
        walked = other.session_for_texts()
        found = accepted_rows(
            self.arrays, self.row_filter, walked, max_steps=max_steps, max_states=max_states
        )
        if found is None:
            return None
        if not found.kept.any():
            raise _none_accepted(self)
        if (found.ended & found.kept & ~_rows_that_end(self)).any():
            return None
        smaller = self.restrict(found.kept)
        smaller.others = (*self.others, other)
        return smaller

    def candidates(self, texts_or_ids: Sequence[str]) -> SetConstraint:
        """Return the set of these members alone, on a small trie of its own.

        Args:
            texts_or_ids: Member texts, or entity ids where no member has such a text.

        Returns:
            A constraint with the same vocabulary and entity ids. Cost: some 20 microseconds a
            candidate; the first entity id sorts all ids of the set.

        Raises:
            FieldError: No candidates, or some that are no members of this set.
        """
        return self._take(self.members.candidate_rows(texts_or_ids, self._own))

    def _take(self, rows: NDArray[np.int64]) -> SetConstraint:
        """Return the set of these rows (ascending, distinct) with a trie of their own."""
        parts = [self.arrays.row(row) for row in rows.tolist()]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        return SetConstraint(
            build_trie(np.concatenate(parts), offsets, self.vocabulary.size),
            self.vocabulary,
            self.members,
            ends_itself=self.ends_itself,
            compiled_rows=rows if self._compiled_rows is None else self._compiled_rows[rows],
            metadata=self.metadata,
            others=self.others,
        )

    def _own(self, compiled: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this set's kept rows among rows of the compiled set."""
        rows = compiled
        if self._compiled_rows is not None:
            at = np.searchsorted(self._compiled_rows, compiled)
            inside = at < len(self._compiled_rows)
            inside[inside] = self._compiled_rows[at[inside]] == compiled[inside]
            rows = at[inside]
        return rows if self.row_filter is None else rows[self.row_filter.keeps(rows)]

    def row_of_text(self, text: bytes) -> NDArray[np.int64]:
        """Return the kept rows of a member text, ascending int64[k]; empty if it is no member."""
        return self._own(self.members.index.lookup(text))

    def entity_ids(self, row: int) -> list[str]:
        """Return the entity ids of one row (line numbers where the source had no ids)."""
        compiled = row if self._compiled_rows is None else int(self._compiled_rows[row])
        return self.members.entity_ids(np.array([compiled], np.int64))

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone: the tokens' bytes without forced prefix and suffix."""
        return self.members.member_text(self.vocabulary.decode(token_ids))

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text without forced prefix and suffix; None where it lacks them."""
        return self.members.content(text)

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return a member with its forced parts: the bytes of each of its rows."""
        rows = self.row_of_text(text).tolist()
        return list(dict.fromkeys(self.vocabulary.decode(self.arrays.row(row)) for row in rows))

    def whole_text(self, text: bytes) -> bytes:
        """Return a text with what is forced around members: the first head, and the tail."""
        index = self.members.index
        return (index.heads[0] if text else index.empty_head) + text + index.tail

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the first row of a member; None for another text."""
        rows = self.row_of_text(text)
        return [int(token) for token in self.arrays.row(int(rows[0]))] if rows.size else None

    def accepts(self, text: bytes) -> bool | None:
        """Say whether a text is a member, by the text index and not by the trie.

        None where one of ``others`` has no time to say.
        """
        if not len(self.row_of_text(text)):
            return False
        return all_accept(self.others, self.whole_texts(text)) if self.others else True

    def annotations(self, text: bytes) -> dict[str, object]:
        """Return ``entity_ids`` of a member; none for another text."""
        rows = self.row_of_text(text)
        if self._compiled_rows is not None:
            rows = self._compiled_rows[rows]
        return {"entity_ids": self.members.entity_ids(rows)}

    def statistics(self) -> dict[str, int | float]:
        """Return sizes in rows, tokens, nodes and bytes."""
        return statistics(self)

    def describe_tree(self, depth: int = 3, width: int = 10) -> TreeNode:
        """Return the top of the trie as plain data, to be looked at."""
        return describe_tree(self, depth, width)


def _none_accepted(members: SetConstraint) -> EmptySetError:
    first = 0 if members.row_filter is None else int(members.row_filter.kept.argmax())
    shown = members.vocabulary.decode(members.arrays.row(first)).decode("utf-8", "replace")
    return EmptySetError(
        f"none of the set's {members.n_rows} members is accepted by the other constraint, the "
        f"first being {shown!r}",
        hint="Whole texts are judged, with leading space, forced prefix and suffix: compile the "
        "set without (`leading_space` never), or allow them in the other constraint.",
    )


def _rows_that_end(members: SetConstraint) -> NDArray[np.bool_]:
    """Return which rows give DONE by their last token, bool[R]: those no other continues."""
    arrays = members.arrays
    if not members.ends_itself:
        return np.zeros(arrays.n_rows, np.bool_)
    ends: NDArray[np.bool_] = np.diff(arrays.row_offsets) > 0
    ends[arrays.node_row[1:][arrays.node_token[1:] == END]] = False
    return ends
