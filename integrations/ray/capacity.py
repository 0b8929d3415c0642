"""Capacity of a cluster: what it has now, and what its autoscaler may still add."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from cdec.integrations.ray.library import ray_library

_STATUS = b"__autoscaling_status"
"""Where Ray's monitor keeps its last report, of a cluster that scales or not."""


def resources() -> dict[str, float]:
    """Return what the cluster has now, by kind."""
    return dict(ray_library().cluster_resources())


def most_of(kind: str) -> float:
    """Return the most of a kind that the cluster can ever have; inf where that cannot be known.

    A cluster with an autoscaler begins with none of what nobody has asked for yet.
    """
    ray_library()
    now = resources().get(kind, 0.0)
    declared = _declared()
    if declared is not None:
        return max(now, float(declared.get(kind, 0)))
    return math.inf if _scales(_report()) else now


def _declared() -> Mapping[str, float] | None:
    """Return what the autoscaler's configuration allows, where Ray knows it."""
    try:
        from ray._private.state import state

        found: Mapping[str, float] | None = state.get_max_resources_from_cluster_config()
    except Exception:
        # subtle: not Ray's public surface, though its own datasets ask so.
        return None
    return found


def _report() -> Mapping[str, Any]:
    """Return the last report of the autoscaler; empty where there is none."""
    try:
        from ray.experimental.internal_kv import _internal_kv_get

        found = json.loads(_internal_kv_get(_STATUS) or b"{}")
    except Exception:
        return {}
    return found if isinstance(found, Mapping) else {}


def _scales(report: Mapping[str, Any]) -> bool:
    """Say whether a report is of an autoscaler that may add machines.

    subtle: one that only looks on makes up a type of its own for each machine, named after it.
    """
    told = report.get("autoscaler_report") or {}
    types = told.get("node_type_mapping") or {}
    return any(kind != f"node_{node}" for node, kind in types.items())
