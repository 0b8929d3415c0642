"""Records that go out: the writer, the manifest beside the file, and resuming what was interrupted.

Read ``writer``, ``manifest`` and ``resume``; ``terminal`` is for what people look at. Others import
``writer`` and ``terminal``.
"""
