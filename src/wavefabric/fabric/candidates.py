"""Lists algorithms to compare for a collective operation on a fabric, and finds which of them can run."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeVar

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.candidates import Candidates, Choice, candidates
from wavefabric.collectives.registry import ALGORITHMS, BY_RAILS, why_refused
from wavefabric.fabric.cost_models.cost import AnyFabric
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import wires
from wavefabric.fabric.photonic.fabric import PhotonicFabric

#: Pieces per chunk to try on a photonic fabric: few, as every round of a pipeline sets up circuits.
PHOTONIC_PIECES = (1, 4)
_T = TypeVar("_T")


def candidates_on(fabric: AnyFabric, collective: str, gpus: Sequence[int], **options: Any) -> Candidates:
    """Return the algorithms to compare for a collective operation whose rank r runs on GPU ``gpus[r]``.

    ``options`` are those of `wavefabric.collectives.candidates.candidates`. Some of the algorithms may lack
    routes on the fabric; `runnable` tells which.
    """
    allowed = f"up to {fabric.ranks}, the GPUs of {fabric.name}"
    ensure(len(gpus) <= fabric.ranks, "ranks", f"{len(gpus)} given", allowed)
    switches = "photonic fabrics have no switch that multicasts and reduces"
    if not isinstance(fabric, PhotonicFabric):
        switches = None if fabric.multicast_switches else f"no switch of {fabric.name} multicasts and reduces"
    else:
        options = {"pieces": PHOTONIC_PIECES} | options
    options = {"switches": switches, "grids": grids_of(fabric, gpus)} | options
    return candidates(collective, len(gpus), **options)


def runnable(compared: Candidates, run: Callable[[Choice], _T]) -> tuple[dict[Choice, _T], dict[str, str]]:
    """Call ``run`` for each choice to compare; return its results, and why other algorithms are left out.

    A choice for which ``run`` raises `InputError` is left out; if all do, the first `InputError` is raised.
    """
    results, failures = {}, {}
    for choice in compared.choices:
        try:
            results[choice] = run(choice)
        except InputError as error:
            failures[choice] = str(error)
    if not results:
        raise InputError(next(iter([*failures.values(), *compared.left_out.values()]), "algorithm: none"))
    return results, compared.without(failures).left_out


def grids_of(fabric: AnyFabric, gpus: Sequence[int]) -> list[tuple[int, ...]]:
    """Return a list with the one grid that ``gpus`` form; the list is empty if they form none.

    It is their grid of nodes (`node_grid`) or, for all GPUs in order, the fabric's own grid (`own_grid`).
    """
    nodes = None if isinstance(fabric, PhotonicFabric) else node_grid(fabric, gpus)
    grid = nodes or (own_grid(fabric) if list(gpus) == list(range(fabric.ranks)) else ())
    return [grid] if grid else []


def node_grid(fabric: Fabric, gpus: Sequence[int]) -> tuple[int, int] | None:
    """Return (nodes, GPUs per node) if ``gpus`` lists nodes of equal size one after the other, else None.

    A node is a set of GPUs that are connected without links of the kind ``"network"``. A single node, and
    nodes of one GPU, give None too.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    w = wires(replace(fabric, links=tuple(link for link in fabric.links if link.kind != "network")))
    size = fabric.ranks + len(fabric.switches)
    graph = csr_array((w.bandwidth, (w.source, w.target)), shape=(size, size))
    node = connected_components(graph)[1][list(gpus)]
    each = int((node == node[0]).sum())
    if node.size % each or not 1 < each < node.size:
        return None
    rows = node.reshape(-1, each)
    alike = (rows == rows[:, :1]).all() and np.unique(rows[:, 0]).size == len(rows)
    return rows.shape if alike else None


def on_rails(choices: Iterable[Choice], grid: tuple[int, int] | None) -> list[Choice]:
    """Return ``choices`` as NCCL has them on a ``grid`` of nodes, if any: rings and trees by each adapter."""
    by_rails = (replace(c, grid=grid) if grid and c.algorithm in BY_RAILS else c for c in choices)
    return list(dict.fromkeys(by_rails))


def algorithm_grid(algorithm: str, ranks: int, fabric: AnyFabric | None) -> tuple[int, ...] | None:
    """Return the value of an algorithm's option ``grid``; None if it has no such option or no grid fits.

    It is (nodes, GPUs per node) or, but for rings and trees, the sides of the grid of tiles, mesh or torus.
    """
    if fabric is None or algorithm not in ALGORITHMS or "grid" not in ALGORITHMS[algorithm].options:
        return None
    light = isinstance(fabric, PhotonicFabric)
    nodes = None if light or ranks > fabric.ranks else node_grid(fabric, range(ranks))
    if algorithm in BY_RAILS:
        return nodes
    grid = nodes or own_grid(fabric)
    if not grid or prod(grid) != ranks or (fabric.ranks != ranks and not nodes):
        return None
    # Some algorithms refuse some grids: squares, for instance, needs sides that are powers of two.
    fits = why_refused(algorithm, ALGORITHMS[algorithm].collectives[0], ranks, grid=grid) is None
    return grid if fits else None


def own_grid(fabric: AnyFabric) -> tuple[int, ...]:
    """Return the side lengths of a fabric that is a single grid (tiles, mesh or torus), else ()."""
    if isinstance(fabric, PhotonicFabric):
        return fabric.rows, fabric.columns
    family = re.fullmatch(r"(?:mesh|torus):(\d+(?:x\d+)*)", fabric.name)
    grid = tuple(map(int, family[1].split("x"))) if family else ()
    return grid if prod(grid) == fabric.ranks else ()
