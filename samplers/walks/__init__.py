"""Lockstep decoding: many walks from their prompts to their ends, one model evaluation a step.

Read ``batch`` (requests opened against a model), ``frontier`` (where the walks stand, and what the
model says there), ``events`` (which event is next), ``decoding`` (the loop), ``candidates`` and
``outcome`` (what came of it), ``mass`` (what candidates say of P(S)). Every sampler imports from
here; of samplers it imports only ``request``, ``loops`` and ``prefix_tree``.
"""
