"""Under transformers: a processor for its own searches, and cdec's methods behind ``generate``.

Read ``processor`` first, which masks what ``model.generate`` writes by itself; then ``generate``,
which is handed to it as ``custom_generate`` (``call`` reads what it was given, ``modules`` makes
language models of modules). Others import from here.
"""

from cdec.integrations.transformers.generate import (
    ConstrainedOutput,
    ConstrainedPairOutput,
    generate,
)
from cdec.integrations.transformers.modules import model_vocabulary
from cdec.integrations.transformers.processor import ConstraintProcessor

__all__ = [
    "ConstrainedOutput",
    "ConstrainedPairOutput",
    "ConstraintProcessor",
    "generate",
    "model_vocabulary",
]
