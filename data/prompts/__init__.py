"""Records that come in: prompts to be sampled, texts to be scored; their ids and shards.

Read ``read``, ``entries``, which opens inputs of every format, ``record`` and ``fields``; ``shard``
splits inputs, ``templates`` fills prompts. Others import ``read``, ``record``, ``shard`` and
``templates``.
"""
