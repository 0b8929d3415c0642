"""Tabular models whose scores lie on a torch device, and the devices that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary

DEVICES = ["torch:cpu", *["cuda"] * torch.cuda.is_available()]


class Tables(TabularModel):
    """A tabular model whose scores are tensors of a device."""

    def __init__(self, probabilities: Any, vocabulary: Vocabulary, device: str) -> None:
        super().__init__(probabilities, vocabulary)
        self.device = device

    def _forward(self, nodes: NDArray[np.int64]) -> Any:
        return torch.tensor(super()._forward(nodes)).to(self.device.removeprefix("torch:"))


def table(probabilities: Any, vocabulary: Vocabulary, device: str) -> TabularModel:
    """Return a model of these probabilities on the host or on a device."""
    if device == "cpu":
        return TabularModel(probabilities, vocabulary)
    return Tables(probabilities, vocabulary, device)
