"""Random worlds: a tabular model and a set each, of many sizes, some with rare heavy members.

In such a world masked decoding hardly ever draws most of the valid mass: one member begins with a
token that is rare and goes on surely, as in a question where "yes please" comes easily and "maybe"
is what the model means, while the others begin easily and end hardly ever.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.toys import Row, Toy


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
