"""From a list of entities to a set artifact.

Read ``compile``, then ``job``, which calls the others in their order: ``source``, ``texts``,
``encode``, ``runs`` and ``sort``, ``assemble``. ``options`` says what goes in and comes out,
``kind`` how an artifact is verified. Others import ``compile`` and ``options``.
"""
