"""From a list of entities to a set artifact.

Read ``compile``, which calls the others in their order: ``source``, ``texts``, ``encode``,
``runs`` and ``sort``, ``assemble``. ``options`` and ``report`` say what goes in and comes out.
Others import ``compile`` and ``report`` through ``cdec.compilers``.
"""
