"""Parts: what a grammar consists of when it is compiled, before its tokens."""

from __future__ import annotations

from typing import NamedTuple

from cdec.compilers.grammars.definition import Grammar
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.scanner.build import Scanner
from cdec.compilers.grammars.scanner.contexts import Contexts


class Parts(NamedTuple):
    """A grammar with all that was made of it; trees and columns are made of these four."""

    grammar: Grammar
    contexts: Contexts
    scanner: Scanner
    tables: ParseTables
