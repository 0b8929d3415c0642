"""What can be proved of a grammar: every text that is begun can be completed, and in tokens.

Read ``decide`` first; ``pending`` (longer matches that a lexer still waits for), ``adjacency`` and
``boundaries`` (what can follow what), ``completions`` (how it ends); then ``dead_ends`` and
``coverage``. Others import ``decide`` and ``coverage``.
"""
