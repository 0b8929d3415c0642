"""What all sides of cdec share: vocabulary, masks, constraints, artifacts, models, samples, errors.

Names are imported on first use, so that ``import cdec.core`` costs nothing that is not needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdec.core.artifact import open_artifact as open_artifact
    from cdec.core.constraint import Constraint as Constraint
    from cdec.core.constraint import Session as Session
    from cdec.core.errors import CdecError as CdecError
    from cdec.core.loading import load_model as load_model
    from cdec.core.mask import allocate_mask as allocate_mask
    from cdec.core.mask import apply_mask as apply_mask
    from cdec.core.model import LanguageModel as LanguageModel
    from cdec.core.sample import Sample as Sample
    from cdec.core.tabular_model import TabularModel as TabularModel
    from cdec.core.vocabulary import Vocabulary as Vocabulary

_HOMES = {
    "open_artifact": "artifact",
    "Constraint": "constraint",
    "Session": "constraint",
    "CdecError": "errors",
    "load_model": "loading",
    "allocate_mask": "mask",
    "apply_mask": "mask",
    "LanguageModel": "model",
    "Sample": "sample",
    "TabularModel": "tabular_model",
    "Vocabulary": "vocabulary",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'cdec.core' has no attribute {name!r}")
    return getattr(import_module(f"cdec.core.{_HOMES[name]}"), name)
