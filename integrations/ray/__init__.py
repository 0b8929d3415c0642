"""Many machines: prompts are sampled by a pool of Ray workers, each with a model of its own.

``sample`` of ``run`` turns a Ray dataset of prompt records into one of sample records, and
``sample_parts`` writes part files, which the command line's engine ``ray`` does. Read ``settings``
(what a worker is told), ``worker`` (what it does), ``cluster`` (begun and ended; how many workers,
with what), ``parts`` (the part files and when one is done) and ``far_parts`` (those in object
stores), then ``run``. Ray itself is imported on first use: ``pip install "cdec[ray]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.integrations.ray.run import sample as sample
    from cdec.integrations.ray.run import sample_parts as sample_parts

__all__ = ["sample", "sample_parts"]

__getattr__ = exports(__name__, {"sample": "run", "sample_parts": "run"})
