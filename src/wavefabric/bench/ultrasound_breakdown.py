"""Benchmark ``ultrasound-breakdown``: where the time of a step of the local decomposition goes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from wavefabric.acoustics.parallel.decomposition import Options, decompose
from wavefabric.acoustics.parallel.stages import HaloExchange
from wavefabric.bench import ultrasound_shared as shared
from wavefabric.bench.stand_ins import mute
from wavefabric.bench.ultrasound_breakdown_report import plot, table
from wavefabric.exchange import Communicator
from wavefabric.execution.ranks import Ranks, timed

__all__ = ["OVERLAPS", "SIZES", "plot", "run", "table"]

OVERLAPS = (2, 4, 8, 16, 32)
SIZES = {"cpu": (64, 64, 128), "cuda": (512, 512, 1024)}


def run(
    ranks: Ranks,
    shape: tuple[int, int, int] | None = None,
    overlaps: Sequence[int] = OVERLAPS,
    grids: Sequence[tuple[int, int, int]] = (),
    media: Sequence[str] = ("homogeneous",),
    precision: str = "single",
    repeats: int = 5,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Time steps and their parts, each alone; collective.

    Parameters
    ----------
    ranks : Ranks
    shape : tuple of int, optional
        The whole grid, (Nx, Ny, Nz). By default see `SIZES`.
    overlaps : sequence of int
    grids : sequence of (x, y, z)
        Blocks; by default all along z, and as nearly alike as can be. What does not fit is left out, and
        said so.
    media : sequence of {"homogeneous", "heterogeneous"}
    precision : str
    repeats : int
        Samples; the median counts.
    progress : callable, optional

    Returns
    -------
    dict
        ``cases``, one for each medium, grid, overlap and transport, in ms a step: ``ms`` (the step itself),
        ``compute`` (the same with overlaps never filled), ``pack`` (packing and unpacking alone),
        ``exchange`` (messages alone, ready when they start), ``idle`` = ms − their sum if that is positive,
        else ``hidden`` = what overlapped; and ``speed_up`` over MPI through host memory. ``left_out``: cuts
        whose blocks are shorter than the overlap.

    Raises
    ------
    InputError
        If an option is not allowed, or a grid does not fit into memory.
    """
    say = progress or (lambda line: None)
    shape = shape or SIZES["cuda" if ranks.on_gpu else "cpu"]
    shared.check([shape], media, precision, repeats)
    chosen = list(grids) or list(dict.fromkeys([(1, 1, ranks.size), shared.even_grid(ranks.size)]))
    plans, left_out = [], []
    for medium in media:
        for grid in chosen:
            for overlap in overlaps:
                options = Options("local", grid, overlap)
                why = _misfit(shape, ranks.size, options)
                if why:
                    left_out.append(why)
                    continue
                shared.check_memory(ranks, medium, shape, precision, options)
                plans.append((medium, options))
    cases, computed = [], {}
    for comm in ranks.each():
        for medium, options in plans:
            say(f"{comm.transport}: {medium}, {shared.name_of(options.grid)}, overlap {options.overlap}")
            bench = _Case(ranks, comm, medium, shape, precision, options, repeats)
            key = medium, options.grid, options.overlap
            if key not in computed:
                computed[key] = bench.compute()
            cases.append(bench.run(computed[key]))
            del bench
    return {
        "benchmark": "ultrasound-breakdown",
        "ranks": ranks.size,
        "shape": list(shape),
        "precision": precision,
        "repeats": repeats,
        "cases": _sped_up(cases),
        "left_out": left_out,
        "unavailable": ranks.unavailable,
        "machine": ranks.machine(),
    }


def _misfit(shape, ranks: int, options: Options) -> str:
    """Why a grid cannot be cut so, for what is measured in a row; bad numbers of blocks are an error."""
    from wavefabric.errors import InputError

    try:
        decompose(shape, ranks, options)
    except InputError as error:
        if not str(error).startswith("overlap"):
            raise
        return str(error)
    return ""


