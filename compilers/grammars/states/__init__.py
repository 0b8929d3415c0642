"""What all constructions of automata share: states that are rows of numbers, equal ones once.

Read ``row_store`` (numbering), ``minimise`` with ``minimise_kernels``, and ``copies`` (states that
differ by a count alone). Nothing of the compiler is imported here; others import ``row_store``,
``minimise`` and ``copies``.
"""
