"""Other libraries' ways of decoding, under cdec's constraints: thin, on the public surface.

``transformers`` is a logits processor and a ``custom_generate`` for ``model.generate``; ``vllm``
has the processors of vLLM's servers, and ``serving`` what engines' servers share; ``llama_cpp``
reads GGUF models and masks what they write; ``cursors`` follows the texts that engines write,
remembers prefixes, and refuses another tokenizer's constraints. ``records`` turns prompt records
into sample records, ``frames`` those of pandas and polars, ``openai_batch`` requests into
responses; ``findings`` are the papers' tables and figures, computed anew. Each library is imported
by the room that is for it, and nothing is imported here: ``import cdec.integrations`` costs
nothing.
"""
