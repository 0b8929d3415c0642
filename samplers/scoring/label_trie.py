"""LabelTrie: the distinct prefixes of labels' tokens, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.samplers.scoring.texts import token_ids_of

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class LabelTrie:
    """L labels, their R token rows, and the N distinct prefixes of these; node 0 is the empty one.

    A level holds the prefixes of one length. The children of a node are consecutive.

    Attributes:
        texts: L labels, sorted by their bytes, each once.
        entity_ids: L lists of entity ids; empty lists where labels have none.
        levels: int64[D + 2]; the nodes of level d are ``levels[d]:levels[d + 1]``.
        parent: int64[N] of each node, -1 at the root. token: int64[N] last token, -1 at the root.
        leaf: int64[R] node of each whole row. label: int64[R] label of each row.
        ends: bool[R] whether the row's end event is an event of its own.
    """

    texts: Sequence[str]
    entity_ids: Sequence[Sequence[str]]
    levels: NDArray[np.int64]
    parent: NDArray[np.int64]
    token: NDArray[np.int64]
    leaf: NDArray[np.int64]
    label: NDArray[np.int64]
    ends: NDArray[np.bool_]

    @classmethod
    def of(cls, constraint: Constraint) -> LabelTrie:
        """Return the members of a constraint.

        Cost: some 10 microseconds a member.

        Raises:
            UsageError: Its members are no list.
        """
        listed = constraint.member_rows()
        if listed is None:
            raise UsageError(
                f"labels are the members of a set, and the constraint is a {constraint.kind}",
                hint="compile the labels as a set",
            )
        tokens, offsets = listed
        spans = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        texts = [constraint.member_text(tokens[a:b].tolist()) for a, b in spans]
        ids: dict[bytes, Any] = {
            text: constraint.annotations(text).get("entity_ids", ()) for text in set(texts)
        }
        return cls._built(texts, ids, tokens, offsets, ends_itself=constraint.ends_itself)

    @classmethod
    def of_texts(cls, texts: Sequence[str], vocabulary: Vocabulary) -> LabelTrie:
        """Return labels given as texts, tokenised as a set's members are by default.

        So a label begins with a space where the vocabulary has tokens that begin with one.

        Raises:
            UsageError: No labels, a blank one, or the vocabulary has no tokenizer.
            EncodingError, UntokenizableError: A label that the tokenizer cannot spell.
        """
        if isinstance(texts, str) or not texts or not all(text.strip() for text in texts):
            found = "one text" if isinstance(texts, str) else "none, or a blank one among them"
            raise UsageError(
                f"the labels are {found}, expected several texts",
                hint="give a list of texts, or a constraint",
            )
        head = " " if vocabulary.has_space_tokens else ""
        wanted = list(dict.fromkeys(texts))
        rows = [token_ids_of(vocabulary, None, head + text, None) for text in wanted]
        order = sorted(range(len(rows)), key=rows.__getitem__)
        tokens = np.array([token for at in order for token in rows[at]], np.int32)
        offsets = np.cumsum([0, *(len(rows[at]) for at in order)])
        spelt = [wanted[at].encode() for at in order]
        return cls._built(spelt, {}, tokens, offsets, ends_itself=False)

    @classmethod
    def _built(
        cls,
        texts: Sequence[bytes],
        entity_ids: dict[bytes, Sequence[str]],
        tokens: NDArray[np.int32],
        offsets: NDArray[np.int64],
        *,
        ends_itself: bool,
    ) -> LabelTrie:
        """Find the prefixes of sorted rows; ``texts`` are theirs, R of them."""
        distinct = sorted(set(texts))
        number = {text: i for i, text in enumerate(distinct)}
        levels, parent, token, leaf = _prefixes(tokens, offsets)
        is_inner = np.zeros(len(parent), np.bool_)
        is_inner[parent[1:]] = True
        return cls(
            texts=[text.decode("utf-8", "replace") for text in distinct],
            entity_ids=[entity_ids.get(text, ()) for text in distinct],
            levels=levels,
            parent=parent,
            token=token,
            leaf=leaf,
            label=np.array([number[text] for text in texts], np.int64),
            # A row that ends itself has an end event where it is the beginning of another one.
            ends=is_inner[leaf] | np.bool_(not ends_itself),
        )

    @property
    def depth(self) -> int:
        """Tokens of the longest row."""
        return len(self.levels) - 2

    @cached_property
    def first_child(self) -> NDArray[np.int64]:
        """First child of each node, int64[N + 1], whose children end where the next one's begin."""
        first: NDArray[np.int64] = np.searchsorted(self.parent, np.arange(len(self.parent) + 1))
        return first

    @cached_property
    def ending(self) -> NDArray[np.int64]:
        """Nodes at which a row has an end event, int64[k] ascending."""
        return np.unique(self.leaf[self.ends])

    @cached_property
    def evaluated(self) -> NDArray[np.int64]:
        """Nodes whose distributions are needed, int64[n] ascending: some event follows."""
        is_needed = np.diff(self.first_child) > 0
        is_needed[self.ending] = True
        return np.flatnonzero(is_needed)


def _prefixes(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return levels, parents, tokens and leaves (as in ``LabelTrie``) of sorted rows."""
    lengths = np.diff(offsets)
    at = np.zeros(len(lengths), np.int64)
    levels, parents, taken = [0, 1], [np.array([-1])], [np.array([-1])]
    for depth in range(int(lengths.max(initial=0))):
        going = np.flatnonzero(lengths > depth)
        above, token = at[going], tokens[offsets[going] + depth].astype(np.int64)
        is_new = np.ones(len(going), np.bool_)
        is_new[1:] = (above[1:] != above[:-1]) | (token[1:] != token[:-1])
        at[going] = levels[-1] - 1 + np.cumsum(is_new)
        parents.append(above[is_new])
        taken.append(token[is_new])
        levels.append(levels[-1] + int(is_new.sum()))
    return np.array(levels, np.int64), np.concatenate(parents), np.concatenate(taken), at
