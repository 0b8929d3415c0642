"""Contextual calibration: labels are weighed by what the model says of them without content.

Zhao et al., "Calibrate before use" (ICML 2021, arXiv 2102.09690), section 5. With p a prompt's
probabilities normalised over the labels, and c the mean of those after content-free prompts,
calibrated probabilities are q proportional to p / c:

    log q = log p - log c - logsumexp(log p - log c).

The paper multiplies by W = diag(c)^-1, adds b = 0 and takes a softmax of W p. That orders labels
alike, but is nearly uniform whatever p: with two labels and c uniform, p = (1, 0) becomes (.88,
.12). So p / c is normalised here instead, which leaves p as it is where c is uniform.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import CdecError, UsageError
from cdec.core.options import Option
from cdec.samplers.scoring.classification import normalized

Calibration: TypeAlias = Literal["none", "contextual"]

CALIBRATE = Option(name="calibrate", type=("none", "contextual"), default="none")
CONTENT_FREE = "N/A"
"""Stands for content where nothing else is said; a word of the paper's."""


def baseline(
    scored: Sequence[NDArray[np.float64] | CdecError],
) -> NDArray[np.float64] | CdecError:
    """Return log c, float64[L].

    Args:
        scored: float64[L] log P of the labels after each content-free prompt, all counting alike,
            or the error that it met.

    Returns:
        The log of the mean of the normalised probabilities; or the first error, or that of a label
        without probability.
    """
    found = []
    for log_p in scored:
        if isinstance(log_p, CdecError):
            return log_p
        found.append(normalized(log_p)[0])
    log_c: NDArray[np.float64] = np.logaddexp.reduce(found, axis=0) - math.log(len(found))
    if np.isinf(log_c).any():
        return UsageError(
            "a label has no probability without content, so there is nothing to divide by",
            hint="give other `content_free` prompts, or leave `calibrate` out",
        )
    return log_c
