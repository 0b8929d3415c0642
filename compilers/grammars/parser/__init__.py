"""Parse tables: LALR(1) as lark resolves it, or every action for the generalised parser.

Read ``tables``, which calls ``lr0``, ``lalr`` and ``conflicts``, or ``epsilon_free`` first. Others
import ``tables``.
"""
