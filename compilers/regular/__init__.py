"""Regular sets as values: of strings (patterns, formats, words, lengths) and of numbers.

Read ``automaton`` first, then ``patterns`` and ``strings`` (over ``formats``); ``numbers`` over
``number_sets``, whose texts ``number_texts`` spells by ``number_layout``; ``edges`` lays automata
out for the program of a schema. Patterns are read with the automata of ``grammars``. Nothing here
knows of schemas; others import ``strings``, ``numbers``, ``edges`` and ``formats``.
"""
