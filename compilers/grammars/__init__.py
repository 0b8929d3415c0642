"""Compiler of grammars: text -> Grammar -> scanner, parse tables, subterminal trees -> file.

Read ``compile`` first: its ``build_grammar`` calls the stages in order. ``special`` finds the
special tokens that a text names, ``attributes`` its numbers of tokens, ``source`` reads it in the
dialect that ``options`` names (``lark``, ``ebnf``, ``regex``) into a ``definition.Grammar``;
``blanks`` bounds white space, ``analysis`` removes rules that no text can use; ``parser_choice``
builds the automata of terminals (``automata``, over ``states``) and the tables (``parser``); then
``scanner`` (or ``lookaround``), ``indentation``, ``soundness`` and ``trees``; ``assemble`` lays out
the columns. ``patterns`` is the entry of regular expressions. ``kind`` tells ``compilers.child``,
which runs all of it in a process with limits. Other folders import ``compile``, ``patterns``,
``options`` and ``definition``; ``regular`` imports ``automata``, ``states`` and ``regex``.
"""
