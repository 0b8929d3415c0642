"""Sets of JSON values: ``goals`` (conjunctions of subschemas and of negated ones), ``shapes`` (what
a goal is, one level deep), ``expansion`` (the way from one to the other; ``products``,
``inclusion``, ``discriminators`` and ``meanings`` keep its alternatives few), ``array_cases`` with
``sharing``, and ``object_cases`` (shapes that can be followed by counting), ``satisfiable``.
"""
