"""Many machines: prompts are sampled by a pool of Ray workers, each with a model of its own.

``sample`` of ``dataset`` turns a Ray dataset of prompt records into one of sample records;
``sample_parts`` of ``run`` writes part files, which the command line's engine ``ray`` does. Read
``settings`` (what a worker is told), ``worker`` (what it does), ``journal`` (which records end
workers), ``pool`` and ``capacity`` (how many, with what, and what the cluster can have),
``parts`` (the part files and when one is done) and ``far_parts`` (those in object stores), then
these two. ``cluster`` begins and ends Ray, which is itself
(``library``) imported on first use: ``pip install "cdec[ray]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.integrations.ray.dataset import sample as sample
    from cdec.integrations.ray.run import sample_parts as sample_parts

__all__ = ["sample", "sample_parts"]

__getattr__ = exports(__name__, {"sample": "dataset", "sample_parts": "run"})
