"""Sets of JSON values: ``goals`` (conjunctions of subschemas and of negated ones), ``shapes`` (what
a goal is, one level deep), ``expansion`` (the way from one to the other, with ``discriminators``),
``array_cases`` and ``object_cases`` (shapes that can be followed by counting), ``satisfiable``.
"""
