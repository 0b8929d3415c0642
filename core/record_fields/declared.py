"""RecordField: what is declared of a field of output records, and the words that several share."""

from __future__ import annotations

from dataclasses import dataclass

SAMPLE, SCORE, MASS, CHECK, RETOKENIZE = "sample", "score", "mass", "check", "retokenize"
CLASSIFY = "classify"


@dataclass(frozen=True)
class RecordField:
    """A field of an output record.

    Attributes:
        name: Key of the JSON object.
        type: JSON type, and unit where it has one.
        meaning: One to three sentences; null is explained where it can stand.
        of: Commands whose records can have it.
        methods: Of samples: the methods that give it; "" for all.
    """

    name: str
    type: str
    meaning: str
    of: tuple[str, ...] = (SAMPLE,)
    methods: str = ""


LOG = "number, nats"
WITH_MASS = "masked, disc, asap, exact, smc, topn"
NORMALISED = "masked, disc, asap, exact, smc, topn, speculative, mentored"
DRAFTED = "methods with a draft"
REWARDED = "where `reward` is given"
