"""Records that come in: prompts to be sampled, texts to be scored; templates and places of files.

Read ``read``, ``record`` and ``fields`` (with ``names``), then ``texts``; ``templates`` fills
prompts, ``places`` says which files an input names. Others import ``read``, ``record``, ``texts``,
``places`` and ``templates``.
"""
