"""Vocabulary, masks, constraints, artifacts, models, samples, errors: shared by all of cdec.

Names are imported on first use, so that ``import cdec.core`` costs nothing that is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.core.artifacts.opened import open_artifact as open_artifact
    from cdec.core.combine.free_text import FreeText as FreeText
    from cdec.core.constraint import Constraint as Constraint
    from cdec.core.constraint import Session as Session
    from cdec.core.errors import CdecError as CdecError
    from cdec.core.mask import allocate_mask as allocate_mask
    from cdec.core.mask import apply_mask as apply_mask
    from cdec.core.models.language_model import Chat as Chat
    from cdec.core.models.language_model import LanguageModel as LanguageModel
    from cdec.core.models.loading import load_model as load_model
    from cdec.core.models.tabular import TabularModel as TabularModel
    from cdec.core.sample import Sample as Sample
    from cdec.core.tokens.vocabulary import Vocabulary as Vocabulary

    __version__: str

__all__ = [
    "CdecError",
    "Chat",
    "Constraint",
    "FreeText",
    "LanguageModel",
    "Sample",
    "Session",
    "TabularModel",
    "Vocabulary",
    "__version__",
    "allocate_mask",
    "apply_mask",
    "load_model",
    "open_artifact",
]

__getattr__ = exports(
    __name__,
    {
        "open_artifact": "artifacts.opened",
        "Constraint": "constraint",
        "Session": "constraint",
        "CdecError": "errors",
        "Chat": "models.language_model",
        "FreeText": "combine.free_text",
        "load_model": "models.loading",
        "allocate_mask": "mask",
        "apply_mask": "mask",
        "LanguageModel": "models.language_model",
        "Sample": "sample",
        "TabularModel": "models.tabular",
        "Vocabulary": "tokens.vocabulary",
    },
)
