"""Texts as a model and a constraint see them: scores, masses, classes, spellings.

Read ``score`` (with ``texts`` and ``paths``), ``classify`` (with ``labels``), ``mass_estimator``,
``retokenize`` and ``trace``. The command line imports from here; the samplers do not.
"""
