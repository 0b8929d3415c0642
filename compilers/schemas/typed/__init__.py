"""Python types as sources of schemas: what schema a type has, and what value a text becomes.

Read ``kinds`` (what others import). Where pydantic is installed it does both; without it
``standard`` does so for types of the standard library.

A type's reader takes fewer texts than its JSON Schema says. ``refined`` narrows pydantic's schema
by ``texts`` (the table of formats; validators: what is known of pydantic's, and the names of all
others), ``numbers`` (integers, doubles, decimals), ``moments`` (days, times, durations) and
``json_texts`` (JSON within strings).
"""
