"""Lookahead: candidates for the next event, greedy rollouts after each, and a reward that picks."""
