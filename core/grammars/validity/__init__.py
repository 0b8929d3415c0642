"""Verdicts on finished texts by lark's parsers, given in a process that can be killed.

Read ``checker`` (what a constraint asks), ``judge`` (the parent's side of the process, one for all
grammars), ``server`` (the child's side) and ``parsers`` (what lark says of a text). Others import
``checker``, and ``judge`` for its warnings.
"""
