"""Compiling where it can be killed: a preloaded server process that forks once a source.

Read ``source`` (what can be compiled so, and what a compiler gives for it), ``compiler`` (the
parent's side), ``protocol`` and ``server`` (the child's side), which stand on ``core.child``;
``cache`` keeps the constraints of sources that come as texts, ``again`` compares an artifact with
its source. Compilers import ``source``, ``report`` and ``again``, others ``compiler`` and
``cache``. No compiler is imported here but by the table in ``source``.
"""
