"""Grammars written with ``::=`` (EBNF, GBNF).

Read ``read``, which calls ``parse`` (over the tokens of ``lex``) and ``lower``, which joins what is
regular by the algebra of ``regular``. Others import ``read``.
"""
