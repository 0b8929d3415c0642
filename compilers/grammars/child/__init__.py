"""Compiling where it can be killed: a preloaded server process that forks once a grammar.

Read ``compiler`` (the parent's side), ``process``, ``protocol`` and ``server`` (the child's side).
Others import ``compiler``.
"""
