"""Lookahead: candidates for the next event, greedy rollouts after each, and a reward that picks.

Read ``sampler`` (what ``cdlh``, ``cdlh-approx`` and ``cdsl`` share), ``run`` (the choice among
candidates) and ``rollout``. Only the methods import from here; it imports ``drafts``, ``rewards``
and ``walks``.
"""
