"""Models of the transformers library behind LanguageModel.

Read ``base``, then ``full_forward`` (no cache), ``causal`` (a key-value cache by context:
``kv_pool``, ``slot_table``, ``row_buffers``, ``forward_plan``) and ``encoder_decoder``. Only
``models.wrapping`` imports from here.
"""
