"""Models of the transformers library behind LanguageModel, and the pool that all of torch's share.

Read ``base``, then ``full_forward`` (no cache), ``pooled`` (a key-value cache by context:
``kv_pool``, ``slot_table``, ``row_buffers``, ``forward_plan``), ``causal`` (that cache as
transformers takes it) and ``encoder_decoder``. Only ``models.wrapping`` and ``models.shipped``
import from here; the last two alone import transformers.
"""
