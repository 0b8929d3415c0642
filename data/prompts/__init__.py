"""Records that come in: prompts, texts and token ids to be scored, templates, ids and seeds.

Read ``read``, ``record`` and ``fields``; ``templates`` fills prompts, ``ids`` and ``seeds`` make
draws repeatable. Others import ``read``, ``record``, ``seeds`` and ``templates``.
"""
