"""What users are told of methods, said once: help, ``cdec methods`` and the docs read it.

Read ``about``, then ``table``, then ``method``, which is what programs are told as well. It imports
nothing of samplers.
"""
