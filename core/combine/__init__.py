"""Constraints made of constraints: both of two, all but some texts, a prompt's cut end healed.

Read ``conjunction/`` first, then ``denial`` and ``healing``; each has a session of its own. Others
import ``conjunction.constraint``, ``denial`` and ``healing``.
"""
