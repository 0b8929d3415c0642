"""Scorer: the reward of generated texts by context, each scored once; failures by record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import CdecError
from cdec.samplers.rewards.samples import asked_of
from cdec.samplers.walks.context_columns import with_room

if TYPE_CHECKING:
    from cdec.samplers.rewards.base import Reward
    from cdec.samplers.walks.batch import Batch


class Scorer:
    """Scores what was generated after the prompts of a batch.

    A record whose reward fails gets its error in ``batch.errors``, and scores NaN from then on.

    Args:
        batch: The open requests; those whose record the reward refuses fail at once.
        reward: Scores texts.

    Attributes:
        failed: bool[R] requests with an error.
    """

    def __init__(self, batch: Batch, reward: Reward) -> None:
        self._batch = batch
        self._reward = reward
        self._tree: Any = batch.model.tree
        self._scores = np.zeros(1024)
        self._is_known = np.zeros(1024, np.bool_)
        roots = np.unique(batch.roots[batch.roots >= 0]).tolist()
        self._empty: dict[int, bytes] = dict.fromkeys(roots, b"")
        self._bytes = dict(self._empty)
        self._asked = [
            "" if number in batch.errors else asked_of(request, batch.model.vocabulary)
            for number, request in enumerate(batch.requests)
        ]
        # Of a begun answer, what stands in the prompt is of the text as well.
        self._begun = [
            b"" if request.constraint is None else request.constraint.begun
            for request in batch.requests
        ]
        self.failed = np.zeros(len(batch.requests), np.bool_)
        for number, request in enumerate(batch.requests):
            try:
                reward.check(request.input)
            except CdecError as error:
                self._fail(number, error)

    def scores(
        self, request: NDArray[np.int64], contexts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the rewards of the texts at ``contexts`` (int64[n]) of requests, float64[n].

        Cost: one call of the reward for those that were not scored before.
        """
        self._is_known = with_room(self._is_known, contexts, 0)
        self._scores = with_room(self._scores, contexts, np.nan)
        new, first = np.unique(contexts[~self._is_known[contexts]], return_index=True)
        if new.size:
            owners = request[~self._is_known[contexts]][first]
            self._score(new[~self.failed[owners]], owners[~self.failed[owners]])
        found: NDArray[np.float64] = self._scores[contexts]
        return np.where(self.failed[request], np.nan, found)

    def remember(self, contexts: NDArray[np.int64]) -> None:
        """Keep the texts at ``contexts`` (int64[n]), where walks stand now, and no others."""
        texts = {node: self._text(node) for node in set(contexts.tolist())}
        self._bytes = self._empty | texts

    def _score(self, contexts: NDArray[np.int64], owners: NDArray[np.int64]) -> None:
        if not contexts.size:
            return
        requests = self._batch.requests
        numbers = owners.tolist()
        texts = [
            (self._begun[number] + self._text(node)).decode("utf-8", "replace")
            for node, number in zip(contexts.tolist(), numbers, strict=True)
        ]
        found, errors = self._reward.evaluate(
            texts, [requests[n].input for n in numbers], [self._asked[n] for n in numbers]
        )
        self._scores[contexts] = found
        self._is_known[contexts] = True
        for row, error in sorted(errors.items()):
            self._fail(numbers[row], error)

    def _fail(self, number: int, error: CdecError) -> None:
        self._batch.errors.setdefault(number, error)
        self.failed[number] = True

    def _text(self, node: int) -> bytes:
        """Return the bytes of a context's text, from the nearest one above that is remembered."""
        parent, token = self._tree.parent, self._tree.token
        tokens: list[int] = []
        while node not in self._bytes:
            tokens.append(int(token[node]))
            node = int(parent[node])
        return self._bytes[node] + self._batch.model.vocabulary.decode(tokens[::-1])
