"""Benchmark ``local-error``: what the local Fourier basis costs in accuracy, by overlap and bell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.acoustics.build import make_stages
from wavefabric.acoustics.parallel.decomposition import Options, decompose
from wavefabric.acoustics.parallel.window import WINDOWS
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.step import Step
from wavefabric.bench.local_error_report import plot, table
from wavefabric.bench.ultrasound_cases import MEDIA, problem
from wavefabric.bench.ultrasound_shared import check, check_memory, even_grid
from wavefabric.errors import InputError
from wavefabric.exchange import Communicator
from wavefabric.execution.ranks import Ranks

__all__ = ["OVERLAPS", "plot", "run", "table"]

OVERLAPS = (2, 4, 8, 16, 32)
#: Points of a block along a cut axis, more than two overlaps: a widened block is then not the grid again; and
#: of the other axes.
_CUT, _UNCUT = 80, 32
#: Standard deviation of the initial pressure in points: its spectrum ends at 10⁻¹⁹ of its height.
_BALL = 3.0


def run(
    ranks: Ranks,
    shape: tuple[int, int, int] | None = None,
    overlaps: Sequence[int] = OVERLAPS,
    bells: Sequence[str] = WINDOWS,
    media: Sequence[str] = MEDIA,
    grid: tuple[int, int, int] | None = None,
    steps: int = 150,
    precision: str = "double",
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run a problem with every overlap and bell, and compare with one Fourier basis on one rank; collective.

    A Gaussian pressure ball in the middle of the grid, where blocks meet, spreads over them.

    Parameters
    ----------
    ranks : Ranks
    shape : tuple of int, optional
        (Nx, Ny, Nz). By default 80 points a block along the axes that are cut, and 32 along others.
    overlaps : sequence of int
    bells : sequence of str
        Of `wavefabric.acoustics.parallel.window.WINDOWS`.
    media : sequence of {"homogeneous", "heterogeneous"}
        Uniform and lossless; or everything at once: arrays full, absorbing, nonlinear.
    grid : tuple of int, optional
        Blocks along x, y and z; as nearly alike as can be by default.
    steps : int
        Time steps, of a Courant number of 0.3: a wave travels 0.3 points in each.
    precision : {"double", "single"}
    progress : callable, optional

    Returns
    -------
    dict
        ``cases``, one for each medium, bell and overlap, with ``l2`` = ‖p − p_ref‖₂/‖p_ref‖₂ and ``max`` =
        max|p − p_ref|/max|p_ref| after the last step.

    Raises
    ------
    InputError
        If an option is not allowed, or blocks are shorter than an overlap.
    """
    say = progress or (lambda line: None)
    grid = grid or even_grid(ranks.size)
    if shape is None:
        x, y, z = (_CUT * blocks if blocks > 1 else _UNCUT for blocks in grid)
        shape = x, y, z
    check([shape], media, precision, 1)
    if steps < 2:
        raise InputError(f"steps: {steps} given; allowed: at least 2")
    options = [Options("local", grid, overlap, bell) for bell in bells for overlap in overlaps]
    for one in options:
        for medium in media:
            check_memory(ranks, medium, shape, precision, one)
    dtype = np.float64 if precision == "double" else np.float32
    cases = []
    for medium in media:
        given = replace(problem(medium, shape, steps, precision), initial_pressure=_ball(shape, dtype))
        say(f"{medium}: one rank")
        reference = _alone(ranks, given, dtype)
        for one in options:
            say(f"{medium}: {one.bell}, overlap {one.overlap}")
            l2, most = _errors(ranks.base, given, dtype, one, reference)
            cases.append({"medium": medium, "bell": one.bell, "overlap": one.overlap, "l2": l2, "max": most})
    return {
        "benchmark": "local-error",
        "ranks": ranks.size,
        "shape": list(shape),
        "grid": list(grid),
        "steps": steps,
        "precision": precision,
        "cases": cases,
        "machine": ranks.machine(),
    }


def _ball(shape, dtype) -> np.ndarray:
    """1 MPa in the middle of the grid, (Nz, Ny, Nx)."""
    z, y, x = (np.exp(-0.5 * ((np.arange(n) - n // 2) / _BALL) ** 2) for n in shape[::-1])
    return (1e6 * z[:, None, None] * y[:, None] * x).astype(dtype)


def _stepped(comm: Communicator | None, device, given: Problem, dtype, options: Options | None):
    """p after all steps, on this rank's device, and how ranks share the grid."""
    shared = decompose(given.shape, comm.size, options) if comm is not None else None
    step = Step(stages := make_stages(device, given, dtype, comm=comm, decomposition=shared))
    for number in range(given.steps):
        step.take(number)
    stages.finish_exchanges()
    return stages.fields.p, shared


def _alone(ranks: Ranks, given: Problem, dtype) -> np.ndarray:
    """p of one rank after all steps, on the host of every rank."""
    p = None
    if ranks.rank == 0:
        p = ranks.device.to_host(_stepped(None, ranks.device, given, dtype, None)[0]).copy()
    return ranks.control.bcast(p)


def _errors(comm, given: Problem, dtype, options: Options, reference: np.ndarray) -> tuple[float, float]:
    p, shared = _stepped(comm, comm.device, given, dtype, options)
    part = shared.subdomains[comm.rank]  # type: ignore[union-attr]
    mine = comm.device.to_host(p)[part.owned].astype(np.float64)
    starts = part.owned_first[::-1]
    place = tuple(slice(s, s + n) for s, n in zip(starts, mine.shape, strict=True))
    apart = mine - reference[place]
    control = comm.control
    l2 = math.sqrt(control.sum(float((apart * apart).sum()))) / float(np.linalg.norm(reference))
    return l2, float(control.max(float(abs(apart).max()))) / float(abs(reference).max())
