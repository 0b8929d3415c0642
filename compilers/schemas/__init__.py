"""JSON Schema -> program: the columns that ``cdec.core.schemas`` follows texts by.

Read ``compile`` first, the table of contents; then the way of a schema: ``source`` (JSON),
``document`` (its subschemas) and ``references``, ``goals`` (conjunctions of subschemas and of
negated ones), ``expand`` with a file for each group of keywords (a goal becomes the union of
``shapes``), ``satisfiable``, and ``emit`` (shapes become columns).
"""
