"""Token masks as an automaton over the parser's stack.

Read ``store`` (masks in memory), ``partial`` (the parsers above a stack that is not known whole),
``entries``, ``kinds``, ``allowed`` and ``stepping`` (what a state of the automaton holds),
``automaton`` (its steps), ``indented`` (its beginning above open blocks), ``restored`` (what an
artifact has of it), ``wide`` (stacks that it does not read) and ``masks`` (of readings). The room
above imports ``masks``, ``automaton``, ``partial``, ``restored`` and ``store``.
"""
