"""The options about the model, for every command that loads one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options import shared


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
