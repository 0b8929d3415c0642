"""Grammars: a compiled grammar as a constraint.

Read ``columns`` (the arrays that the compiler writes), ``loops`` (of the scanner),
``grammar_constraint`` and ``session``; ``engine`` owns what ``native/grammars`` makes; ``validity``
decides finished texts by lark's parsers alone. What people are told stands in ``names``,
``state_view`` (a decoding state), ``places`` (where a text leaves the grammar), ``verdicts``,
``explain`` and ``tree_report``; how indentation becomes terminals in ``indenter``. ``engine``
imports only ``columns``, ``loops`` and ``automaton_columns`` from here. Others import
``grammar_constraint``, ``errors``, ``columns``, ``loops`` and ``indenter``.
"""
