"""What users are told of methods, said once: help, ``cdec methods`` and the docs read it.

Read ``about``, then ``table``. Imports nothing; ``Method.about`` gives a method's entry.
"""
