"""Grammars in Lark's dialect, read as Lark itself would load them.

Read ``source``, which calls ``scan`` and ``limits`` (before Lark sees the text), Lark, then
``definitions``, ``templates``, ``bnf``, ``factoring``, ``terminals`` and ``assemble``; ``render``
writes a grammar back as text. Others import ``source`` and ``render``.
"""
