"""The models that ship with the package, computed without the transformers library.

``llama`` is their forward pass in plain torch, ``tokenizer`` encodes their prompts. The same pool
of keys and values stands behind them (``models.transformers.pooled``). Only ``models.loading`` and
``models.wrapping`` import from here.
"""
