"""Label tries: the distinct prefixes of labels' tokens, and one pass of a model over them.

Every distinct prefix of a prompt is evaluated once, whichever labels share it; nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ModelError, UsageError
from cdec.samplers.scoring.texts import token_ids_of

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.models.language_model import BlockRows, LanguageModel
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
        listed = None if constraint.listed is None else constraint.listed.member_rows()
        if listed is None:
            raise UsageError(
                f"labels are the members of a set, and the constraint is a {constraint.facts.kind}",
                hint="compile the labels as a set",
            )
        tokens, offsets = listed
        spans = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        texts = [constraint.member_text(tokens[a:b].tolist()) for a, b in spans]
        ids: dict[bytes, Any] = {
            text: constraint.annotations(text).get("entity_ids", ()) for text in set(texts)
        }
        return cls._built(texts, ids, tokens, offsets, ends_itself=constraint.facts.ends_itself)

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


CHUNK_BYTES = 64 << 20
"""Bytes of distributions that are evaluated at a time."""


def label_log_probs(
    model: LanguageModel,
    roots: NDArray[np.int64],
    tries: Sequence[LabelTrie],
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> list[NDArray[np.float64]]:
    """Return log P of every label after every prompt, end events included.

    Args:
        model: Its warping is that of the roots.
        roots: int64[P] contexts of the prompts, each with room for its longest label.
        tries: P tries of labels; those of several prompts may be one.
        chunk_bytes: Most bytes of distributions evaluated at a time; changes no result.

    Returns:
        P arrays float64[L], one value a label; -inf where the model rules it out. Cost: every
        distinct prefix of a prompt is evaluated once, and 60 bytes a prefix.

    Raises:
        ModelError: The model's scores hold NaN.
    """
    found = _Pass(model, roots, tries)
    found.evaluate(chunk_bytes)
    return found.labels()


class _Pass:
    """The nodes of all prompts' tries one after another, G of them, and what is known there.

    Attributes:
        log_edge: float64[G] log P of each node's last token. log_end: float64[G] log P(end).
    """

    def __init__(
        self, model: LanguageModel, roots: NDArray[np.int64], tries: Sequence[LabelTrie]
    ) -> None:
        self._model = model
        self._tries = tries
        sizes = [len(trie.parent) for trie in tries]
        self._base = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        shift = np.repeat(self._base[:-1], sizes)
        self._token = np.concatenate([trie.token for trie in tries])
        self._parent = np.concatenate([trie.parent for trie in tries]) + shift
        self._first = np.concatenate([trie.first_child[:-1] for trie in tries]) + shift
        self._children = np.concatenate([np.diff(trie.first_child) for trie in tries])
        self._depth = np.concatenate(
            [np.repeat(np.arange(trie.depth + 1), np.diff(trie.levels)) for trie in tries]
        )
        self._levels = [np.flatnonzero(self._depth == d) for d in range(self._depth.max() + 1)]
        self._context = np.empty(len(self._token), np.int64)
        self._context[self._base[:-1]] = roots
        for level in self._levels[1:]:
            above = self._context[self._parent[level]]
            self._context[level] = model.advance(above, self._token[level])
        self._is_ending = np.zeros(len(self._token), np.bool_)
        for trie, base in zip(tries, self._base.tolist(), strict=False):
            self._is_ending[base + trie.ending] = True
        self.log_edge = np.zeros(len(self._token))
        self.log_end = np.zeros(len(self._token))

    def evaluate(self, chunk_bytes: int) -> None:
        """Evaluate all nodes that an event follows, level by level.

        So the prefixes of a chunk are as long as each other, and those above them are cached.
        """
        order = np.concatenate(self._levels)
        order = order[(self._children[order] > 0) | self._is_ending[order]]
        size = max(1, chunk_bytes // (4 * self._model.vocabulary.width))
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            for part in self._model.scores_of(self._context[chunk]):
                self._read(chunk[part.positions], part)
        if np.isnan(self.log_edge).any() or np.isnan(self.log_end).any():
            raise ModelError(
                "the model's scores hold NaN",
                hint="Load the model with another dtype, such as float32 or bfloat16.",
            )

    def labels(self) -> list[NDArray[np.float64]]:
        """Return log P of every label of every prompt."""
        log_prefix = self.log_edge
        for level in self._levels[1:]:
            log_prefix[level] += log_prefix[self._parent[level]]
        found = []
        for trie, base in zip(self._tries, self._base.tolist(), strict=False):
            leaf = base + trie.leaf
            log_row = log_prefix[leaf] + np.where(trie.ends, self.log_end[leaf], 0.0)
            log_label = np.full(len(trie.texts), -np.inf)
            np.logaddexp.at(log_label, trie.label, log_row)
            found.append(log_label)
        return found

    def _read(self, nodes: NDArray[np.int64], part: BlockRows) -> None:
        """Note what the distributions at ``nodes`` (int64[k], a row each) say of their children."""
        counts = self._children[nodes]
        place = np.repeat(np.arange(len(nodes)), counts)
        within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        children = self._first[nodes][place] + within
        self.log_edge[children] = _log_p(part, place, self._token[children])
        ending = np.flatnonzero(self._is_ending[nodes])
        if ending.size:
            ends = [
                _log_p(part, ending, np.full(len(ending), end))
                for end in self._model.vocabulary.eos_token_ids
            ]
            self.log_end[nodes[ending]] = np.logaddexp.reduce(ends, axis=0)


def _log_p(
    part: BlockRows, place: NDArray[np.int64], tokens: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return log P of one token at each of ``place`` (int64[n], rows of the part)."""
    rows = part.rows[place]
    if isinstance(part.scores, np.ndarray):
        gathered: Any = part.scores[rows, tokens] - part.log_normalizer[rows]
        return np.asarray(gathered, np.float64)
    import torch

    device = part.scores.device
    at = torch.from_numpy(rows).to(device)
    scores = part.scores[at, torch.from_numpy(tokens).to(device)].double()
    return np.asarray((scores - part.log_normalizer[at].double()).cpu().numpy())
