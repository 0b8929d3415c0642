"""What can be proved of a grammar: every text that is begun can be completed, and spelt.

Read ``decide`` first; ``pending`` is what a lexer still has in hand after a terminal ends. Others
import ``decide`` and ``coverage``.
"""
