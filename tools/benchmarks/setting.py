"""How a benchmark runs: its models, their device and dtype, and where its figures go."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cdec.core import LanguageModel, load_model
from cdec.data.assets import embedded_model_path
from tools.benchmarks import report

EMBEDDED = "embedded"
RESULTS = Path("bench-results")


@dataclass(frozen=True)
class Setting:
    """What the command line of a benchmark says.

    Attributes:
        model: Folder or hub name of the target; "embedded" is the one that cdec ships.
        draft: The same of the draft.
        device: As in ``load_model``. dtype: as in ``load_model``; None is its default.
        output: Folder of the JSON files; made when the first is written.
    """

    model: str = EMBEDDED
    draft: str = EMBEDDED
    device: str = "cpu"
    dtype: str | None = None
    output: Path = RESULTS

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Setting:
        """Return the setting that parsed arguments give."""
        names = cls.__dataclass_fields__
        given = {name: value for name, value in vars(arguments).items() if name in names}
        return cls(**given)

    @property
    def model_path(self) -> str:
        """Folder or hub name of the target."""
        return _path(self.model, "target")

    def target(self) -> LanguageModel:
        """Return the target; it is loaded once a process."""
        return _load(self.model_path, self.device, self.dtype)

    def proposer(self) -> LanguageModel:
        """Return the draft; it is loaded once a process."""
        return _load(_path(self.draft, "draft"), self.device, self.dtype)

    def seconds(self) -> float:
        """Return a clock: process time on the CPU, elapsed time of finished work elsewhere."""
        if self.device == "cpu":
            return time.process_time()
        import torch

        torch.cuda.synchronize()
        return time.perf_counter()

    def save(self, name: str, figures: Any, **how: object) -> Path:
        """Write ``NAME.json`` with the machine it was measured on, and how."""
        models = {"model": self.model, "device": self.device, "dtype": self.dtype}
        return report.save(self.output / f"{name}.json", figures, **models, **how)


def parser_of(text: str | None, *, has_model: bool = True, has_draft: bool = False) -> Any:
    """Return a parser with the arguments that benchmarks share.

    Args:
        text: The module's docstring, shown as it is.
        has_model: Whether a model is run.
        has_draft: Whether a draft is run beside it.
    """
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if has_model:
        parser.add_argument("--model", default=EMBEDDED, help="folder or hub name of the target")
        parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
        parser.add_argument("--dtype", help="auto, float32, bfloat16, ...")
    if has_draft:
        parser.add_argument("--draft", default=EMBEDDED, help="folder or hub name of the draft")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the JSON files")
    return parser


def _path(name: str, embedded: str) -> str:
    return str(embedded_model_path(embedded)) if name == EMBEDDED else name


@cache
def _load(path: str, device: str, dtype: str | None) -> LanguageModel:
    return load_model(path, device=device, dtype=dtype)
