"""Token masks as an automaton over the parser's stack.

Read ``store`` (masks in memory), ``partial`` (the parsers above a stack that is not known whole),
``trees`` and ``roots`` (of what a list is), ``found``, ``stepping`` and ``going_on`` (what a list
that waits comes to above an LR state), ``automaton`` (its steps), ``allowed``, ``indented`` (its
beginning above open blocks), ``wide`` (stacks that it does not read) and ``masks`` (of readings).
The room above imports ``masks``, ``automaton``, ``going_on``, ``indented``, ``partial`` and
``store``.
"""
