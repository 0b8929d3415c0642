"""Constraints in servers of other engines: what an operator allows, what a request asks, masks.

Nothing here knows an engine, and nothing asks where a request came from: an adapter (``vllm``,
``sglang``) gives requests' own words to ``constraints`` and gets masks of ``matcher``. Read
``settings`` (the operator's file, and what a request may ask) first. A request names artifacts and
gives texts; it never names a file, and compiles nothing unless the operator has switched that on.
"""
