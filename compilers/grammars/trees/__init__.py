"""Subterminal trees: how every token splits into terminals, from every state of the scanner.

Read ``build``; the walks are compiled (``native/trees``: ``scanner``, ``walks``, ``worker`` and
``forest``). Others import ``build``.
"""
