"""ConstraintProcessor for vLLM's V2 model runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor

from cdec.core.constraint import DEAD
from cdec.core.errors import UsageError
from cdec.integrations.cursors import MatcherCursor
from cdec.integrations.serving.matcher import BatchMatcher
from cdec.integrations.vllm.reasoning import reasoning_of
from cdec.integrations.vllm.requests import asked_of, constraint_of, served_by, validate

if TYPE_CHECKING:
    from torch import Tensor


class ConstraintProcessor(LogitsProcessor):
    """Holds requests to what their ``cdec`` argument asks.

    A row's token is read on the device (``input_ids``), so nothing waits for the host where the
    constraints are sets, asynchronous scheduling or not. Under speculative decoding each proposed
    token has a row of its own and is followed as if it stood; the states of a request's rows are
    kept, so that the next step begins behind those that were accepted. A request that was preempted
    comes back with its tokens, which are followed again.

    Args:
        vllm_config: The engine's.
        req_states: What vLLM shares of its requests.

    Raises:
        CdecError: As ``served_by`` and ``reasoning_of``.
    """

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        self._served = served_by(vllm_config)
        vocabulary = self._served.vocabulary
        if vocabulary is None:
            raise UsageError("the model has no tokenizer")
        self._reasoning = reasoning_of(vllm_config, self._served.settings, vocabulary)
        device = torch.device(req_states.device)
        self._rows = BatchMatcher(device, vocabulary.eos_token_ids[0])
        self._requests = req_states
        speculative = vllm_config.speculative_config
        proposed = 0 if speculative is None else int(speculative.num_speculative_tokens)
        self._proposes = proposed > 0
        self._texts: dict[int, MatcherCursor | None] = {}
        self._entered: dict[int, Any] = {}
        slots = req_states.max_num_reqs
        # By slot: states behind the tokens that stood and those proposed last, and how many stood.
        self._states = torch.full((slots, proposed + 1), DEAD, dtype=torch.int64, device=device)
        self._counts = torch.zeros(slots, dtype=torch.int64, device=device)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request that cannot be served.

        Raises:
            VLLMValidationError: As ``validate``.
        """
        validate(sampling_params)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Begin a request's text in a slot; say whether it has a constraint."""
        self._texts.pop(req_idx, None)
        self._entered.pop(req_idx, None)
        if asked_of(sampling_params) is None:
            return False
        self._texts[req_idx] = None
        self._entered[req_idx] = sampling_params
        self._states[req_idx] = DEAD
        self._counts[req_idx] = 0
        return True

    def apply_staged_writes(self) -> None:
        """Open the constraints of requests that entered, and walk what came with some of them.

        Only here their tokens can be read, by which a model's reasoning may be over before a text.
        """
        for slot, params in self._entered.items():
            length = int(self._requests.prompt_len.np[slot])
            prompt = [] if self._reasoning is None else self._tokens(slot, 0, length)
            constraint = constraint_of(params, self._served, self._reasoning, prompt)
            cursor = None if constraint is None else self._rows.opened(constraint)
            self._texts[slot] = cursor
            count = self._written(slot)
            if count > 0:
                tokens = self._tokens(slot, length, count)
                self._states[slot, 0] = self._rows.walk(cursor, tokens)
                self._counts[slot] = count
            elif cursor is not None:
                self._states[slot, 0] = cursor.start
        self._entered.clear()

    def _tokens(self, slot: int, begin: int, count: int) -> list[int]:
        """Return tokens of a request, prompt and text as one."""
        found: list[int] = self._requests.all_token_ids.gpu[slot, begin : begin + count].tolist()
        return found

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:
        """Set to -inf what the texts do not go on with, in place."""
        if not any(slot in self._texts for slot in ctx.idx_mapping_np.tolist()):
            return logits
        slots, places = self._layout(ctx)
        rows = np.array([i for i, slot in enumerate(slots) if slot in self._texts], np.int64)
        states = torch.full((len(slots),), DEAD, dtype=torch.int64, device=self._rows.device)
        for place in range(int(places.max()) + 1):
            mine = rows[places[rows] == place]
            if mine.size:
                self._follow(ctx, slots, mine, place, states)
        texts = [self._texts[slots[row]] for row in rows.tolist()]
        at = torch.from_numpy(rows).to(self._rows.device)
        self._rows.apply(logits, rows.tolist(), texts, states[at])
        return logits

    def _layout(self, ctx: Any) -> tuple[list[int], np.ndarray[Any, Any]]:
        """Return each row's slot, and its number among the rows of its request."""
        if not self._proposes:
            slots = ctx.idx_mapping_np.tolist()
            return slots, np.zeros(len(slots), np.int64)
        return ctx.expanded_idx_mapping.tolist(), ctx.expanded_local_pos.cpu().numpy()

    def _follow(
        self,
        ctx: Any,
        slots: list[int],
        rows: np.ndarray[Any, Any],
        place: int,
        states: Tensor,
    ) -> None:
        """Write the states of one row of each of some requests into ``states``.

        Args:
            slots: Of all rows. rows: int64[n], those with this place.
            place: 0 for the token that stands, p for the p-th that is proposed behind it.
            states: int64[all rows], written here, and read one row above for proposed tokens.
        """
        device = self._rows.device
        own = [slots[row] for row in rows.tolist()]
        texts = [self._texts[slot] for slot in own]
        at, slot = torch.from_numpy(rows).to(device), torch.tensor(own, device=device)
        tokens = ctx.input_ids[at].long()
        if place:
            after = self._rows.after(texts, states[at - 1], tokens)
            states[at] = after
            self._states[slot, place] = after
            return
        begins = self._requests.prompt_len.gpu.to(device)[slot].long()
        written = ctx.pos[at].long() + 1 - begins
        # One token more than an earlier row saw, or what it saw; less while a prompt is read.
        ahead = written - self._counts[slot]
        most = self._states.shape[1]
        before = self._states[slot, (ahead - 1).clamp(0, most - 1)]
        moved = self._rows.after(texts, before, tokens)
        kept = torch.where(ahead == 0, self._states[slot, 0], DEAD)
        after = torch.where((ahead >= 1) & (ahead <= most), moved, kept)
        states[at] = after
        counted = ahead >= 0
        self._states[slot, 0] = torch.where(counted, after, self._states[slot, 0])
        self._counts[slot] = torch.where(counted, written, self._counts[slot])

    def _written(self, slot: int) -> int:
        """Return how many tokens of its text a request came with."""
        requests = self._requests
        return int(requests.prefill_len.np[slot]) - int(requests.prompt_len.np[slot])
