"""Parse tables: LALR(1) as lark resolves it, or every action for the generalised parser.

Read ``tables``, which calls ``lr0``, ``lalr`` and ``conflicts``, or ``epsilon_free`` first.
``left_recursion`` and ``differences`` (with ``derivations``) find grammars that LALR tables do not
read; ``characters`` writes the grammar over single characters that checks ``dynamic``. Others
import these, and ``bits`` and ``digraph``.
"""
