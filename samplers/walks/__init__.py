"""Lockstep decoding: many walks from their prompts to their ends, one model evaluation a step.

Read ``batch`` (requests opened against a model), ``frontier`` (where the walks stand), ``step``,
``events`` (which event is next), ``decoding`` (the loop), ``candidates`` and ``outcome`` (what
came of it). Every sampler imports from here; of samplers it imports only ``request``,
``loops`` and ``learning.tree``.
"""
