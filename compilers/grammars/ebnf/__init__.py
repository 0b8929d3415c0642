"""Grammars written with ``::=`` (EBNF, GBNF).

Read ``read``, which calls ``lex``, ``parse``, ``order`` and ``lower``; ``regular`` and ``rules``
are what ``lower`` writes into. Others import ``read``.
"""
