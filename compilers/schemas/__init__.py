"""JSON Schema -> program: the columns that ``cdec.core.schemas`` follows texts by.

Read ``compile`` first, the table of contents; then the way of a schema: ``reading`` (its text
becomes subschemas), ``sets`` and ``keywords`` (subschemas become sets of values, one level at a
time), and ``program`` (sets become columns). ``typed`` makes schemas of Python types.
"""
