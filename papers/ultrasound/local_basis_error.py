"""Error of the local Fourier basis by overlap and window, as posters of k-Wave's authors show it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.rank_steps import RankSteps, even_grid
from benchmarks.ultrasound_breakdown import parse_blocks, parse_overlaps
from papers.common import DeviceName, Json, Output, Plot, Threads, log2_ticks, run, show, start_ranks
from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.decomposition.window import WINDOWS
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.step import Step
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import GREY
from wavefabric.cli.bench.app import parse_media, parse_points
from wavefabric.cli.bench.ultrasound_cases import MEDIA, problem
from wavefabric.cli.common.options import option
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.show import status_line
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.runtime.exchange.communicator import Communicator

#: What the posters aim at.
_AIM = 1e-3

OVERLAPS = (2, 4, 8, 16, 32)
#: Points of a block along a cut axis, more than two overlaps: a widened block is then not the grid again; and
#: of the other axes.
_CUT, _UNCUT = 80, 32
#: Standard deviation of the initial pressure in points: its spectrum ends at 10⁻¹⁹ of its height.
_BALL = 3.0


def measure(
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
        Of `wavefabric.acoustics.decomposition.window.WINDOWS`.
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
    checked = RankSteps(ranks, [shape], media, precision, 1)
    if steps < 2:
        raise InputError(f"steps: {steps} given; allowed: at least 2")
    options = [Decomposition("local", grid, overlap, bell) for bell in bells for overlap in overlaps]
    for one in options:
        for medium in media:
            checked.check_memory(medium, shape, one)
    dtype = np.float64 if precision == "double" else np.float32
    cases = []
    for medium in media:
        inputs = replace(problem(medium, shape, steps, precision), initial_pressure=_ball(shape, dtype))
        say(f"{medium}: one rank")
        reference = _on_one_rank(ranks, inputs, dtype)
        for one in options:
            say(f"{medium}: {one.bell}, overlap {one.overlap}")
            l2, most = _errors(ranks.base, inputs, dtype, one, reference)
            cases.append({"medium": medium, "bell": one.bell, "overlap": one.overlap, "l2": l2, "max": most})
    return {
        "benchmark": "local_basis_error",
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


def _stepped(comm: Communicator | None, device, inputs: Problem, dtype, options: Decomposition | None):
    """p after all steps, on this rank's device, and how ranks share the grid."""
    shared = decompose(inputs.shape, comm.size, options) if comm is not None else None
    step = Step(stages := make_stages(device, inputs, dtype, comm=comm, decomposition=shared))
    for number in range(inputs.steps):
        step.take(number)
    stages.layout.finish_exchanges()
    return stages.fields.p, shared


def _on_one_rank(ranks: Ranks, inputs: Problem, dtype) -> np.ndarray:
    """p of one rank after all steps, on the host of every rank."""
    p = None
    if ranks.rank == 0:
        p = ranks.device.to_host(_stepped(None, ranks.device, inputs, dtype, None)[0]).copy()
    return ranks.control.bcast(p)


def _errors(
    comm, inputs: Problem, dtype, options: Decomposition, reference: np.ndarray
) -> tuple[float, float]:
    p, shared = _stepped(comm, comm.device, inputs, dtype, options)
    part = shared.subdomains[comm.rank]  # type: ignore[union-attr]
    mine = comm.device.to_host(p)[part.owned].astype(np.float64)
    starts = part.owned_first[::-1]
    block = tuple(slice(s, s + n) for s, n in zip(starts, mine.shape, strict=True))
    difference = mine - reference[block]
    control = comm.control
    l2 = math.sqrt(control.sum(float((difference * difference).sum()))) / float(np.linalg.norm(reference))
    return l2, float(control.max(float(abs(difference).max()))) / float(abs(reference).max())


def _title(result: dict[str, Any]) -> str:
    shape, grid = (report.shape_words(result[key]) for key in ("shape", "grid"))
    return f"{shape} in {grid} blocks, {result['steps']} steps, {result['precision']} precision"


