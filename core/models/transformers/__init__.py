"""Models of the transformers library behind LanguageModel, and the pool that all of torch's share.

Read ``base`` (with those that keep nothing), ``pooled`` (a key-value cache by context: ``kv_pool``
has the slots and the rows of a pass, ``slot_table`` whose slots they are, ``prefixes`` what prompts
share), ``architectures`` (that cache as transformers takes it). Only ``models.loading`` and
``models.shipped`` import from here; ``architectures`` alone imports transformers.
"""
