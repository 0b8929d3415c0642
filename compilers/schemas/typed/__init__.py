"""Python types as sources of schemas: what schema a type has, and what value a text becomes.

Read ``kinds`` (what others import). Where pydantic is installed it does both; without it
``standard`` (schemas) and ``values`` (JSON to values) do so for types of the standard library.
"""
