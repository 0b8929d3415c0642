"""The options of the methods that follow the model's own distribution: asap, exact, smc, topn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options.shared import METHOD


@dataclass(frozen=True, kw_only=True)
class AlignedOptions(CommonOptions):
    """What the draws of a record learn from each other, and when to stop."""

    round: Annotated[
        int,
        Declared(
            "asap, exact, topn: candidates of a record that are drawn before it learns from "
            "them; decides results.",
            METHOD,
            metavar="N",
        ),
    ] = 16
    burn_in: Annotated[
        int,
        Declared(
            "asap: candidates that only teach; the first of all is masked decoding.",
            METHOD,
            metavar="N",
        ),
    ] = 100
    until_converged: Annotated[
        float | None,
        Declared(
            "asap: go on teaching until the certified bounds of the constraint's mass are "
            "W apart, as probabilities.",
            METHOD,
            metavar="W",
        ),
    ] = None
    max_draws: Annotated[
        int,
        Declared(
            "exact, asap: budget, candidates per sample; past it a sample of exact has the "
            'finish_reason "budget".',
            METHOD,
            metavar="N",
        ),
    ] = 1000
    fallback: Annotated[
        str,
        Declared(
            "exact: what a sample past the budget is: disc, asap or none.", METHOD, metavar="METHOD"
        ),
    ] = "disc"
    abort: Annotated[
        bool,
        Declared(
            "exact: draw without masks where nothing is known yet, and give a candidate up "
            "at its first forbidden token; the same law.",
            METHOD,
        ),
    ] = False
    particles: Annotated[
        int,
        Declared("smc: texts that grow together for each sample.", METHOD, metavar="N"),
    ] = 16
    resample_below: Annotated[
        float,
        Declared(
            "smc: resample where the effective sample size falls below this share of the "
            "particles.",
            METHOD,
            metavar="SHARE",
        ),
    ] = 0.5
    by: Annotated[
        str,
        Declared(
            "topn: rank token sequences (sequence), or texts by the summed probability of "
            "their tokenisations found (text).",
            METHOD,
            metavar="KIND",
        ),
    ] = "sequence"
    max_evaluations: Annotated[
        int | None,
        Declared(
            "topn: budget, prefixes per prompt; what is not proved by then has the "
            'finish_reason "budget".',
            METHOD,
            metavar="N",
        ),
    ] = None
    tree_bytes: Annotated[
        str,
        Declared(
            "asap, exact: memory for what a tree may draw from; changes no result.",
            METHOD,
            metavar="SIZE",
        ),
    ] = "256MiB"
    tree: Annotated[
        Path | None,
        Declared(
            "asap, exact: keep what a single record's draws learnt in this file, and begin "
            "with what it holds; refused where model, warping, prompt or constraint differ. "
            "Written when all is drawn: an interrupted run leaves it as it was.",
            METHOD,
            metavar="FILE.arrow",
        ),
    ] = None
