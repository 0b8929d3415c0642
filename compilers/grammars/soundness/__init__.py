"""What can be proved of a grammar: every text that is begun can be completed, and in tokens.

Read ``prove`` first, then ``decide``; ``pending`` (longer matches that a lexer still waits for),
``adjacency`` and ``boundaries`` (what can follow what), ``unhindered`` (the quick proof that most
grammars allow), ``completions`` (how it ends); then
``dead_ends`` and ``coverage``. What is not proved is made so by ``prune``: ``product`` for the
scanner, ``beneath`` and ``split`` for the parse tables, ``example`` to show what is left out.
Others import ``prove``, ``parts`` and ``coverage``.
"""
