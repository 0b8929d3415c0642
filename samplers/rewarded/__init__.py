"""The methods that a reward steers: candidates, rollouts, and what scores best.

``cdlh`` looks ahead with the model, ``cdsl`` with a draft; what they share is in ``lookahead``.
"""
