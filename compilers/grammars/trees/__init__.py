"""Subterminal trees: what every token of the vocabulary means at every scanner state.

Read ``build``, ``token_trie``, then the compiled walk (``walk_kernels``, ``walk_steps``,
``arena``) and what it writes (``output``, ``tables``, ``assembly``). Others import ``build`` and
``token_trie``.
"""
