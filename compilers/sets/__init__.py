"""From a list of entities to a set artifact.

Read ``compile`` (to a file) or ``constraint`` (in memory), then ``job``, which calls the others in
their order: ``source``, ``texts``, ``encode``, ``runs`` and ``sort``, ``assemble``. ``options`` and
``report`` say what goes in and comes out. Others import ``compile``, ``constraint`` and ``report``
through ``cdec.compilers``.
"""
