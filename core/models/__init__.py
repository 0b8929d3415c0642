"""Language models: batched log probabilities of next tokens, each distinct prefix evaluated once.

Read ``base`` (LanguageModel) first, then ``tabular``, the smallest model. ``context_tree`` gives
each prefix one id (``id_columns`` are its columns), ``distribution_cache`` and ``prompt_table``
keep what was computed, ``warping`` is temperature, top-k and top-p; ``prompts`` encodes prompts
(``message_marks`` tells what messages say from what a chat template writes);
``loading`` and ``trust`` open a model from a folder or hub name, ``shipped/`` those of the package,
``wrapping`` takes one that is in memory, as one of ``transformers/``; ``fingerprint`` tells models
apart. Others import ``base``, ``tabular``, ``loading``, ``wrapping``, ``warping``, ``prompts`` and
``fingerprint``.
"""
