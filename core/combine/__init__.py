"""Constraints made of constraints: both of two, all but some texts, a prompt's cut end healed.

Read ``conjunction/`` first, then ``denial`` and ``healing``; each has a session of its own, which
``prefill``, texts that begin with a given one, shares with ``healing``. ``wrapped`` is a base for
constraints that change another one; ``restriction`` applies conjunction and denial to many
constraints alike; ``pair_table`` numbers pairs of states. Others import
``conjunction.constraint``, ``denial``, ``healing``, ``prefill``, ``restriction`` and ``wrapped``.
"""
