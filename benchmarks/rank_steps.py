"""Ultrasound time steps over ranks, and what the benchmarks of them show."""

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.decomposition.decompose import Decomposition, Partition, block_grids, decompose
from wavefabric.acoustics.run_settings import PRECISIONS
from wavefabric.base.errors import InputError
from wavefabric.cli.bench.common import Triple
from wavefabric.cli.bench.ultrasound_cases import NO_SENSOR, Stepper, check, light_problem
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.report import shape_words
from wavefabric.fabric.execution.timing import Ranks, timed
from wavefabric.runtime.exchange.communicator import Communicator


class RankSteps:
    """Steps of grids that ranks share, in one precision."""

    def __init__(
        self, ranks: Ranks, shapes: Iterable[Triple], media: Sequence[str], precision: str, repeats: int
    ):
        check(shapes, media, precision, repeats, 16384)
        self.ranks, self.dtype, self.repeats = ranks, np.dtype(PRECISIONS[precision]), repeats

    def check_memory(self, medium: str, shape: Triple, options: Decomposition | None, ranks: int = 0) -> None:
        """Refuse what does not fit, or cannot be divided so, before anything is allocated."""
        cut = decompose(shape, ranks or self.ranks.size, options)
        problem = light_problem(medium, shape)
        needed = needed_bytes(problem, NO_SENSOR, self.dtype, self.ranks.device, cut)
        self.ranks.check_memory(needed, f"size: {shape_words(shape)}, {medium},")

    def cut(
        self, medium: str, shape: Triple, options: Decomposition, left_out: list[str]
    ) -> Partition | None:
        """How a grid is cut, memory checked; None if a block is shorter than the overlap, which is said."""
        try:
            cut = decompose(shape, self.ranks.size, options)
        except InputError as error:
            if not str(error).startswith("overlap"):
                raise
            left_out.append(str(error))
            return None
        self.check_memory(medium, shape, options)
        return cut

    def fits_one(self, medium: str, shape: Triple) -> bool:
        """Whether the whole grid fits into the memory that one rank would have to itself among the others."""
        try:
            self.check_memory(medium, shape, None, ranks=1)
        except InputError:
            return False
        return True

    def stepper(
        self, comm: Communicator, medium: str, shape: Triple, options: Decomposition | None
    ) -> Stepper:
        """A problem ready for its steps on all ranks; on one with a communicator of one. Collective."""
        self.ranks.control.barrier()  # nobody frees what another still reads
        gc.collect()
        cut, problem = decompose(shape, comm.size, options), light_problem(medium, shape)
        return Stepper(make_stages(comm.device, problem, self.dtype, comm=comm, decomposition=cut))

    def time(
        self, comm: Communicator, medium: str, shape: Triple, options: Decomposition | None = None
    ) -> dict[str, Any]:
        """Time of a step in ms on the slowest rank; collective."""
        stepper = self.stepper(comm, medium, shape, options)
        return self.times(stepper) | {"finite": stepper.finite()}

    def times(self, work: Callable[[], Any]) -> dict[str, float]:
        """Median, best and worst time of `work` in ms on the slowest rank; collective."""
        return timed(self.ranks, work, self.repeats)


def even_grid(ranks: int) -> Triple:
    """Blocks as nearly alike along all axes as can be; z is cut most, then y."""
    return min(block_grids(ranks), key=lambda grid: (max(grid) / min(grid), grid))


def left_over(result: dict[str, Any]) -> list[str]:
    """Lines below the tables: what was left out, and transports that could not be used."""
    return [f"left out: {line}" for line in result.get("left_out", ())] + report.unavailable(result)


def grouped(cases: Sequence[dict[str, Any]], *keys: str) -> dict[Any, list[dict[str, Any]]]:
    """Cases by the value of a key, or by those of several."""
    groups: dict[Any, list[dict[str, Any]]] = {value: [] for value in report.distinct(cases, *keys)}
    for case in cases:
        groups[case[keys[0]] if len(keys) == 1 else tuple(case[key] for key in keys)].append(case)
    return groups
