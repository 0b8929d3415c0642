"""What all constructions of automata share: states that are rows of numbers, equal ones once.

Read ``row_store`` (numbering), ``minimise`` and ``copies`` (states that differ by a count alone);
the loops of the last two are compiled (``native/automata``). Nothing of the compiler is imported
here; others import these three.
"""
