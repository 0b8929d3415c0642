"""Constraints made of constraints: both of two, all but some texts, a prompt's cut end healed.

Read ``conjunction/`` first, then ``denial`` and ``healing``, each with a session of its own, and
``restriction``, which asks the same of many constraints. Others import ``conjunction.constraint``,
``denial``, ``healing`` and ``restriction``.
"""
