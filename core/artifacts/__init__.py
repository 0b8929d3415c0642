"""Artifacts: one Arrow file each, written whole, verified once, opened as a constraint.

Read ``write``, then ``frame`` (what is checked before Arrow sees a byte), ``digest``, ``contents``,
``read``, ``checks`` (what the kinds check with),
``stored`` (the base of constraints that open from files) and ``kinds``, the one table that says
which constraint a kind of artifact opens as. Others import
``write_artifact``, ``read_artifact``, ``bind_artifact`` and ``open_artifact``, which is both.
"""
