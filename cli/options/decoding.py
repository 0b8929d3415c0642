"""The options of the distribution that texts are drawn from, and of drawing in batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options.shared import METHOD
from cdec.samplers.request import MAX_NEW_TOKENS


@dataclass(frozen=True, kw_only=True)
class TemperatureOptions(CommonOptions):
    """How flat the model's distribution is."""

    temperature: Annotated[
        float,
        Declared("Divides the logits.", METHOD, decides=True, common=True),
    ] = 1.0


@dataclass(frozen=True, kw_only=True)
class WarpingOptions(TemperatureOptions):
    """How the model's distribution is warped."""

    top_k: Annotated[
        int | None,
        Declared("Keep the k best tokens.", METHOD, decides=True),
    ] = None
    top_p: Annotated[
        float | None,
        Declared("Keep the best tokens up to this mass.", METHOD, decides=True),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DecodingOptions(WarpingOptions):
    """How texts are drawn for prompts."""

    seed: Annotated[
        int,
        Declared(
            "Of every random draw.", METHOD, at_least=0, at_most=math.inf, decides=True, common=True
        ),
    ] = 0
    max_new_tokens: Annotated[
        int | None,
        Declared(
            "Longest text, tokens; the longest member for sets, else 256.",
            METHOD,
            at_least=MAX_NEW_TOKENS.at_least,
            decides=True,
            common=True,
        ),
    ] = None
    batch_size: Annotated[
        int,
        Declared("Prompts decoded together; results come batch by batch.", METHOD, at_least=1),
    ] = 16
