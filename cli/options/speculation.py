"""The options of speculation, and the file in which its counts are kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options.shared import METHOD


@dataclass(frozen=True, kw_only=True)
class SpeculationOptions(CommonOptions):
    """Options of ``greedy`` and ``masked`` that make decoding faster, and the file of counts."""

    opportunistic: Annotated[
        bool,
        Declared(
            "greedy, masked: compute a mask only where the model's own choice is refused; "
            "weights are then null.",
            METHOD,
        ),
    ] = False
    speculate: Annotated[
        int,
        Declared(
            "greedy, masked: guess up to S tokens of a grammar's text from counts, and "
            "evaluate them in one forward pass; changes no text. 0 is off. speculative: short for "
            "--draft counts --gamma S.",
            METHOD,
            metavar="S",
        ),
    ] = 0
    speculate_threshold: Annotated[
        float,
        Declared("Guess tokens whose estimated probability is above P.", METHOD, metavar="P"),
    ] = 0.4
    counts: Annotated[
        Path | None,
        Declared("Begin with the counts that --save-counts wrote.", METHOD, metavar="FILE"),
    ] = None
    save_counts: Annotated[
        Path | None,
        Declared(
            "Write the counts at the end of the run; the file of --counts may be named again.",
            METHOD,
            metavar="FILE",
        ),
    ] = None
