"""The engine: compiled functions that follow texts with a parser and make exact token masks.

Read ``pointers``, ``fields`` and ``memory`` (the header that all functions share; why there is one:
``cdec.core.kernels``); ``stacks``, ``unions``, ``shifts`` and ``stacks_general`` (the parsers);
``readings`` (what the bytes so far can mean); ``partial`` (the parsers above a stack that is not
known whole), ``trees``, ``entries``, ``stepping`` and ``automaton`` (masks as an automaton over the
stack), ``mask_store`` and ``masks`` (masks); ``states``, ``kernels`` (what sessions call),
``addresses`` and ``engine`` (what owns the memory). Only the room above imports from here:
``engine``, ``kernels``, ``fields``, ``memory``.
"""
