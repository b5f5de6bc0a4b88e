"""Benchmark ``lumorph``: the figures of the LUMORPH paper, recomputed, and what they leave out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wavefabric.bench import lumorph_baselines, lumorph_routes, lumorph_times
from wavefabric.bench.lumorph_claims import claims
from wavefabric.bench.lumorph_plot import plot
from wavefabric.bench.lumorph_report import table
from wavefabric.device import get_device
from wavefabric.errors import InputError
from wavefabric.execution import measure

__all__ = ["FIGURES", "plot", "run", "table"]

#: Figures of the paper, and two that it does not have.
FIGURES = ("3", "5", "6", "7", "8", "radix", "baselines")


def run(
    figures: Sequence[str] = FIGURES, seeds: int = 1000, progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Recompute figures, and set them beside the paper's numbers.

    Parameters
    ----------
    figures : sequence of str
        Of `FIGURES`.
    seeds : int
        Draws of random routes (figures 5 and 6).
    progress : callable, optional

    Returns
    -------
    dict
        ``figures``, by name, each as its function gives it (`figure3` and others in
        `wavefabric.bench.lumorph_routes`, `wavefabric.bench.lumorph_times`,
        `wavefabric.bench.lumorph_baselines`), and ``claims`` (`wavefabric.bench.lumorph_claims.claims`).

    Raises
    ------
    InputError
        If a figure is unknown, or there are no draws.
    """
    say = progress or (lambda line: None)
    unknown = [name for name in figures if name not in FIGURES]
    if unknown or not figures:
        raise InputError(f"--figures: {', '.join(unknown) or 'none'} given; allowed: {', '.join(FIGURES)}")
    if seeds < 1:
        raise InputError(f"--seeds: {seeds} given; allowed: at least 1")
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "3": lambda: lumorph_routes.figure3(say),
        "5": lambda: lumorph_routes.figure5(seeds, say),
        "6": lambda: lumorph_routes.figure6(seeds, say),
        "7": lambda: lumorph_times.figure7(say=say),
        "8": lumorph_times.figure8,
        "radix": lambda: lumorph_baselines.radix(say),
        "baselines": lambda: lumorph_baselines.baselines(say),
    }
    found = {name: makers[name]() for name in FIGURES if name in figures}
    return {
        "benchmark": "lumorph",
        "seeds": seeds,
        "figures": found,
        "claims": claims(found),
        "machine": measure.machine(get_device("cpu")),
    }
