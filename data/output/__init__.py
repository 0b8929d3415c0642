"""Records that go out: the writer, the manifest beside the file, and resuming what was interrupted.

Read ``writer``, ``manifest`` and ``resume``. Others import ``writer``.
"""
