"""Grammars: a compiled grammar as a constraint.

Read ``columns`` (the arrays that the compiler writes), ``constraint`` and ``session``; ``engine/``
holds the compiled kernels; ``validity`` decides finished texts by lark's parsers alone;
``state_view`` and ``tree_report`` show people what a state or a tree means. ``engine`` imports
only ``columns`` from here. Others import ``constraint``, ``errors`` and ``columns``.
"""
