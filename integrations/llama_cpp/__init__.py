"""Under llama.cpp: GGUF vocabularies, a processor for llama-cpp-python, and cdec's methods.

Read ``vocabulary``, then ``processor``, which masks what a model writes by itself, and ``model``,
which is a model for every method. Others import from here.
"""

from cdec.integrations.llama_cpp.model import LlamaCppModel
from cdec.integrations.llama_cpp.processor import ConstraintProcessor
from cdec.integrations.llama_cpp.vocabulary import gguf_vocabulary

__all__ = ["ConstraintProcessor", "LlamaCppModel", "gguf_vocabulary"]
