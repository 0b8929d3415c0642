"""Options of the model, and of the distribution that texts are drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options import shared
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


@dataclass(frozen=True, kw_only=True)
class ModelOptions(CommonOptions):
    """Which model, and how it is loaded."""

    allow_special: Annotated[
        bool,
        Declared(
            "Text of special tokens in prompts becomes the token.", shared.PROMPTS, decides=True
        ),
    ] = False
    chat: Annotated[
        bool,
        Declared(
            "Put prompts that are texts into the model's chat template. The embedded model has one "
            "for questions, and bare questions go into it unasked.",
            shared.PROMPTS,
        ),
    ] = False
    raw: Annotated[
        bool,
        Declared("Leave all prompts that are texts as they are typed.", shared.PROMPTS),
    ] = False
    model: shared.ModelOption = None
    revision: shared.RevisionOption = None
    device: Annotated[
        str,
        Declared("cpu, cuda, cuda:1 or auto.", shared.MODEL, common=True),
    ] = "cpu"
    dtype: Annotated[
        str | None,
        Declared("float32, bfloat16, float16.", shared.MODEL, decides=True),
    ] = None
    device_map: Annotated[
        str | None,
        Declared("Passed to transformers.", shared.MODEL),
    ] = None
    attn_implementation: Annotated[
        str | None,
        # subtle: a name with a slash is a repository of kernels, whose code transformers runs.
        Declared("Passed to transformers: sdpa, eager, ...", shared.MODEL, typed_only=True),
    ] = None
    quantization: Annotated[
        str | None,
        Declared("8bit or 4bit (bitsandbytes).", shared.MODEL, decides=True),
    ] = None
    trust_remote_code: Annotated[
        bool,
        Declared(
            "Run code from the model's repository; needs --revision.", shared.MODEL, typed_only=True
        ),
    ] = False
    allow_pickle: Annotated[
        bool,
        Declared("Load .bin and .pt weights, which can run code.", shared.MODEL, typed_only=True),
    ] = False