def table(result: dict[str, Any]) -> list:
    """A table a medium: errors by bell and overlap."""
    tables = []
    overlaps = report.distinct(result["cases"], "overlap")
    for medium in report.distinct(result["cases"], "medium"):
        cases = [case for case in result["cases"] if case["medium"] == medium]
        rows = []
        for bell in report.distinct(cases, "bell"):
            mine = (case for case in cases if case["bell"] == bell)
            rows.append([bell, *(f"{_number(case['l2'])}, {_number(case['max'])}" for case in mine)])
        columns = ("<bell", *(f"overlap {overlap}" for overlap in overlaps))
        caption = "relative error of p against one rank: L2, and largest"
        tables.append(report.table(f"{medium}: {_title(result)}", columns, rows, caption))
    return tables


def _number(value: float | None) -> str:
    return "lost" if value is None else f"{value:.1e}"


def plot(result: dict[str, Any], path: Path) -> None:
    """Errors over the overlap, a panel a medium and a line a bell: L2 whole, largest dashed."""
    cases = result["cases"]
    media = report.distinct(cases, "medium")
    with report.figure(path, (1.0 + 4.2 * len(media), 4.4), "y") as figure:
        panels = figure.subplots(1, len(media), squeeze=False, sharey=True)[0]
        for axes, medium in zip(panels, media, strict=True):
            for number, bell in enumerate(report.distinct(cases, "bell")):
                mine = [c for c in cases if (c["medium"], c["bell"]) == (medium, bell)]
                for key, line in (("l2", "-"), ("max", "--")):
                    axes.plot(
                        [c["overlap"] for c in mine],
                        [c[key] for c in mine],
                        line,
                        **report.look(number),
                        markersize=4,
                        linewidth=1.5 if key == "l2" else 0.8,
                        label=bell if key == "l2" and axes is panels[0] else None,
                    )
            axes.axhline(_AIM, color=GREY, linewidth=0.8, linestyle=":")
            axes.set_yscale("log")
            log2_ticks(axes, sorted({case["overlap"] for case in cases}))
            axes.set_title(medium)
            axes.set_xlabel("overlap (points)")
        panels[0].set_ylabel("relative error of p\nL2; largest, dashed")
        figure.suptitle(_title(result), fontsize=9)
        figure.legend(loc="outside lower center", ncols=5, fontsize=9)


def main(
    size: Annotated[
        str | None,
        option("Points, N or NXxNYxNZ. [default: 80 a block along cuts]"),
    ] = None,
    overlaps: Annotated[str, option("Points, comma between.")] = "2,4,8,16,32",
    bells: Annotated[str, option("none, cosine, nested-sine, erf, comma between, or all.")] = "all",
    medium: Annotated[str, option("homogeneous, heterogeneous, or both.")] = "both",
    blocks: Annotated[str | None, option("Blocks along x, y and z, such as 1x2x2.", "--grid")] = None,
    steps: Annotated[int, option("Time steps; a wave travels 0.3 points in each.")] = 150,
    precision: Annotated[str, option("single or double.")] = "double",
    ranks: Annotated[int | None, option("Processes to start.")] = None,
    device: DeviceName = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Error of the local decomposition against one rank, by overlap and bell."""
    shape, cut = parse_points(size) if size else None, parse_blocks(blocks) if blocks else None
    widths, kinds = parse_overlaps(overlaps), WINDOWS if bells == "all" else parse_list(bells)
    start_ranks(ranks, threads)
    all_ranks = Ranks(("mpi",), device, threads)
    with status_line(as_json or all_ranks.rank > 0) as say:
        result = measure(all_ranks, shape, widths, kinds, parse_media(medium), cut, steps, precision, say)
    if all_ranks.rank == 0:
        show(__name__, result, as_json, output, plot)


if __name__ == "__main__":
    run(main)
