"""Masked decoding: every event drawn among the allowed ones, renormalised (trie decoding, GCD).

Biased: a text has probability P(text) / prod Z instead of P(text) / P(S). Its weight prod Z is
known, so weighted records target Q (``opportunistic`` does without most masks and estimates it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.decoding import candidate_uniforms, chunks, decode
from cdec.samplers.walks.mass import MassAccumulator
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.randomness import AGAIN


class MaskedSampler(Sampler):
    """Draws each event from the model restricted to what the constraint allows there.

    Args:
        top_m: Verify the model's M most probable tokens only (PPV); ``log_weight`` is then null
            and ``missed_mass`` tells what was not looked at: 1 - prod(1 - m) over the path, m the
            model's mass outside the top M.
        opportunistic: Draw from the unmasked model and ask for the mask only where that is not
            allowed: the same law; ``log_weight`` is then an estimate, whose exponential has the
            mean prod Z for every text (``decoding``), so that weighted records target Q as well.
        draft: Fewer passes, the same law. With ``top_m`` or ``opportunistic`` a proposal is taken
            where the target draws the same.

    Raises:
        UsageError: ``top_m`` with ``opportunistic``.
    """

    method: ClassVar[Method] = METHODS["masked"]
    exactness = "biased"
    top_m: int | None
    opportunistic: bool
    max_walks: int

    @classmethod
    def require_consistent(cls, options: Mapping[str, Any]) -> None:
        """Refuse to choose the tokens that are checked in two ways."""
        if options["top_m"] is not None and options["opportunistic"]:
            raise UsageError(
                "`top_m` and `opportunistic` were both asked for: each says which tokens to check",
                hint="Give one of `top_m` and `opportunistic`.",
                option="opportunistic",
            )

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        log_most = 0.0 if self.opportunistic else None
        masses = MassAccumulator(batch, unbiased=self.top_m is None, log_most=log_most)
        together = self.max_walks // (1 if draft is None else draft.rows)
        parts = []
        for draws in chunks(len(batch.seeds), together):
            drawn = self._draw(batch, draws, draft)
            masses.weigh(draws, drawn)
            parts.append(drawn)
        chosen = concatenate(parts)
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        per_draw: dict[str, list[Any]] = {}
        if self.top_m is not None:
            per_draw["missed_mass"] = (-np.expm1(chosen.log_kept)).tolist()
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=log_x if self.top_m is None else np.full(len(log_x), np.nan),
            log_candidate_weight=log_x,
            per_draw=per_draw,
            per_request=masses.fields(lengths=not self.opportunistic),
        )

    def _draw(self, batch: Batch, draws: NDArray[np.int64], draft: Draft | None) -> Candidates:
        uniforms = candidate_uniforms(batch, draws, 1)
        options: dict[str, Any] = {"top_m": self.top_m}
        if self.opportunistic:
            options["retries"] = uniforms.stream(AGAIN)
        where = batch, batch.draw_request[draws], batch.draw_index[draws], uniforms
        if draft is None:
            return decode(*where, **options)
        # Laws are compared where the target's is known under full masks, else the tokens drawn.
        is_plain = self.top_m is None and not self.opportunistic
        repeats = None if is_plain else options
        return draft.decode(*where, repeats=repeats, weighed=not self.opportunistic)
