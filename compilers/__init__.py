"""Offline: sources -> artifacts. No model, no printing.

Names are imported on first use, so that ``import cdec.compilers`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdec.compilers.grammars.child import ChildCompiler as ChildCompiler
    from cdec.compilers.grammars.child import compile_in_child as compile_in_child
    from cdec.compilers.grammars.compile import compile_grammar as compile_grammar
    from cdec.compilers.grammars.compile_options import GrammarOptions as GrammarOptions
    from cdec.compilers.grammars.definition import GrammarLimits as GrammarLimits
    from cdec.compilers.grammars.report import GrammarReport as GrammarReport
    from cdec.compilers.set_report import SetLimits as SetLimits
    from cdec.compilers.set_report import SetProgress as SetProgress
    from cdec.compilers.set_report import SetReport as SetReport
    from cdec.compilers.sets import compile_set as compile_set
    from cdec.compilers.sets import compile_token_set as compile_token_set

_HOMES = {
    "ChildCompiler": "grammars.child",
    "GrammarLimits": "grammars.definition",
    "GrammarOptions": "grammars.compile_options",
    "GrammarReport": "grammars.report",
    "SetLimits": "set_report",
    "SetProgress": "set_report",
    "SetReport": "set_report",
    "compile_grammar": "grammars.compile",
    "compile_in_child": "grammars.child",
    "compile_set": "sets",
    "compile_token_set": "sets",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'cdec.compilers' has no attribute {name!r}")
    return getattr(import_module(f"cdec.compilers.{_HOMES[name]}"), name)
