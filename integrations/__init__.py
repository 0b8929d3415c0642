"""Other libraries' ways of decoding, under cdec's constraints: thin, on the public surface.

``transformers`` is a logits processor for ``model.generate``; ``vllm`` has those of vLLM's servers,
and ``serving`` what engines' servers share. Each file imports the library that it
is for, and nothing is imported here: ``import cdec.integrations`` costs nothing.
"""
