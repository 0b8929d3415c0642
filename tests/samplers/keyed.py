"""Toy sets whose sessions have speculation keys, as grammars' sessions have."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import Constraint, Facts, Session
from cdec.samplers.drafts.counts import Counts
from tests.laws.constraints import WrappedSession
from tests.laws.worlds import Toy


class KeyedSession(WrappedSession):
    """A set's session with a key a state; ``fold`` states share each key, so that guesses fail."""

    def __init__(self, inner: Session, fold: int) -> None:
        super().__init__(inner)
        self._fold = fold

    def speculation_keys(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the states' keys, int64[n]."""
        return states // self._fold


class KeyedConstraint(WrappedConstraint):
    """A set constraint that gives keyed sessions and has a fingerprint."""

    def __init__(self, inner: Constraint, fold: int, digest: str) -> None:
        super().__init__(inner)
        self._fold = fold
        self._digest = digest

    @cached_property
    def facts(self) -> Facts:
        """What is declared of the set, with keys and a fingerprint."""
        return self._facts_within(has_speculation_keys=True, metadata={"cdec.digest": self._digest})

    def session(self, device: str = "cpu") -> KeyedSession:
        """Start a decoding run."""
        return KeyedSession(self.inner.session(device), self._fold)


def keyed(toy: Toy, *, fold: int = 1, digest: str = "toy") -> KeyedConstraint:
    """Return a toy's constraint with keys."""
    return KeyedConstraint(toy.constraint, fold, digest)


def bare(sample: Any) -> dict[str, Any]:
    """Return a sample without what speculation may change: what it cost, and the last digits of
    sums over texts, which are added in the order of the model's contexts."""
    record = dataclasses.asdict(sample)
    costs = ("target_calls", "target_tokens", "distinct_evaluations", "acceptance_rate")
    costs += ("accepted_length", "draft_calls", "cost_per_token", "path_calls")
    record["diagnostics"] = {
        key: round(value, 10) if isinstance(value, float) else value
        for key, value in record["diagnostics"].items()
        if key not in costs
    }
    return record


def learnt(toy: Toy, constraint: Any, digest: str = "toy") -> Counts:
    """Return counts of many draws of a toy."""
    from cdec.samplers.masked import MaskedSampler

    sampler = MaskedSampler(draft="counts", gamma=1)
    sampler.draw(toy.model(), constraint, "", n=200, rng=np.random.default_rng(9))
    return sampler.drafting.counts
