"""Cost of an all-reduce that is built, proved and given circuits, as latency and seconds a byte."""

from __future__ import annotations

from typing import Any

from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.photonic.fabric import PhotonicFabric


def affine(
    algorithm: str, fabric: Fabric | PhotonicFabric, sharing: str = "even", **options
) -> dict[str, Any]:
    """Latency and seconds a byte of an all-reduce that is built, proved, given circuits, and costed.

    Parameters
    ----------
    algorithm : str
        Of `wavefabric.collectives.registry.ALGORITHMS`.
    fabric : Fabric or PhotonicFabric
    sharing : {"even", "paper"}
        Lasers of a tile among its peers.
    **options
        Of the algorithm.
    """
    from wavefabric.collectives.registry import build
    from wavefabric.collectives.verify import verify
    from wavefabric.fabric.cost_models.cost import cost
    from wavefabric.fabric.photonic.check import check_plan
    from wavefabric.fabric.photonic.planning import plan_circuits

    elements = (
        2 * fabric.ranks * (options.get("pieces") or 1)
    )  # chunks of the same size, of half an array too
    schedule = build(algorithm, "all-reduce", fabric.ranks, elements, **options)
    verify(schedule)
    circuits: dict[str, Any] = {}
    if isinstance(fabric, PhotonicFabric):
        circuits["plan"] = plan_circuits(schedule, fabric, sharing=sharing)
        check_plan(circuits["plan"], schedule)
    result = cost(schedule, fabric, 1.0, **circuits)
    latency = sum(one.latency + one.reconfiguration for one in result.rounds)
    return {
        "schedule": schedule.name,
        "fabric": result.fabric,
        "rounds": schedule.communication_rounds,
        "parts": sum(one.parts for one in result.rounds),
        "latency": latency,
        "per_byte": sum(one.transfer for one in result.rounds) / elements,
    }
