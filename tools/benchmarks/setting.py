"""How a benchmark runs: its models, their device and dtype, and where its figures go."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdec.integrations.findings.laboratory import EMBEDDED, Laboratory
from tools.benchmarks import report

RESULTS = Path("bench-results")


@dataclass(frozen=True)
class Setting(Laboratory):
    """What the command line of a benchmark says.

    Attributes:
        output: Folder of the JSON files; made when the first is written.
    """

    output: Path = RESULTS

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Setting:
        """Return the setting that parsed arguments give."""
        names = cls.__dataclass_fields__
        given = {name: value for name, value in vars(arguments).items() if name in names}
        return cls(**given)

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
