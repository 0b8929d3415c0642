"""Subterminal trees: how every token splits into terminals, from every state of the scanner.

Read ``build``, then the compiled walk (``walk_kernels``, ``walk_steps``, ``arena``) and what it
writes (``output``, ``tables``, ``assembly``). Others import ``build``.
"""
