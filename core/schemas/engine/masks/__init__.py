"""Token masks of a schema's states.

Read ``masks``, then ``contents`` (strings that may hold anything), ``walks`` (tries of the
vocabulary), ``possible`` (bytes that need not be tried) and ``repetitions`` (texts that may not
come again). Others import ``masks``.
"""
