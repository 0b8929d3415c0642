"""The engine: compiled kernels that move stacks of parser states and make exact masks.

Read ``memory`` and ``fields`` (what the kernels share), ``stacks`` and ``shifts`` (the parsers),
``readings`` (what the bytes so far can mean), ``trees``, ``masks`` and ``shapes`` (masks),
``states``, and last ``kernels`` (the entry points) and ``engine`` (who calls them). Only the
sessions of the room above import ``engine`` and ``kernels``.
"""
