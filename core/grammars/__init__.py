"""Grammars: a compiled grammar as a constraint.

Read ``columns`` (the arrays that the compiler writes, and the loops of the scanner),
``grammar_constraint`` and ``session``, with the engine that owns what ``native/grammars`` makes;
``artifact`` holds a file's columns to what they say, ``validity`` decides finished texts by lark's
parsers alone, ``explain`` says what people are told; ``regular_reach`` with how few tokens a
regular expression's texts may end; ``special`` has the special tokens that terminals are;
``budgets`` how many tokens they may have; how indentation becomes terminals stands in ``indenter``,
how many blanks may follow each other in ``blanks``. ``session`` imports only ``columns`` from here.
Others import ``grammar_constraint``, ``errors``, ``columns``, ``blanks``, ``special`` and
``indenter``.
"""
