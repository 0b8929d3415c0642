"""Cursors of engines' texts in a session, and what is remembered of prefixes between calls.

What is remembered decides what a call costs and never what is right: it is bounded, keyed by the
tokens themselves (a digest of them), and what was forgotten is found again from the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD, DONE, Constraint
from cdec.core.errors import TokenizerMismatchError, UsageError
from cdec.core.mask import allocate_mask, mask_words
from cdec.core.recent import Recent
from cdec.core.tokens.vocabulary import Vocabulary


def require_same_tokens(constraint: Constraint, *vocabularies: Vocabulary, hint: str) -> None:
    """Refuse a constraint that was made with the tokens of none of some vocabularies.

    Args:
        constraint: Of some texts.
        vocabularies: Of one tokenizer. subtle: an id that ends texts is no ordinary token, so
            with other ends the tokens are others, too.
        hint: How to make it with the right ones.

    Raises:
        TokenizerMismatchError: It was made with others.
    """
    theirs, ours = constraint.vocabulary, vocabularies[0]
    if theirs.vocabulary_hash not in {each.vocabulary_hash for each in vocabularies}:
        raise TokenizerMismatchError(
            f"the constraint was made for another tokenizer ({theirs.size} tokens, "
            f"{theirs.vocabulary_hash[:12]}) than the model's ({ours.size} tokens, "
            f"{ours.vocabulary_hash[:12]})",
            hint=hint,
        )


_MOST_STATES = 1 << 20
"""States that a session may hold before new texts get another one."""


class MatcherCursor:
    """A session of one constraint, shared by the texts that are followed in it.

    Args:
        constraint: Of the texts.
        device: As for ``Constraint.session``.

    Attributes:
        start: The state before the first token.
    """

    def __init__(self, constraint: Constraint, device: str = "cpu") -> None:
        self.constraint = constraint
        self.session = constraint.session(device)
        self.start = int(self.session.start(1)[0])

    @property
    def is_full(self) -> bool:
        """True where new texts should begin in another session."""
        return self.session.statistics()["states"] > _MOST_STATES

    def after(self, states: Any, tokens: Any) -> Any:
        """Follow one token a text.

        Args:
            states, tokens: int64[n], arrays or tensors as the session takes them; ids that no text
                holds lead to DEAD.

        Returns:
            int64[n]; DONE stays DONE, whatever an engine writes behind the end. On a device nothing
            waits for the host.
        """
        known = (tokens >= 0) & (tokens < self.constraint.vocabulary.width)
        moved = self.session.advance(states, tokens * known)
        goes_on, is_done = known & (states >= 0), states == DONE
        return moved * goes_on + DEAD * (~goes_on & ~is_done) + DONE * is_done

    def require_width(self, width: int) -> None:
        """Refuse scores of fewer columns than the constraint has tokens.

        Raises:
            UsageError: They are.
        """
        size = self.constraint.vocabulary.size
        if width < size:
            raise UsageError(
                f"the scores have {width} columns, and the constraint's vocabulary {size} tokens",
                hint="Compile the constraint for the model's own tokenizer.",
            )


class PromptLengths:
    """Lengths of prompts by row of tokens.

    A row that is an earlier one and a token more has its prompt; any other is a prompt itself.

    Args:
        kept: Rows that are remembered.
    """

    def __init__(self, kept: int) -> None:
        self._known: Recent[int] = Recent(kept)

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tokens before each row's text, int64[n], of int64[n, tokens]."""
        width = rows.shape[1]
        found = [self._known.find(_digests(row)[0]) for row in rows]
        return np.array([width if begin is None else begin for begin in found], np.int64)

    def remember(self, rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Note the tokens before the text of each row."""
        for row, length in zip(rows, lengths.tolist(), strict=True):
            self._known.put(_digests(row)[1], length)

    def forget(self, rows: NDArray[np.int64]) -> None:
        """Let what follows these rows be the beginning of a text."""
        for row in rows:
            self._known.drop(_digests(row)[1])


class PrefixStateCache:
    """The states of texts in a session of one constraint.

    Args:
        constraint: Of the texts.
        kept: Texts that are remembered.
    """

    def __init__(self, constraint: Constraint, kept: int) -> None:
        self._constraint = constraint
        self._known: Recent[int] = Recent(kept)
        self._begin()

    def states(self, texts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the state after each text's tokens, int64[n].

        DONE stays DONE whatever follows, which is padding. Cost: one step of the session for all
        texts that are a remembered one and a token more; a text's length in steps for others.
        """
        if self._cursor.is_full:
            self._begin()
        names = [_digests(text) for text in texts]
        states = np.empty(len(texts), np.int64)
        steps: list[tuple[int, int]] = []
        for i, (text, (parent, own)) in enumerate(zip(texts, names, strict=True)):
            known = self._known.find(own) if text.size else self._cursor.start
            if known is None:
                before = self._known.find(parent) if text.size > 1 else self._cursor.start
                steps.append((i, self._state_after(text[:-1]) if before is None else before))
            else:
                states[i] = known
        if steps:
            rows = np.array([i for i, _ in steps])
            parents = np.array([state for _, state in steps], np.int64)
            states[rows] = self._cursor.after(parents, np.array([texts[i][-1] for i in rows]))
            for i in rows.tolist():
                self._known.put(names[i][1], int(states[i]))
        return states

    def masks(self, states: NDArray[np.int64], width: int) -> NDArray[np.int32]:
        """Return the packed masks of states over scores of ``width`` columns, int32[n, words].

        Ids past the constraint's vocabulary pad the model's.

        Raises:
            UsageError: The scores are narrower than the constraint's vocabulary.
        """
        self._cursor.require_width(width)
        own: NDArray[np.int32] = allocate_mask(len(states), self._constraint.vocabulary.width)
        self._cursor.session.fill_mask(states, own)
        missing = max(0, mask_words(width) - own.shape[1])
        return np.pad(own, ((0, 0), (0, missing)))

    def _begin(self) -> None:
        self._cursor = MatcherCursor(self._constraint)
        self._known.clear()

    def _state_after(self, text: NDArray[np.int64]) -> int:
        states = np.array([self._cursor.start], np.int64)
        for token in text:
            states = self._cursor.after(states, token[None])
        return int(states[0])


def _digests(tokens: NDArray[np.int64]) -> tuple[bytes, bytes]:
    """Return what stands for the tokens but the last, and for all of them."""
    digest = blake2b(tokens[:-1].tobytes(), digest_size=16)
    before = digest.digest()
    digest.update(tokens[-1:].tobytes())
    return before, digest.digest()
