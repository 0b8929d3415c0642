"""Grammars in Lark's dialect, read as Lark itself would load them.

Read ``source``, which calls ``outline`` and ``checks`` (before Lark sees the text; ``word_lists``
are cut out of it), Lark, ``loading`` (what Lark loaded) and ``assemble`` over ``bnf``,
``factoring`` and ``terminals``. Others import ``source``.
"""