def _sped_up(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With ``speed_up`` over the step of the same case through MPI and host memory, where there is one."""

    def key(case):
        return case["medium"], tuple(case["grid"]), case["overlap"]

    staged = {key(case): case["ms"] for case in cases if case["transport"] == "mpi"}
    return [case | {"speed_up": staged[key(case)] / case["ms"] if staged else None} for case in cases]


class _Unfilled:
    """Stands in for an exchange of overlaps: nothing is packed, sent or unpacked."""

    def start(self, fields) -> None:
        pass

    def finish(self, fields, weights=None) -> None:
        pass


class _Counted:
    """An exchange of overlaps that counts how often it is started."""

    def __init__(self, inner):
        self.inner, self.started, self.fields = inner, 0, []

    def start(self, fields) -> None:
        self.started, self.fields = self.started + 1, list(fields)
        self.inner.start(fields)

    def finish(self, fields, weights=None) -> None:
        self.inner.finish(fields, weights)


class _Case:
    def __init__(
        self, ranks: Ranks, comm: Communicator, medium: str, shape, precision: str, options, repeats: int
    ):
        self.ranks, self.comm, self.medium, self.shape = ranks, comm, medium, shape
        self.precision, self.options, self.repeats = precision, options, repeats

    def stepper(self) -> shared.SharedStepper:
        self.ranks.control.barrier()  # nobody frees what another still reads
        gc.collect()
        return shared.SharedStepper(self.comm, self.medium, self.shape, self.precision, self.options)

    def compute(self) -> float:
        """ms of a step that never fills its overlaps."""
        stepper = self.stepper()
        halo = stepper.stages.halo  # type: ignore[attr-defined]
        halo.exchanges = {count: _Unfilled() for count in halo.exchanges}
        return self.time(stepper)

    def run(self, compute: float) -> dict[str, Any]:
        stepper = self.stepper()
        halo: HaloExchange = stepper.stages.halo  # type: ignore[attr-defined]
        counted = {count: _Counted(exchange) for count, exchange in halo.exchanges.items()}
        halo.exchanges = counted  # type: ignore[assignment]
        before = [exchange.started for exchange in counted.values()]
        stepper()
        each = {
            count: exchange.started - old
            for (count, exchange), old in zip(counted.items(), before, strict=True)
        }
        bound = {count: exchange.inner for count, exchange in counted.items()}
        halo.exchanges = bound
        found = timed(self.ranks, stepper, self.repeats)
        # After their finish: a fused step leaves an exchange under way.
        for exchange in bound.values():
            exchange.exchange.finish()
        exchange = self.time(lambda: self.messages(bound, each))
        pack = self.time(self.packing(stepper, counted, each))
        rest = found["ms"] - compute - pack - exchange
        return found | {
            "transport": self.comm.transport,
            "medium": self.medium,
            "grid": list(self.options.grid),
            "overlap": self.options.overlap,
            "bytes_sent_a_step": sum(n * bound[count].bytes for count, n in each.items()),
            "compute": compute,
            "pack": pack,
            "exchange": exchange,
            "idle": max(0.0, rest),
            "hidden": max(0.0, -rest),
            "finite": stepper.finite(),
        }

    @staticmethod
    def messages(bound, each) -> None:
        for count, number in each.items():
            for _ in range(number):
                bound[count].exchange.start()
                bound[count].exchange.finish()

    def packing(self, stepper, counted, each) -> Callable[[], None]:
        """Packing and unpacking of a step, with exchanges that move nothing."""
        shape, dtype = stepper.stages.coefficients.shape, stepper.stages.coefficients.dtype
        halo = HaloExchange(mute(self.comm), stepper.decomposition, shape, dtype, set(counted))
        fields = {count: exchange.fields for count, exchange in counted.items() if exchange.fields}

        def work() -> None:
            for count, number in each.items():
                for _ in range(number):
                    halo.fill(fields[count])

        return work

    def time(self, work) -> float:
        return timed(self.ranks, work, self.repeats)["ms"]
