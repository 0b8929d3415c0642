"""Constraints in servers of other engines: what an operator allows, what a request asks, masks.

Nothing here knows an engine, and nothing asks where a request came from: an adapter (``vllm``,
``sglang``) gives requests' own words to ``asked``, gets constraints of ``constraints`` and masks of
``rows``. Read ``settings`` (the operator's file) first. A request names artifacts and gives texts;
it never names a file, and compiles nothing unless the operator has switched that on.
"""
