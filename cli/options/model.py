"""The options about the model, for every command that loads one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options import shared
from cdec.cli.runs.models import EMBEDDED, shown_model
from cdec.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ModelOptions(CommonOptions):
    """Which model, and how it is loaded."""

    allow_special: Annotated[
        bool,
        typer.Option(
            "--allow-special",
            help="Text of special tokens in prompts becomes the token.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = False
    model: shared.ModelOption = None
    revision: shared.RevisionOption = None
    device: Annotated[
        str,
        typer.Option("--device", help="cpu, cuda, cuda:1 or auto.", rich_help_panel=shared.MODEL),
    ] = "cpu"
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", help="float32, bfloat16, float16.", rich_help_panel=shared.MODEL),
    ] = None
    device_map: Annotated[
        str | None,
        typer.Option("--device-map", help="Passed to transformers.", rich_help_panel=shared.MODEL),
    ] = None
    attn_implementation: Annotated[
        str | None,
        typer.Option(
            "--attn-implementation",
            help="Passed to transformers: sdpa, eager, ...",
            rich_help_panel=shared.MODEL,
        ),
    ] = None
    quantization: Annotated[
        str | None,
        typer.Option(
            "--quantization", help="8bit or 4bit (bitsandbytes).", rich_help_panel=shared.MODEL
        ),
    ] = None
    trust_remote_code: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code",
            help="Run code from the model's repository; needs --revision.",
            rich_help_panel=shared.MODEL,
        ),
    ] = False
    allow_pickle: Annotated[
        bool,
        typer.Option(
            "--allow-pickle",
            help="Load .bin and .pt weights, which can run code.",
            rich_help_panel=shared.MODEL,
        ),
    ] = False


def refuse_revision(name: str | None, typed: frozenset[str], *, field: str = "revision") -> None:
    """Refuse to choose a version of what has only one: the embedded models, and folders.

    Args:
        name: The model, as typed.
        typed: Fields that stood on the command line; what ``cdec.toml`` says is for other models.
        field: The option's field.

    Raises:
        UsageError: It was typed.
    """
    if field not in typed:
        return
    is_embedded = shown_model(name) == EMBEDDED
    if is_embedded or Path(str(name)).expanduser().exists():
        found = "the embedded model" if is_embedded else f"{name}, which is on this machine,"
        flag = "--" + field.replace("_", "-")
        raise UsageError(
            f"{flag} chooses a version on the hub, and {found} has one version",
            hint=f"leave {flag} out, or name a model on the hub",
        )
