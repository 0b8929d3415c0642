"""Potentials: weights of texts and of their beginnings, by which ``smc`` is led (Python only).

Loula et al. 2025, arXiv 2504.13139 (as genlm-control has them). A potential phi turns the target P
on S into the law proportional to P(w) phi(w) on S; of beginnings it gives a guess of what is to
come, which decides how well particles are chosen and not which law they tend to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cdec.core.errors import CdecError, UsageError


class PotentialError(CdecError, code="E_POTENTIAL", exit_status=65):
    """A potential that raises, or gives no weight, for one record's text."""


class Potential(ABC):
    """Weighs texts; both methods return natural logs, -inf for a weight of 0.

    Law: what ``prefix`` gives the weight 0 goes on to no text of a positive weight. Equal texts of
    equal records have equal weights, whatever else is weighed.
    """

    @abstractmethod
    def prefix(self, texts: Sequence[bytes], records: Sequence[Mapping[str, object]]) -> ArrayLike:
        """Return log weights of n beginnings of texts, float64[n].

        Args:
            texts: What their tokens spell; the last character may be cut.
            records: The other fields of each one's prompt record.
        """

    @abstractmethod
    def complete(
        self, texts: Sequence[bytes], records: Sequence[Mapping[str, object]]
    ) -> ArrayLike:
        """Return log weights of n whole texts, float64[n]; arguments as of ``prefix``."""


class Product(Potential):
    """The product of several potentials: the sum of their logs.

    Args:
        factors: At least one.
    """

    def __init__(self, factors: Sequence[Potential]) -> None:
        self._factors = factors

    def prefix(self, texts: Sequence[bytes], records: Sequence[Mapping[str, object]]) -> ArrayLike:
        """As ``Potential.prefix``."""
        return sum(weights_of(each, "prefix", texts, records) for each in self._factors)

    def complete(
        self, texts: Sequence[bytes], records: Sequence[Mapping[str, object]]
    ) -> ArrayLike:
        """As ``Potential.complete``."""
        return sum(weights_of(each, "complete", texts, records) for each in self._factors)


def as_potential(given: object) -> Potential | None:
    """Return a potential, or the product of several; None for none.

    Raises:
        UsageError: It is neither a potential nor a sequence of some.
    """
    if given is None:
        return None
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    found = [each for each in several if isinstance(each, Potential)]
    if found and len(found) == len(several):
        return found[0] if len(found) == 1 else Product(found)
    raise UsageError(
        f"`potential` is {type(given).__name__}, expected a Potential or a sequence of some",
        hint="Derive a class from cdec.samplers.Potential, with prefix and complete.",
        option="potential",
    )


def weights_of(
    potential: Potential,
    method: str,
    texts: Sequence[bytes],
    records: Sequence[Mapping[str, object]],
) -> NDArray[np.float64]:
    """Return log weights by ``prefix`` or ``complete``, float64[n] of its own.

    Raises:
        PotentialError: It raised, or gave something else than a number or -inf for each text.
    """
    name = type(potential).__name__
    weigh = potential.prefix if method == "prefix" else potential.complete
    try:
        found = np.array(weigh(texts, records), np.float64)
    except PotentialError:
        raise
    except Exception as error:
        raise PotentialError(
            f"{name}.{method} failed with {type(error).__name__}: {error}",
            hint="Correct the potential, or what it reads of the record.",
        ) from error
    if found.shape != (len(texts),):
        problem = f"an array of shape {found.shape} for {len(texts)} texts"
    elif not (found < np.inf).all():
        problem = f"{found[~(found < np.inf)][0]} for {texts[int(np.argmin(found < np.inf))]!r}"
    else:
        return found
    raise PotentialError(
        f"{name}.{method} gave {problem}, expected one number below infinity a text",
        hint="Return natural logs, -inf where the weight is 0.",
    )
