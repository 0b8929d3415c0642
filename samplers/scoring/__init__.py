"""What a model and a constraint say of given texts: scores, masses, classes, spellings.

Read ``score`` (with ``texts``, ``walk``, ``paths``, ``bracket``), ``classify`` (with
``label_trie``, ``label_pass``, ``calibration``, ``classification``), ``mass_estimator`` and
``retokenize``. The command line imports from here; the samplers do not.
"""
