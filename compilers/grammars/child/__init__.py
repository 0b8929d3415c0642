"""Compiling where it can be killed: a preloaded server process that forks once a grammar.

Read ``compiler`` (the parent's side), ``protocol`` and ``server`` (the child's side), which stand
on ``core.child``; ``cache`` keeps the constraints of grammars that come as texts. Others import
``compiler`` and ``cache``.
"""
