"""The engine: what follows texts with a parser and makes exact token masks.

``engine`` owns the object of the compiled library, whose sources are ``native/grammars``; the other
files are of the engine of schemas.
"""
