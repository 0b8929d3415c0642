"""Language models: batched log probabilities of next tokens, each distinct prefix evaluated once.

Read ``language_model`` (what samplers need) first, then ``base`` (TreeModel, which all kinds of
model are) and ``tabular``, the smallest. ``context_tree`` gives each prefix one id,
``distribution_cache`` keeps what was computed, ``warping`` is temperature, top-k and top-p;
``prompts`` encodes prompts, ``chat_templates`` renders those that are chats; ``loading`` makes a
model of a folder, a hub name or a module that is in memory: of ``repository`` what may be loaded,
``shipped`` the package's own, ``transformers/`` all others. Others import all but ``repository``,
``shipped`` and ``transformers/``.
"""
