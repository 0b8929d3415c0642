"""Many machines: prompts are sampled by a pool of Ray workers, each with a model of its own.

``BatchSampler`` of ``batches`` is a class for a dataset's ``map_batches``, ``sample`` of ``run``
gives it a pool of workers that may die, and ``sample_parts`` writes part files, which the command
line's engine ``ray`` does. Read ``settings`` (what a worker is told), ``worker`` (what it does),
``cluster`` (begun and ended; how many workers, with what), ``batches``, ``parts`` (the part files
and when one is done) and ``far_parts`` (those in object stores), then ``run``. Ray itself is
imported on first use: ``pip install "cdec[ray]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.integrations.ray.batches import BatchSampler as BatchSampler
    from cdec.integrations.ray.run import sample as sample
    from cdec.integrations.ray.run import sample_parts as sample_parts

__all__ = ["BatchSampler", "sample", "sample_parts"]

__getattr__ = exports(__name__, {"BatchSampler": "batches", "sample": "run", "sample_parts": "run"})
