"""Grammars in Lark's dialect, read as Lark itself would load them.

Read ``source``, which calls ``outline`` and ``checks`` (before Lark sees the text), Lark,
``loading`` (what Lark loaded) and ``assemble`` over ``expansion`` and ``terminals``. Others import
``source``.
"""
