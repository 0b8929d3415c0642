"""Worlds to test laws in, beside the papers' toys: random ones, and some of tiny mass."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.worlds import Row, Toy, toy_set
from cdec.integrations.findings.worlds import toy_a as toy_a
from cdec.integrations.findings.worlds import toy_b as toy_b

# --- Random worlds: a tabular model and a set each, of many sizes, some with rare heavy members.
#
# In such a world masked decoding hardly ever draws most of the valid mass: one member begins with a
# token that is rare and goes on surely, as in a question where "yes please" comes easily and
# "maybe"
# is what the model means, while the others begin easily and end hardly ever.


def yes_please() -> Toy:
    """Masked decoding draws "yes please" 77 times in 100; of Q "maybe" has 96 in 100.

    Tokens: yes, please, maybe, no and the end. After "yes" the model would say something else.
    """
    pieces = [b"yes", b" please", b"maybe", b"no"]
    vocabulary = Vocabulary([*pieces, b""], eos_token_ids=[4], special_token_ids=[4])
    laws = {
        (): [0.77, 0.0, 0.2, 0.03, 0.0],
        (0,): [0.4, 2e-6, 0.3, 0.3 - 2e-6, 0.0],
        (0, 1): [0.0, 0.0, 0.0, 0.0, 1.0],
        (2,): [0.1, 0.1, 0.0, 0.0, 0.8],
        (3,): [0.1, 0.1, 0.0, 0.58, 0.22],
    }

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        return np.array(laws.get(prefix, [0.2] * 5))

    return Toy(vocabulary, probabilities, [(0, 1), (2,), (3,)])


def random_world(seed: int) -> Toy:
    """A random set of up to 300 rows over 2 to 8 tokens, and a random model.

    P(S) goes from almost 0 to almost 1; half of the worlds have a rare heavy member.
    """
    rng = np.random.default_rng([11, seed])
    size, longest = int(rng.integers(2, 9)), int(rng.integers(2, 8))
    vocabulary = Vocabulary([bytes([97 + t]) for t in range(size)] + [b""], eos_token_ids=[size])
    members = _members(rng, size, longest)
    prefixes = {row[:n] for row in members for n in range(len(row) + 1)}
    # How peaked the model is, how often texts end, how much it prefers what is valid.
    peak, end, bias = (
        float(np.exp(rng.uniform(*np.log(bounds))))
        for bounds in ((0.05, 3.0), (1e-3, 0.9), (0.02, 50.0))
    )
    heavy = members[int(rng.integers(len(members)))] if rng.random() < 0.5 else None
    rare, decoy = (
        float(np.exp(rng.uniform(*np.log(bounds)))) for bounds in ((1e-3, 0.5), (1e-6, 1.0))
    )
    known: dict[Row, NDArray[np.float64]] = {}

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        if prefix not in known:
            known[prefix] = law(prefix)
        return known[prefix]

    def law(prefix: Row) -> NDArray[np.float64]:
        own = np.random.default_rng([seed, 5, *prefix])
        weights = own.gamma(peak, size=size) + 1e-12
        weights *= [bias if (*prefix, t) in prefixes else 1.0 for t in range(size)]
        weights /= weights.sum()
        ends = end * own.random()
        if heavy is None:
            return np.append(weights * (1 - ends), ends)
        if not prefix:
            weights *= 1 - rare
            weights[heavy[0]] += rare
            return np.append(weights, 0.0)
        if prefix == heavy[: len(prefix)]:
            sure = np.full(size + 1, 1e-6)
            sure[size if prefix == heavy else heavy[len(prefix)]] = 1.0
            return sure / sure.sum()
        return np.append(weights * (1 - ends * decoy), ends * decoy)

    return Toy(vocabulary, probabilities, members)


def graded_world(seed: int) -> Toy:
    """A random world made improbable: P(S) from .1 to 1e-14 and below, evenly in its logarithm.

    At every prefix what is allowed keeps a share of its probability, the rest goes to a token that
    is never allowed. A third of the worlds loses all at the prompt, a third as much at each step,
    and in a third shares differ by orders of magnitude from prefix to prefix, so that most of the
    mass may lie where masked decoding hardly ever goes.
    """
    plain = random_world(seed)
    rng = np.random.default_rng([13, seed])
    loss, kind = float(rng.uniform(0, 30)), int(rng.integers(3))
    steps = 1 + float(np.mean([len(row) for row in plain.members]))
    end = plain.vocabulary.eos_token_ids[0]
    pieces = [bytes([97 + token]) for token in range(end)]
    vocabulary = Vocabulary([*pieces, b"", b"~"], eos_token_ids=[end])
    following = {row[: n + 1] for row in plain.members for n in range(len(row))}
    known: dict[Row, NDArray[np.float64]] = {}

    def log_share(prefix: Row) -> float:
        if kind == 0:
            return 0.0 if prefix else -loss
        own = np.random.default_rng([seed, 6, *prefix])
        return -loss / steps * (1.0 if kind == 1 else float(own.exponential()))

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        if prefix not in known:
            law = plain.probabilities(prefix)
            is_allowed = [(*prefix, token) in following for token in range(end)]
            allowed = np.array([*is_allowed, prefix in plain.members])
            kept = np.where(allowed, law * np.exp(log_share(prefix)), 0.0)
            known[prefix] = np.append(kept, max(0.0, 1.0 - kept.sum()))
        return known[prefix]

    return Toy(vocabulary, probabilities, plain.members)


def _members(rng: np.random.Generator, size: int, longest: int) -> list[Row]:
    count = int(np.exp(rng.uniform(0, np.log(300))))
    lengths = rng.integers(1, longest + 1, size=count).tolist()
    return sorted({tuple(rng.integers(0, size, size=n).tolist()) for n in lengths})


def random_toy(seed: int, *, ends_itself: bool = False) -> Toy:
    """A random set of up to 8 rows over 4 tokens and a random model with two end ids."""
    rng = np.random.default_rng(seed)
    size = 6
    vocabulary = Vocabulary(
        [bytes([97 + t]) for t in range(4)] + [b"", b""], eos_token_ids=[4, 5], width=size + 1
    )
    rows: set[Row] = set()
    while len(rows) < int(rng.integers(1, 9)):
        rows.add(tuple(rng.integers(0, 4, size=int(rng.integers(1, 5))).tolist()))
    members = sorted(rows)
    if ends_itself:  # No row may be a prefix of another: each gets an end of its own.
        members = sorted({(*(t % 3 for t in row), 3) for row in members})

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        own = np.random.default_rng([seed, 7, *prefix])
        weights = own.exponential(size=size + 1) ** 2 + 1e-3
        weights[own.random(size + 1) < 0.1] = 0.0
        weights[4] += 1e-3
        return weights / weights.sum()

    return Toy(vocabulary, probabilities, members, ends_itself)


# --- Worlds of tiny mass: models given by logits, sets, and their laws in decimal arithmetic.
#
# log P(S) goes down to -5,000 and siblings may lie 2,000 nats apart, where a probability is no
# float.
# Enumeration is in decimals of 40 digits and hardly bounded exponents; only logs become floats.

Logits = Callable[[Row], NDArray[np.float64]]
_DIGITS = decimal.Context(prec=40, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_NONE = Decimal("-Infinity")


class LogitModel(TabularModel):
    """A tabular model given by logits, which need not be normalised; on the host or a device."""

    def __init__(self, logits: Logits, vocabulary: Vocabulary, device: str = "cpu") -> None:
        super().__init__(logits, vocabulary)
        self._logits = logits
        self.device = device

    def _forward(self, nodes: NDArray[np.int64]) -> Any:
        rows = [self._logits(tuple(self._tree.tokens(node))) for node in nodes.tolist()]
        scores = np.array(rows, np.float64).reshape(len(nodes), self.vocabulary.width)
        self._count(nodes, 1, 1)
        if self.device == "cpu":
            return scores
        import torch

        return torch.tensor(scores).to(self.device.removeprefix("torch:"))


@dataclass(frozen=True)
class TinyWorld:
    """Logits and a set of rows, of which one may be the beginning of another.

    Attributes:
        logits: From a prefix to float64[V]; -inf where the model rules a token out.
        members: The rows of S; each takes an end event.
    """

    vocabulary: Vocabulary
    logits: Logits
    members: list[Row]
    _known: dict[Row, list[Decimal]] = field(default_factory=dict, init=False)

    @cached_property
    def constraint(self) -> SetConstraint:
        """The set."""
        return toy_set(self.members, self.vocabulary)

    def model(self, device: str = "cpu") -> LogitModel:
        """Return a fresh model."""
        return LogitModel(self.logits, self.vocabulary, device)

    def log_p(self, row: Row) -> float:
        """Return log P of a text, its end event included."""
        return float(self._log_p(row))

    @cached_property
    def log_mass(self) -> float:
        """log P(S)."""
        return float(_log_sum(self._log_p(row) for row in self.members))

    @cached_property
    def target(self) -> Mapping[Row, float]:
        """Q = P(. | S) by member; what is below the smallest float is 0."""
        total = _log_sum(self._log_p(row) for row in self.members)
        return {row: float(_DIGITS.exp(self._log_p(row) - total)) for row in self.members}

    def log_x(self, row: Row) -> float:
        """Return the weight of a member that masked decoding gives: the sum of log Z."""
        prefixes = [row[:depth] for depth in range(len(row) + 1)]
        return float(sum(self._log_z(prefix) for prefix in prefixes))

    def log_masked(self, row: Row) -> float:
        """Return the log probability that masked decoding gives a member."""
        return self.log_p(row) - self.log_x(row)

    def log_step(self, prefix: Row, token: int) -> float:
        """Return log P of a token after a prefix."""
        return float(self._log_step(prefix, token))

    def log_truncated(self, limit: int) -> float:
        """Return the log of the mass of the members longer than ``limit``."""
        return float(_log_sum(self._log_p(row) for row in self.members if len(row) > limit))

    def _log_p(self, row: Row) -> Decimal:
        with decimal.localcontext(_DIGITS):
            steps = [self._log_step(row[:i], token) for i, token in enumerate(row)]
            return sum(steps, self._log_end(row))

    def _log_z(self, prefix: Row) -> Decimal:
        longer = [row for row in self.members if row[: len(prefix)] == prefix and row != prefix]
        following = sorted({row[len(prefix)] for row in longer})
        events = [self._log_step(prefix, token) for token in following]
        return _log_sum([*events, self._log_end(prefix)] if prefix in self.members else events)

    def _log_end(self, prefix: Row) -> Decimal:
        return _log_sum(self._log_step(prefix, end) for end in self.vocabulary.eos_token_ids)

    def _log_step(self, prefix: Row, token: int) -> Decimal:
        if prefix not in self._known:
            logits = [Decimal(value) for value in self.logits(prefix).tolist()]
            total = _log_sum(logits)
            with decimal.localcontext(_DIGITS):
                self._known[prefix] = [value - total for value in logits]
        return self._known[prefix][token]


def long_members(log_mass: float, length: int = 150) -> TinyWorld:
    """Two members of ``length`` tokens that begin with a and b, Q 1/3 and 2/3."""
    step = (log_mass - math.log(0.03)) / length

    def logits(prefix: Row) -> NDArray[np.float64]:
        if not prefix:
            return np.log([0.01, 0.02, 0.96, 0.01])
        if len(prefix) == length:
            return np.array([step, step, 0.0, step])
        return np.array([step, -9.0, 0.0, -9.0])

    row = (0,) * (length - 1)
    return TinyWorld(_letters(3), logits, [(0, *row), (1, *row)])


def far_siblings(gap: float) -> TinyWorld:
    """Siblings ``gap`` nats apart, of which the rarer ones hold the mass.

    a is likely and leads on hardly ever; b, c and d are e^-gap as likely and lead on surely; e is
    rarer than a by gap / 2 and leads on as rarely as a. P(S) is about e^-gap.
    """

    def logits(prefix: Row) -> NDArray[np.float64]:
        law = np.full(6, -1.0)
        if not prefix:
            law[:] = 0.0, -gap, -gap - 1.0, -gap - 2.0, -gap / 2, -1.0
        elif prefix == (0,):
            law[1], law[0] = -gap - 0.5, 0.0
        elif prefix == (4,):
            law[1] = -gap
        elif prefix in ((1,), (2,), (3,), (0, 1), (4, 1)):
            law[:] = -40.0
            law[5] = 0.0
        return law

    return TinyWorld(_letters(5), logits, [(0, 1), (1,), (2,), (3,), (4, 1)])


def far_ends(gap: float) -> TinyWorld:
    """Members that are beginnings of others and end rarely: a, ab, abc, b, by two end ids."""
    vocabulary = Vocabulary([b"a", b"b", b"c", b"", b""], eos_token_ids=[3, 4])

    def logits(prefix: Row) -> NDArray[np.float64]:
        rarely = np.array([-3.0, 0.0, -2.0, -gap, -gap - 1.0])
        return {
            (): np.array([0.0, -gap, -1.0, -2.0, -2.0]),
            (0,): rarely,
            (0, 1): np.array([0.0, -1.0, -2.0, -gap + 1.0, -gap - 1.0]),
            (0, 1, 2): rarely,
        }.get(prefix, np.array([-2.0, -2.0, -2.0, 0.0, -1.0]))

    return TinyWorld(vocabulary, logits, [(0,), (0, 1), (0, 1, 2), (1,)])


def in_logits(toy: Toy) -> TinyWorld:
    """Return a toy whose members take an end event as a world."""
    return TinyWorld(toy.vocabulary, lambda prefix: _logs(toy.probabilities(prefix)), toy.members)


def thinned(toy: Toy, nats: float) -> TinyWorld:
    """A toy whose P(S) is e^-nats of what it was, by a rare first token; Q hardly changes.

    Every member is led by a token of log probability -``nats`` (before normalising).
    """
    size, first = toy.vocabulary.width, toy.vocabulary.width
    pieces = [*toy.vocabulary.token_bytes, *[b""] * (size - toy.vocabulary.size), b"\xff"]
    vocabulary = Vocabulary(pieces, eos_token_ids=toy.vocabulary.eos_token_ids)

    def logits(prefix: Row) -> NDArray[np.float64]:
        if not prefix or prefix[0] != first:
            return np.append(np.zeros(size), -nats + math.log(size))
        return np.append(_logs(toy.probabilities(prefix[1:])), -np.inf)

    return TinyWorld(vocabulary, logits, [(first, *row) for row in toy.members])


def random_tiny_world(seed: int) -> TinyWorld:
    """A random set of up to 12 rows over 2 to 5 tokens and logits up to 2,500 nats apart."""
    rng = np.random.default_rng([13, seed])
    size, longest = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    vocabulary = Vocabulary(
        [bytes([97 + t]) for t in range(size)] + [b"", b""], eos_token_ids=[size, size + 1]
    )
    count = int(rng.integers(1, 13))
    lengths = rng.integers(1, longest + 1, size=count).tolist()
    members = sorted({tuple(rng.integers(0, size, size=n).tolist()) for n in lengths})
    scale = math.exp(rng.uniform(0.0, math.log(2500)))
    # Few values, so that sums of some tie or nearly tie and Q is spread over members.
    levels = np.append(rng.uniform(-scale, 0.0, size=2), 0.0)

    def logits(prefix: Row) -> NDArray[np.float64]:
        own = np.random.default_rng([seed, 3, *prefix])
        return levels[own.integers(0, 3, size=size + 2)] + own.uniform(-2.0, 0.0, size=size + 2)

    return TinyWorld(vocabulary, logits, members)


def _letters(size: int) -> Vocabulary:
    return Vocabulary([bytes([97 + t]) for t in range(size)] + [b""], eos_token_ids=[size])


def _logs(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def _log_sum(logs: Iterator[Decimal] | list[Decimal]) -> Decimal:
    """Return the log of the sum of exponentials, to 40 digits."""
    terms = [log for log in logs if log > _NONE]
    if not terms:
        return _NONE
    with decimal.localcontext(_DIGITS):
        top = max(terms)
        return top + sum(((log - top).exp() for log in terms), Decimal(0)).ln()


WORLDS: dict[str, TinyWorld] = {
    **{f"long {log_mass}": long_members(log_mass) for log_mass in (-736.9, -5000.0)},
    **{f"siblings {gap}": far_siblings(gap) for gap in (1.0, 400.0, 720.0, 2000.0)},
    **{f"ends {gap}": far_ends(gap) for gap in (5.0, 760.0, 2000.0)},
}
"""Worlds by name: log P(S) from -1 to -5,000."""
