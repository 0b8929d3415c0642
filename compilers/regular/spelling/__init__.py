"""Sets of rational numbers, and the texts that JSON spells them with.

Read ``sets``, then ``texts``, which lays a set out (``layout``, ``tables``), reads all spellings
symbol by symbol and puts exponents behind them (``powers``); integers that are
``lists`` are words. Others import ``sets`` and ``texts``.
"""
