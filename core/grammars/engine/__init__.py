"""The engine: compiled functions that follow texts with a parser and make exact token masks.

Read ``pointers``, ``fields`` and ``memory`` (the header that all functions share; why there is one:
``cdec.core.kernels``); ``stacks``, ``shifts``, ``levels`` and ``stacks_general`` (the parsers),
``indents`` (the blocks above their stacks); ``readings`` (what the bytes so far can mean); the room
``masks``; ``work`` (how long a call may be), ``allowing``, ``states``, ``kernels`` (what sessions
call), ``addresses`` and ``engine`` (the owner of the memory). Only the room above imports from
here: ``engine``, ``kernels``, ``fields``, ``memory``.
"""
