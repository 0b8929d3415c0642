"""The G-test of drawn outcomes against an exact law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

import numpy as np
from scipy import stats


def g_test(outcomes: Iterable[Hashable], law: Mapping[Hashable, float]) -> float:
    """Return the p-value of the likelihood-ratio test; cells expected below 5 are pooled.

    An outcome that the law excludes gives 0. The statistic is referred to chi-squared with one
    degree of freedom less than there are cells.
    """
    counts = Counter(outcomes)
    n = sum(counts.values())
    if any(law.get(outcome, 0.0) <= 0 for outcome in counts):
        return 0.0
    cells = sorted((law[k] * n, counts.get(k, 0)) for k in law if law[k] > 0)
    expected, observed = [], []
    pooled_expected = pooled_observed = 0.0
    for mean, seen in cells:
        if mean < 5:
            pooled_expected += mean
            pooled_observed += seen
        else:
            expected.append(mean)
            observed.append(float(seen))
    if pooled_expected >= 5 or not expected:
        expected.append(pooled_expected)
        observed.append(pooled_observed)
    else:  # Too little for a cell of its own: into the smallest.
        expected[0] += pooled_expected
        observed[0] += pooled_observed
    if len(expected) == 1:
        return 1.0
    means = np.array(expected) * (sum(observed) / sum(expected))
    return float(stats.power_divergence(observed, means, lambda_="log-likelihood").pvalue)
