"""Records that go out: one write a record, a manifest beside them, and what a resumed run finds.

Read ``writer``, ``manifest`` and ``resume``. Others import ``writer``.
"""
