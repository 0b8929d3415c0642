"""Scanner: one deterministic automaton over bytes, made of all terminals.

Read ``competition`` (which terminals compete where) and ``build``; ``division`` changes the
terminals beforehand, ``loops`` puts in copies of counted repetitions afterwards. Others import any
of these.
"""
