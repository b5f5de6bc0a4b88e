"""Figures 7 and 8 of the LUMORPH paper: time of an all-reduce, from the formulas and from schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wavefabric.bench.lumorph_data import beside, lightpath, points, switch
from wavefabric.fabric import paper
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.paper import MIB, PAPER, PRINTED
from wavefabric.fabric.photonic.fabric import PhotonicFabric

#: Algorithm of each series of figure 7, its options, and whether it runs over circuits.
_SCHEDULES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "Ring": ("ring", {}, False),
    "Tree": ("tree", {}, False),
    "Lumorph-2": ("recursive", {"radix": 2}, True),
    "Lumorph-4": ("recursive", {"radix": 4}, True),
    "D&C": ("squares", {}, True),
}


def figure7(schedules: bool = True, say=lambda line: None) -> dict[str, Any]:
    """All-reduce by size of the array, for 64, 128 and 256 GPUs.

    Parameters
    ----------
    schedules : bool
        Also build each schedule, prove it and cost it round by round.
    say : callable

    Returns
    -------
    dict
        ``series``, from the formulas as printed (µs over MiB); ``schedules``: for each series and number of
        GPUs ``rounds``, ``latency`` (s, with reconfiguration) and ``per_byte`` (s/B), so that a time is
        latency + per_byte · B, and ``us``, the times at the figure's points.
    """
    series, costed = [], []
    for ranks in (64, 128, 256):
        for name, drawn in points(f"fig7-{ranks}").items():
            sizes = [x for x, _ in drawn]
            ours = [1e6 * PRINTED[name](ranks, x * MIB) for x in sizes]
            series.append(beside("7", f"{ranks} GPUs", name, "us", drawn, ours))
            if schedules:
                say(f"figure 7: {name}, {ranks} GPUs")
                found = _affine(name, ranks)
                found["us"] = [1e6 * (found["latency"] + found["per_byte"] * x * MIB) for x in sizes]
                found["printed_latency"] = float(PRINTED[name](ranks, 0.0))
                found["printed_per_byte"] = (PRINTED[name](ranks, 1e9) - found["printed_latency"]) / 1e9
                costed.append({"panel": f"{ranks} GPUs", "series": name, "sizes_mib": sizes} | found)
    return {"series": series, "schedules": costed}


def _affine(name: str, ranks: int) -> dict[str, Any]:
    """Cost of the real schedule; both parts do not depend on the size of the array."""
    algorithm, options, circuits = _SCHEDULES[name]
    fabric = lightpath(ranks) if circuits else switch(ranks)
    if algorithm == "squares":
        options = {"grid": (fabric.rows, fabric.columns)}  # type: ignore[union-attr]
    return affine(algorithm, fabric, sharing="paper", **options)


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
    found = cost(schedule, fabric, 1.0, **circuits)
    latency = sum(one.latency + one.reconfiguration for one in found.rounds)
    return {
        "schedule": schedule.name,
        "fabric": found.fabric,
        "rounds": schedule.communication_rounds,
        "parts": sum(one.parts for one in found.rounds),
        "latency": latency,
        "per_byte": sum(one.transfer for one in found.rounds) / elements,
    }


def figure8() -> dict[str, Any]:
    """All-reduce of 256 GPUs by reconfiguration (a) and by bandwidth of a laser (b), from the formulas.

    Returns
    -------
    dict
        ``series``; and ``reconfiguration``: times over a fine sweep of ρ, with radix 16 and honest laser
        sharing.
    """
    series = []
    for name, drawn in points("fig8a").items():
        ours = [
            1e6 * PRINTED[name](256, paper.BUFFER_8A, replace(PAPER, reconfiguration=ns * 1e-9))
            for ns, _ in drawn
        ]
        series.append(beside("8a", "256 GPUs, 9.41 MiB", name, "us", drawn, ours))
    for name, drawn in points("fig8b").items():
        nbytes = float(name.removesuffix("MB")) * MIB
        ours = [1e6 * paper.lumorph2(256, nbytes, replace(PAPER, bandwidth=16 * x * 2**30)) for x, _ in drawn]
        series.append(beside("8b", "256 GPUs, Lumorph-2", name, "us", drawn, ours))
    return {"series": series, "sweep": _sweep()}


def _sweep() -> dict[str, Any]:
    """Time by reconfiguration delay, on a fine grid, for what the paper draws and for what it leaves out."""
    delays = [0.0] + [10 ** (-9 + exponent / 10) for exponent in range(51)]
    buffer = paper.BUFFER_8A
    lines: dict[str, list[float]] = {}
    for delay in delays:
        numbers = replace(PAPER, reconfiguration=delay)
        times = {
            "ring, ideal switch": paper.ring(256, buffer),
            "recursive halving/doubling, ideal switch": paper.recursive(256, buffer, paper.SWITCH),
            "Lumorph-2": paper.lumorph2(256, buffer, numbers),
            "Lumorph-4": paper.lumorph4(256, buffer, numbers),
            "radix 4, 5 lasers a peer": paper.recursive(256, buffer, numbers, 4),
            "radix 16": paper.recursive(256, buffer, numbers, 16),
        }
        for name, seconds in times.items():
            lines.setdefault(name, []).append(1e6 * seconds)
    return {"seconds": delays, "us": lines}
