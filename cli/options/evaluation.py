"""Options of evaluations: what is right, which metrics, and how they are resampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

from cdec.cli.frame.declaration import limits, option
from cdec.cli.options import shared
from cdec.data.input.source import PROMPT_LIMITS, InputLimits

_REFERENCES = "References"
_METRICS = "Metrics"

references_option = partial(
    option,
    None,
    "Right answers by `id`: objects with any of answer, answers, entity_ids, label, relevant "
    "(a list, or grades by answer), value (JSON), concepts. The samples' own `input` if not "
    "given.",
    _REFERENCES,
    metavar="FILE",
    common=True,
)
hook_option = partial(
    option,
    None,
    "A metric of your own: function(texts, records) returns a number a text; it runs code.",
    _METRICS,
    metavar="MODULE:FUNCTION",
    typed_only=True,
)


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Evaluation of files of samples."""

    references: str | None = references_option()
    target: str | None = option(
        None,
        "The law to follow: objects with id, text and probability, such as --method topn writes.",
        _REFERENCES,
        metavar="FILE",
        common=True,
    )
    compare: Literal["exact", "folded"] = option(
        "exact",
        "How texts are compared: as they stand, or without case, width and white space.",
        _REFERENCES,
    )
    metrics: str | None = option(
        None,
        "These metrics, in this order; all that the files allow if not given.",
        _METRICS,
        metavar="A,B,...",
        common=True,
    )
    at: str = option("1,5,10", "Where rankings are cut.", _METRICS, metavar="K,K,...", common=True)
    hook: str | None = hook_option()
    weights: bool = option(
        True, "Count draws with their weights; without, all count equally.", _METRICS
    )
    resamples: int = option(
        1000,
        "Resamples of the records for intervals and tests; 0 for none.",
        _METRICS,
        at_least=0,
        at_most=1_000_000,
    )
    confidence: float = option(0.95, "Of the intervals.", _METRICS, above=0.0, below=1.0)
    seed: int = option(0, "Of the resampling.", _METRICS, at_least=0, at_most=math.inf)
    input_limits: InputLimits = limits(PROMPT_LIMITS, shared.INPUT)
