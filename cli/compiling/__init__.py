"""What compile commands do beside compiling: where sources lie, what is up to date, what is next.

Read ``made_from``, then ``in_child``, which takes one source from the command line to its artifact,
and ``many``, which takes several; then ``reading``, ``grammar_source`` and ``next_command``. The
commands import from here; it imports ``runs``, ``options`` and ``frame``.
"""
