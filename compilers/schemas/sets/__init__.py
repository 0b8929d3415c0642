"""Sets of JSON values: ``shapes`` are goals (conjunctions of subschemas) and what they are.

Read ``shapes``, then ``expansion`` (the way from a goal to its set; ``products`` and
``discriminators`` keep its alternatives few), ``array_cases`` and ``object_cases`` (shapes that can
be followed by counting), ``at_least`` (numbers of values), ``regexes`` (strings that no automaton
follows) and ``satisfiable``. Others import any of these.
"""
