"""One run of ``cdec classify``: its labels, its prompts, its records, rows or table.

Read ``run``, then ``labels`` (where labels come from) and ``shown`` (how results are written).
"""
