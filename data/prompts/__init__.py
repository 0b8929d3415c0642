"""Records that come in: prompts to be sampled, texts to be scored; their ids and seeds.

Read ``read``, ``record`` and ``fields``; ``templates`` fills prompts, ``seeds`` makes draws
repeatable. Others import ``read``, ``record``, ``seeds`` and ``templates``.
"""
