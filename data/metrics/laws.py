"""Metrics of faithfulness: distance from a target, weights, perplexity, what the model's mass is.

Q is the target law, Q~ the law that the weighted draws stand for: each text with the share of its
weights. Both are of finite sums; Q~ of n draws over m texts exceeds the divergence of the law drawn
from by about (m - 1) / 2n (Miller 1955), so divergences of few draws compare methods and say little
by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.data.metrics.metric import Metric, Terms, mean_of, ratio
from cdec.data.metrics.records import Evaluated, Target

WINDOW = 500
"""Draws of the windowed estimator (Park et al. 2024, "Grammar-Aligned Decoding", section 5)."""
MOST_UNLISTED = 1e-3
"""Probability of unlisted texts up to which a target is taken to be enumerated."""
_ROUNDING = 1e-3
"""Nats by which log P(S) of real models may differ with the batch."""
TARGETS = "a target with the probability of every text of the record"
WITH_LOGPROB = "samples with logprob"


def _enumerated(record: Evaluated) -> Target | None:
    """Return the target of drawn samples, if nearly all of it is listed."""
    target = record.target
    is_drawn = bool(record.samples) and not record.is_ranked
    return target if target and is_drawn and target.unlisted <= MOST_UNLISTED else None


def _kl(record: Evaluated) -> float | None:
    target = _enumerated(record)
    if target is None:
        return None
    return math.fsum(
        share * (math.log(share) - _log(target, text))
        for text, share in record.shares.items()
        if share > 0
    )


def _tv(record: Evaluated) -> float | None:
    target = _enumerated(record)
    if target is None:
        return None
    shares = record.shares
    texts = {None, *shares, *target.log_probabilities}
    gaps = (abs(shares.get(text, 0.0) - math.exp(_log(target, text))) for text in texts)
    return math.fsum(gaps) / 2


def _log(target: Target, text: str | None) -> float:
    """Return the log of a text's probability under the target, -inf where it is not listed."""
    return -math.inf if text is None else target.log_probabilities.get(text, -math.inf)


def _expectation_gap(record: Evaluated) -> float | None:
    """E log Q under Q minus that under Q~: how much less probable texts are than they should be."""
    target = _enumerated(record)
    if target is None:
        return None
    logs = target.log_probabilities.values()
    own = math.fsum(math.exp(log) * log for log in logs if log > -math.inf)
    drawn = (share * _log(target, text) for text, share in record.shares.items() if share > 0)
    return own - math.fsum(drawn)


def _window_kl(record: Evaluated) -> float | None:
    if len(record.samples) < 2 or record.is_ranked:
        return None
    log_p: dict[str | None, float] = {}
    for sample in record.samples[-WINDOW:]:
        if sample.get("logprob") is None or sample.get("text") is None:
            return None
        log_p[sample["text"]] = sample["logprob"]
    shares = record.shares_of_last(WINDOW)
    if not shares.keys() <= log_p.keys():
        return None
    return math.fsum(s * (math.log(s) - log_p[text]) for text, s in shares.items() if s > 0)


def _ess(record: Evaluated) -> float | None:
    """The effective sample size, as a share of the draws (Kish 1965)."""
    if not record.is_weighted:
        return None
    return float(1.0 / np.square(record.weights).sum() / len(record.samples))


def _perplexity_terms(record: Evaluated) -> Terms:
    log, tokens = 0.0, 0
    for sample in record.samples:
        if sample.get("logprob") is None or not sample.get("token_ids"):
            continue
        log -= sample["logprob"]
        tokens += len(sample["token_ids"])
    return (log, float(tokens)) if tokens else None


def _exp_ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(ratio(sums)))


def _share_of(holds: Callable[[Mapping[str, Any]], bool | None]) -> Callable[[Evaluated], Terms]:
    """Return the terms of a share of all draws, none of them weighted."""

    def terms(record: Evaluated) -> Terms:
        known = [said for each in record.samples if (said := holds(each)) is not None]
        return (float(sum(known)), float(len(known))) if known else None

    return terms


def _in_bracket(record: Evaluated) -> float | None:
    """Whether the certified bounds of log P(S) hold the target's."""
    if record.target is None or record.target.log_mass is None or not record.samples:
        return None
    last = record.samples[-1]
    lower, upper = last.get("log_mass_lower"), last.get("log_mass_upper")
    if upper is None:
        return None
    mass = record.target.log_mass
    is_above = lower is None or lower <= mass + _ROUNDING
    return float(is_above and mass <= upper + _ROUNDING)


def _mass_score(record: Evaluated) -> float | None:
    """Whether log P(S) is within two standard errors of the estimate."""
    if record.target is None or record.target.log_mass is None or not record.samples:
        return None
    found, error = (record.samples[-1].get(name) for name in ("log_mass", "log_mass_se"))
    if found is None or error is None:
        return None
    return float(abs(found - record.target.log_mass) <= 2 * error + _ROUNDING)


LAW_METRICS = [
    Metric(
        "kl",
        "KL(Q~ || Q) in nats; inf where a text was drawn that the target does not have.",
        TARGETS,
        mean_of(_kl),
        better="lower",
        unit="nats",
    ),
    Metric("tv", "Total variation between Q~ and Q.", TARGETS, mean_of(_tv), better="lower"),
    Metric(
        "expectation_gap",
        "E log Q of texts that follow Q, minus that of the draws, nats.",
        TARGETS,
        mean_of(_expectation_gap),
        better="",
        unit="nats",
    ),
    Metric(
        "kl_model",
        f"KL(Q~ || P) of the last {WINDOW} draws, nats: the windowed estimator of ASAp. It lies "
        "-log P(S) above KL(Q~ || Q), by the same for each method.",
        f"{WITH_LOGPROB}, two of a record or more",
        mean_of(_window_kl),
        better="lower",
        unit="nats",
    ),
    Metric(
        "mass_in_bracket",
        "Share of the records whose certified bounds of log P(S) hold the target's log_mass.",
        "a target with log_mass",
        mean_of(_in_bracket),
    ),
    Metric(
        "mass_within_2se",
        "Share of the records whose log_mass is within two standard errors of the target's.",
        "a target with log_mass",
        mean_of(_mass_score),
    ),
    Metric(
        "effective_share",
        "Effective sample size of the weights over the number of draws.",
        "samples with log_weight",
        mean_of(_ess),
    ),
    Metric(
        "perplexity",
        "exp of -logprob over tokens; the end of a text is charged and is no token.",
        WITH_LOGPROB,
        _perplexity_terms,
        _exp_ratio,
        better="",
        unit="1 / probability of a token",
    ),
    Metric(
        "valid",
        "Share of the draws that the independent check found valid.",
        "samples",
        _share_of(lambda sample: sample.get("valid")),
    ),
    Metric(
        "complete",
        "Share of the draws that came to an end.",
        "samples",
        _share_of(
            lambda each: each["finish_reason"] == "complete" if "finish_reason" in each else None
        ),
    ),
]
