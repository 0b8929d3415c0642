"""``cdec trace``: the file of a trace read and checked, shown as a table or a page for a browser.

Read ``command``, ``read``, ``page``. It imports ``frame`` and ``options``; nobody imports it.
"""
