"""Python types as sources of schemas: what schema a type has, and what value a text becomes.

Read ``kinds`` (what others import). Where pydantic is installed it does both; without it
``standard`` (schemas) and ``values`` (JSON to values) do so for types of the standard library.

A type's reader takes fewer texts than its JSON Schema says. ``refined`` narrows pydantic's schema
by ``texts`` (the table of formats), ``doubles`` (numbers and decimals), ``moments`` (days, times,
durations), ``json_texts`` (JSON within strings) and ``functions`` (validators: what is known of
pydantic's, and the names of all others); ``ranges`` writes bounds as expressions.
"""
