"""JSON Schema to program: the columns that ``cdec.core.schemas`` follows texts by.

Read ``compile`` first, the table of contents; then the way of a schema: ``source`` (its text),
``document`` (its subschemas; ``drafts`` has the keywords, ``references`` reads other documents),
``sets`` and ``keywords`` (subschemas become sets of values, one level at a time), and ``program``
(sets become columns); ``noted`` is what the report tells. ``typed`` makes schemas of Python types,
``tools`` of definitions of tools. Other folders import ``options``, ``references``, ``report``,
``tools`` and what ``cdec.compilers`` exports.
"""
