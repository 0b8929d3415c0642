"""Compilers: from a source to an artifact, or to a constraint in memory, offline, without a model.

Begin with ``compile`` in ``sets``, ``grammars`` or ``schemas``, which do not know each other;
``one_line`` gives sources that are compiled for whatever model draws; ``kinds`` says what a kind of
source brings, ``child`` runs compilers in a process with limits, ``cache`` keeps what they made,
``verify`` compiles artifacts again. Names are imported on first use, so that ``import
cdec.compilers`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.compilers.cache import CacheLimits as CacheLimits
    from cdec.compilers.cache import SourceCache as SourceCache
    from cdec.compilers.child.compiler import ChildCompiler as ChildCompiler
    from cdec.compilers.child.compiler import compile_in_child as compile_in_child
    from cdec.compilers.grammars.compile import compile_grammar as compile_grammar
    from cdec.compilers.grammars.compile import grammar_constraint as grammar_constraint
    from cdec.compilers.grammars.definition import GrammarLimits as GrammarLimits
    from cdec.compilers.grammars.options import GrammarOptions as GrammarOptions
    from cdec.compilers.grammars.options import GrammarReport as GrammarReport
    from cdec.compilers.grammars.patterns import compile_regex as compile_regex
    from cdec.compilers.grammars.patterns import regex_constraint as regex_constraint
    from cdec.compilers.one_line import choices as choices
    from cdec.compilers.one_line import grammar as grammar
    from cdec.compilers.one_line import regex as regex
    from cdec.compilers.one_line import schema as schema
    from cdec.compilers.one_line import spans as spans
    from cdec.compilers.one_line import tools as tools
    from cdec.compilers.schemas.compile import compile_schema as compile_schema
    from cdec.compilers.schemas.opened import schema_constraint as schema_constraint
    from cdec.compilers.schemas.opened import typed as typed
    from cdec.compilers.schemas.options import SchemaLimits as SchemaLimits
    from cdec.compilers.schemas.options import SchemaOptions as SchemaOptions
    from cdec.compilers.schemas.options import SchemaReport as SchemaReport
    from cdec.compilers.sets.compile import compile_set as compile_set
    from cdec.compilers.sets.compile import compile_token_set as compile_token_set
    from cdec.compilers.sets.compile import set_constraint as set_constraint
    from cdec.compilers.sets.corpus import CorpusReport as CorpusReport
    from cdec.compilers.sets.corpus import compile_spans as compile_spans
    from cdec.compilers.sets.corpus import corpus_constraint as corpus_constraint
    from cdec.compilers.sets.options import SetLimits as SetLimits
    from cdec.compilers.sets.options import SetReport as SetReport
    from cdec.compilers.verify import verify_artifact as verify_artifact

__all__ = [
    "CacheLimits",
    "ChildCompiler",
    "CorpusReport",
    "GrammarLimits",
    "GrammarOptions",
    "GrammarReport",
    "SchemaLimits",
    "SchemaOptions",
    "SchemaReport",
    "SetLimits",
    "SetReport",
    "SourceCache",
    "choices",
    "compile_grammar",
    "compile_in_child",
    "compile_regex",
    "compile_schema",
    "compile_set",
    "compile_spans",
    "compile_token_set",
    "corpus_constraint",
    "grammar",
    "grammar_constraint",
    "regex",
    "regex_constraint",
    "schema",
    "schema_constraint",
    "set_constraint",
    "spans",
    "tools",
    "typed",
    "verify_artifact",
]

__getattr__ = exports(
    __name__,
    {
        "CacheLimits": "cache",
        "ChildCompiler": "child.compiler",
        "SourceCache": "cache",
        "GrammarLimits": "grammars.definition",
        "GrammarOptions": "grammars.options",
        "GrammarReport": "grammars.options",
        "SchemaLimits": "schemas.options",
        "SchemaOptions": "schemas.options",
        "SchemaReport": "schemas.options",
        "SetLimits": "sets.options",
        "SetReport": "sets.options",
        "verify_artifact": "verify",
        "compile_grammar": "grammars.compile",
        "compile_regex": "grammars.patterns",
        "regex_constraint": "grammars.patterns",
        "compile_in_child": "child.compiler",
        "choices": "one_line",
        "grammar": "one_line",
        "regex": "one_line",
        "schema": "one_line",
        "spans": "one_line",
        "tools": "one_line",
        "compile_schema": "schemas.compile",
        "schema_constraint": "schemas.opened",
        "typed": "schemas.opened",
        "compile_set": "sets.compile",
        "CorpusReport": "sets.corpus",
        "compile_spans": "sets.corpus",
        "corpus_constraint": "sets.corpus",
        "compile_token_set": "sets.compile",
        "grammar_constraint": "grammars.compile",
        "set_constraint": "sets.compile",
    },
)
