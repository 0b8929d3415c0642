"""Language models: batched log probabilities of next tokens, each distinct prefix evaluated once.

Read ``base`` (LanguageModel) first, then ``tabular``, the smallest model; ``context_tree`` interns
prefixes, ``distribution_cache`` keeps what was computed, ``warping`` is temperature, top-k and
top-p; ``prompts`` encodes prompts; ``loading`` and ``trust`` open a model from a folder or hub
name. Others import ``base``, ``tabular``, ``loading``, ``warping`` and ``prompts``.
"""
