"""Models of the transformers library behind LanguageModel, and the pool that all of torch's share.

Read ``base`` (with those that keep nothing), ``pooled`` (a key-value cache by context, in the slots
of ``kv_pool``), ``architectures`` (that cache as transformers takes it). Only ``models.loading``
and ``models.shipped`` import from here; ``architectures`` alone imports transformers.
"""
