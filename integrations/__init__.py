"""Other libraries' ways of decoding, under cdec's constraints: thin, on the public surface.

``transformers`` is a logits processor for ``model.generate``. Each file imports the library that it
is for, and nothing is imported here: ``import cdec.integrations`` costs nothing.
"""
