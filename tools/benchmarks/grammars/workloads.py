"""The workloads of the shared harness, with Lark grammars for those it gives as schema or regex.

Four more are this project's own (``fresh_workloads``).
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from types import ModuleType
from typing import Any

from tests.shared import shared_folder
from tools.benchmarks.grammars.fresh_workloads import fresh_workloads

_JSON_TERMINALS = r"""
STRING: /"([^"\\\x00-\x1F]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
INTEGER: /-?(0|[1-9][0-9]*)/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
WS: /[ \t\n\r]+/
%ignore WS
"""
_GSM8K = (
    r"""
start: "{" "\"thoughts\"" ":" "[" (thought ("," thought)*)? "]" "," "\"answer\"" ":" INTEGER "}"
thought: "{" "\"step\"" ":" STRING "," "\"calculation\"" ":" STRING "," "\"result\"" ":" NUMBER "}"
"""
    + _JSON_TERMINALS
)
_CONLL = r"""
start: "{" "\"entities\"" ":" "[" (entity ("," entity)*)? "]" "}"
entity: "{" "\"text\"" ":" STRING "," "\"type\"" ":" type "}"
type: "\"PER\"" | "\"LOC\"" | "\"ORG\"" | "\"MISC\""
""" + _JSON_TERMINALS.replace("INTEGER: /-?(0|[1-9][0-9]*)/\n", "").replace(
    "NUMBER: /-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?/\n", ""
)
_TEMPLATE = r"""
start: "Name: " NAME "\nDate: " DATE "\nPhone: " PHONE "\nRating: " RATING "\nComment: " COMMENT END
NAME: /[A-Z][a-z]+( [A-Z][a-z]+)*/
DATE: /[0-9]{4}-[0-9]{2}-[0-9]{2}/
PHONE: /\([0-9]{3}\) [0-9]{3}-[0-9]{4}/
RATING: /[1-5] stars?/
COMMENT: /[^\n]{1,200}/
END: "\n---\n"
"""
_LEXERS = {"c_subset": "dynamic"}
"""subtle: lark's LALR lexers refuse five of the six C documents (they read ``++`` as two BINOPs),
so that grammar is read with every segmentation. XML is not LALR, so it is anyway."""
_WRITTEN = {"gsm8k": _GSM8K, "conll": _CONLL, "template": _TEMPLATE}


@cache
def shared_module(name: str) -> ModuleType:
    """Import a module of the shared harness by its path."""
    folder = shared_folder() / "bench"
    sys.path.insert(0, str(folder))  # its modules import each other
    try:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        if spec is None or spec.loader is None:
            raise FileNotFoundError(folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))


@cache
def workloads() -> dict[str, dict[str, Any]]:
    """Return the workloads by name: ``docs``, ``lark``, ``lexer``, and the peers' own forms."""
    found: dict[str, dict[str, Any]] = shared_module("workloads").WORKLOADS
    shared = {
        name: {"lark": _WRITTEN.get(name), "lexer": _LEXERS.get(name), **load}
        for name, load in found.items()
    }
    return shared | fresh_workloads()
