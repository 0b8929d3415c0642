"""An event has one log probability, digit for digit, whether a draft proposed it or not."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.samplers.drafts.proposals import PLAIN
from cdec.samplers.drafts.verify import on_host
from cdec.samplers.walks import events
from cdec.samplers.walks.frontier import END
from tests.samplers.drafts.test_drafts_torch import LIMITS, numbers_for, opened_step, proposals


@pytest.mark.parametrize("limits", [[0.0], LIMITS], ids=["lossless", "mentored"])
def test_log_probabilities_do_not_depend_on_proposals(limits: list[float]) -> None:
    step = opened_step("cpu", 60)
    scores = np.array(step.scores)
    for seed in range(20):
        # Scores of models are not normalised.
        step.scores[:] = scores * (1.0 + 0.1 * seed)
        step.log_normalizer[:] = np.log(np.exp(step.scores).sum(1))
        level, kinds = proposals(step, seed, 300)
        numbers = numbers_for(len(kinds), seed, limits)
        verdict = on_host(step, level, kinds, numbers)
        plain = events.sample(step, numbers[1])
        np.testing.assert_array_equal(verdict.chosen.log_z, plain.log_z)
        np.testing.assert_array_equal(verdict.chosen.log_end, plain.log_end)
        tokens, log_p = verdict.chosen.tokens, verdict.chosen.log_p
        alone = kinds == PLAIN
        assert tokens[alone].tolist() == plain.tokens[alone].tolist()
        assert log_p[alone].tolist() == plain.log_p[alone].tolist()
        row = step.rows[step.walk_node]
        expected = step.scores[row, tokens] - step.log_normalizer[row]
        expected = np.where(tokens == END, plain.log_end[step.walk_node], expected)
        assert log_p[tokens >= END].tolist() == expected[tokens >= END].tolist()
        assert (tokens[~alone] == END).any()
