"""One deterministic scanner over bytes, made of all terminals.

Read ``contexts`` (which terminals compete where) and ``build``, which calls ``competition``
and ``reach``; ``keywords``, ``ignoring``, ``halving`` and ``overlaps`` change the terminals
beforehand; ``loops`` puts in the copies of counted repetitions that were left out. Others import
``build``, ``contexts``, ``ignoring``, ``halving``, ``overlaps``, ``loops`` and ``reach``.
"""
