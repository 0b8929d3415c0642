"""Residual mass of prefixes: the allowed mass but for the tokens drawn there, for learning trees.

A tree whose later draws walk down it (``learning``) gives each drawn token a node of its own, and
keeps the mass of all others. Without a draft, all walks that come to a prefix come in the same
step. With one they may come in different passes, so what earlier ones drew is remembered until the
candidates are finished.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.levels import Level, Verdict
from cdec.samplers.drafts.verify import Verifier
from cdec.samplers.walks.events import log_residual
from cdec.samplers.walks.randomness import CandidateUniforms
from cdec.samplers.walks.step import Step


class LearningVerifier:
    """Verifies proposals without loss, and says the residual mass of every prefix.

    Args:
        uniforms: Of the candidates that walk now; their constraints must be known.
    """

    def __init__(self, uniforms: CandidateUniforms) -> None:
        self._verifier = Verifier(uniforms)
        self._taken: dict[int, set[int]] = {}

    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        """Choose the next events; ``log_residual`` leaves out all tokens drawn there so far."""
        verdict = self._verifier.judge(step, alive, level)
        contexts = step.nodes.context.tolist()
        pairs = zip(step.walk_node.tolist(), verdict.chosen.tokens.tolist(), strict=True)
        for node, token in pairs:
            if token >= 0:
                self._taken.setdefault(contexts[node], set()).add(token)
        taken = [sorted(self._taken.get(context, ())) for context in contexts]
        chosen = replace(verdict.chosen, log_residual=log_residual(step, taken))
        return replace(verdict, chosen=chosen)
