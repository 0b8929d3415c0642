"""The estimates behind records before their brackets were held against them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from cdec.samplers.learning import bookkeeping
from cdec.samplers.scoring import mass_estimator
from cdec.samplers.walks import mass


@contextmanager
def watched() -> Iterator[list[mass.Estimate]]:
    """Collect the estimates of all records, in their order: their means are unbiased for P(S)."""
    found: list[mass.Estimate] = []
    own = mass.estimate

    def estimate(*args: Any) -> mass.Estimate:
        found.append(own(*args))
        return found[-1]

    with ExitStack() as stack:
        for module in (bookkeeping, mass_estimator, mass):
            stack.enter_context(mock.patch.object(module, "estimate", estimate))
        yield found
