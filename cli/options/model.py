"""Options of the model, and of the distribution that texts are drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from cdec.cli.frame.declaration import option
from cdec.cli.options import shared
from cdec.cli.options.shared import METHOD
from cdec.samplers.request import MAX_NEW_TOKENS

temperature_option = partial(option, 1.0, "Divides the logits.", METHOD, decides=True, common=True)


@dataclass(frozen=True, kw_only=True)
class WarpingOptions:
    """Options that warp the model's distribution."""

    temperature: float = temperature_option()
    top_k: int | None = option(None, "Keep the k best tokens.", METHOD, decides=True)
    top_p: float | None = option(
        None, "Keep the best tokens up to this mass.", METHOD, decides=True
    )


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """Options of drawing texts for prompts."""

    seed: int = option(
        0, "Of every random draw.", METHOD, at_least=0, at_most=math.inf, decides=True, common=True
    )
    max_new_tokens: int | None = option(
        None,
        "Longest text, tokens; the longest member for sets, else 256.",
        METHOD,
        at_least=MAX_NEW_TOKENS.at_least,
        decides=True,
        common=True,
    )
    batch_size: int = option(
        16, "Prompts decoded together; results come batch by batch.", METHOD, at_least=1
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of the model and its loading."""

    allow_special: bool = option(
        False, "Text of special tokens in prompts becomes the token.", shared.PROMPTS, decides=True
    )
    chat: bool = option(
        False,
        "Put prompts that are texts into the model's chat template. The embedded model has one "
        "for questions, and bare questions go into it unasked.",
        shared.PROMPTS,
    )
    raw: bool = option(False, "Leave all prompts that are texts as they are typed.", shared.PROMPTS)
    template_args: str | None = option(
        None,
        "What the chat template is told beside messages, as an object of JSON, such as "
        "'{\"enable_thinking\": false}'; a record's `chat_template_kwargs` go before.",
        shared.PROMPTS,
        metavar="JSON",
        decides=True,
    )
    model: str | None = shared.model_option()
    revision: str | None = shared.revision_option()
    device: str = option("cpu", "cpu, cuda, cuda:1 or auto.", shared.MODEL, common=True)
    dtype: str | None = option(None, "float32, bfloat16, float16.", shared.MODEL, decides=True)
    device_map: str | None = option(None, "Passed to transformers.", shared.MODEL)
    # subtle: a name with a slash is a repository of kernels, whose code transformers runs.
    attn_implementation: str | None = option(
        None, "Passed to transformers: sdpa, eager, ...", shared.MODEL, typed_only=True
    )
    quantization: str | None = option(
        None, "8bit or 4bit (bitsandbytes).", shared.MODEL, decides=True
    )
    trust_remote_code: bool = option(
        False,
        "Run code from the model's repository; needs --revision.",
        shared.MODEL,
        typed_only=True,
    )
    allow_pickle: bool = option(
        False, "Load .bin and .pt weights, which can run code.", shared.MODEL, typed_only=True
    )
    compile: bool = option(
        False,
        "Compile the decoding step (torch.compile; CUDA graphs on a device; Llama's family): a "
        "minute on few cores, repaid after some 50,000 tokens.",
        shared.MODEL,
    )
    prefix_cache: int = option(
        0,
        "Megabytes of keys and values kept of prompts that are done, so that later ones that begin "
        "alike are read from there on.",
        shared.MODEL,
        at_least=0,
        at_most=math.inf,
    )
