"""What a model and a constraint say of given texts: scores, masses, spellings.

Read ``score`` (with ``texts``, ``walk``, ``paths``, ``bracket``), ``mass_estimator`` and
``retokenize``. The command line imports from here; the samplers do not.
"""
