"""Parse tables: LALR(1) as lark resolves it, or every action for the generalised parser.

Read ``tables``, over ``lalr``. ``shifting`` looks for texts that resolved conflicts lose, by
``derivations``; ``characters`` writes the grammar over single characters that checks ``dynamic``.
Others import any of these.
"""
