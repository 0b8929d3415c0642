"""The baseline of ``bench-aligned``: one text at a time in plain transformers, no prefix cache.

The prompt is run once and its key-value cache kept; a text appends its own keys and values, which
are cropped away when it ends. Every token of every text is a forward pass of batch 1. The methods
are written anew over a dictionary of prefixes, so they also check cdec's laws on a real model:
``masked``, ``asap`` (arXiv 2405.21047, Algorithm 1) and ``exact`` (adaptive rejection).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Text = tuple[int, ...]


class KeptPrompt:
    """A causal model with one prompt in its key-value cache.

    Args:
        module: A transformers causal language model.
        prompt: Token ids.
    """

    def __init__(self, module: Any, prompt: Sequence[int]) -> None:
        from transformers import DynamicCache

        self._module = module
        self._length = len(prompt)
        self._cache = DynamicCache(config=module.config)
        self._first = self._pass(list(prompt))

    def restart(self) -> NDArray[np.float64]:
        """Forget the text; return log P(t | prompt), float64[V]."""
        longer = self._cache.get_seq_length() - self._length
        if longer:
            self._cache.crop(-longer)
        return self._first

    def append(self, token: int) -> NDArray[np.float64]:
        """Run one more token of the text; return log P(t | prompt, text), float64[V]."""
        return self._pass([token])

    def _pass(self, tokens: list[int]) -> NDArray[np.float64]:
        with torch.inference_mode():
            output = self._module(
                input_ids=torch.tensor([tokens], device=self._module.device),
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
            log_p = torch.log_softmax(output.logits[0, -1].double(), dim=-1)
        return np.asarray(log_p.cpu().numpy())


@dataclass(slots=True)
class Drawn:
    """One attempt: its tokens, and whether it is a sample."""

    tokens: Text
    log_p: float
    is_complete: bool
    is_accepted: bool
    calls: int


@dataclass(slots=True)
class _Node:
    """Allowed ids of a prefix, their log P, and log c of what each leads to."""

    ids: NDArray[np.int32]
    log_p: NDArray[np.float64]
    log_c: NDArray[np.float64]

    @property
    def weights(self) -> NDArray[np.float64]:
        return self.log_p + self.log_c


@dataclass
class Sequential:
    """Draws texts one after the other.

    Attributes:
        kept: The model with the prompt.
        session: Of the constraint, on the CPU.
        end_ids: Ends of the text.
        limit: Most tokens of a text.
        method: ``masked``, ``asap`` or ``exact``.
        rng: Of all draws.
    """

    kept: KeptPrompt
    session: Any
    end_ids: frozenset[int]
    limit: int
    method: str
    rng: np.random.Generator
    _nodes: dict[Text, _Node] = field(default_factory=dict)

    def attempt(self) -> Drawn:
        """Draw one text; ``exact`` may reject it."""
        text: Text = ()
        state, log_p = self.session.start(1), self.kept.restart()
        total, log_x, path, calls = 0.0, 0.0, [], 1
        ended = False
        while True:
            is_new = text not in self._nodes
            node = self._visit(text, state, log_p)
            log_z = _log_sum(node.weights)
            if is_new:
                log_x += log_z
            if log_z == -np.inf:
                break
            chosen = self._choose(node, log_z)
            path.append((text, chosen))
            token = int(node.ids[chosen])
            total += float(node.log_p[chosen])
            if token in self.end_ids:
                ended = True
                break
            text = (*text, token)
            state = self.session.advance(state, np.array([token], np.int32))
            log_p = self.kept.append(token)
            calls += 1
        self._learn(path, text)
        accepted = ended and (self.method != "exact" or self.rng.random() < np.exp(log_x))
        return Drawn(text, total, ended, accepted, calls)

    def _visit(self, text: Text, state: Any, log_p: NDArray[np.float64]) -> _Node:
        """Return the node of a prefix, made anew where the method forgets."""
        if text in self._nodes:
            return self._nodes[text]
        _, ids = self.session.allowed(state)
        if len(text) >= self.limit:
            ids = ids[np.isin(ids, list(self.end_ids))]
        node = _Node(ids, log_p[ids], np.zeros(len(ids)))
        if self.method != "masked":
            self._nodes[text] = node
        return node

    def _choose(self, node: _Node, log_z: float) -> int:
        running = np.cumsum(np.exp(node.weights - log_z))
        place = int(np.searchsorted(running, self.rng.random() * running[-1], side="right"))
        return min(place, int(np.flatnonzero(node.weights > -np.inf)[-1]))

    def _learn(self, path: list[tuple[Text, int]], text: Text) -> None:
        """Carry the bounds of what the walk visited up to the root."""
        if self.method == "masked":
            return
        below = _log_sum(self._nodes[text].weights)
        for prefix, chosen in reversed(path):
            node = self._nodes[prefix]
            if prefix != text:  # the last event of a complete text is its end: c = 1
                node.log_c[chosen] = below
            below = _log_sum(node.weights)


def _log_sum(values: NDArray[np.float64]) -> float:
    return float(np.logaddexp.reduce(values)) if values.size else -np.inf


def generate(
    module: Any, prompt: Sequence[int], session: Any, end_id: int, limit: int, seed: int
) -> Text:
    """Draw one masked text by transformers' own ``generate``, the mask as a logits processor."""
    from transformers import LogitsProcessor

    states: dict[Text, Any] = {(): session.start(1)}

    class Mask(LogitsProcessor):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            text = tuple(input_ids[0, len(prompt) :].tolist())
            if text not in states:
                states[text] = session.advance(states[text[:-1]], np.array([text[-1]], np.int32))
            allowed = session.allowed(states[text])[1].astype(np.int64)
            ids = torch.from_numpy(allowed).to(scores.device)
            masked = torch.full_like(scores, float("-inf"))
            masked[0, ids] = scores[0, ids]
            return masked

    torch.manual_seed(seed)
    output = module.generate(
        torch.tensor([list(prompt)], device=module.device),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long, device=module.device),
        do_sample=True,
        top_k=0,
        top_p=1.0,
        temperature=1.0,
        max_new_tokens=limit,
        eos_token_id=end_id,
        pad_token_id=end_id,
        logits_processor=[Mask()],
    )
    return tuple(output[0, len(prompt) :].tolist())
