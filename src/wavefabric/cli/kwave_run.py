"""One way to run a k-Wave input file, for `wavefabric run` and `wavefabric kwave`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wavefabric.cli.common.decomposition import DecompositionOptions, traffic
from wavefabric.cli.common.guard import guarded
from wavefabric.cli.common.progress import announce_compiling
from wavefabric.cli.common.ranks import RankOptions, is_rank_zero, must_start, open_ranks, start
from wavefabric.errors import InputError
from wavefabric.system.progress import Progress, warn

if TYPE_CHECKING:
    from wavefabric.acoustics.kwave.input import KWaveInput
    from wavefabric.acoustics.kwave.output import KWaveOutput
    from wavefabric.acoustics.parallel.decomposition import Options
    from wavefabric.acoustics.problem import Problem, Recording
    from wavefabric.acoustics.recording.sinks import Report
    from wavefabric.acoustics.run import Checkpoints
    from wavefabric.exchange import Communicator


@dataclass(frozen=True)
class KWaveRun:
    """What to run, and how: options of both commands, with `ranks` checked.

    Without ``quantities`` the pressure over time and its maximum are recorded at the sensor, if there is one,
    and the maximum and final pressure everywhere. ``start`` counts from 0.
    """

    input: Path
    output: Path
    force: bool
    ranks: RankOptions
    decomposition: DecompositionOptions
    checkpoints: Checkpoints | None
    progress: Progress
    quiet: bool
    quantities: tuple[str, ...] = ()
    start: int = 0
    steps: int | None = None
    precision: str = "auto"
    compression: int = 0
    copy_sensor_mask: bool = False
    check_stability: bool = True
    unstable_advice: str = ""
    introduce: Callable[[KWaveInput], None] = field(default=lambda given: None)

    def run(self) -> tuple[KWaveOutput, Problem, Report] | None:
        """Simulate, on all ranks; the output, what was simulated and what it cost, on rank 0 alone."""
        shared = self.decomposition.read(self.ranks)
        comm = self._start_ranks(shared)
        began = time.perf_counter()
        from wavefabric.acoustics.kwave.input import read_input
        from wavefabric.acoustics.run import communicator, run
        from wavefabric.device import get_device

        device, threads = self.ranks.device or "auto", self.ranks.threads
        # Several ranks check together whether they have the memory.
        given = read_input(self.input, get_device(device, threads) if comm is None else None)
        if self.steps is not None:
            given = replace(given, problem=replace(given.problem, steps=self.steps))
        recording = self._recording(given)
        comm = comm or communicator(device, threads, given.problem.shape)
        sink = self._make_sink(given, comm)
        announce_compiling(self.quiet)
        if self.check_stability:
            self._check_stability(given.problem, comm, shared)
        self._warn(given.problem)
        self.introduce(given)
        path = None if self.checkpoints is None else self.checkpoints.path
        with guarded(self.progress, path, (lambda keep: None) if sink is None else sink.abandon):
            report = run(
                given.problem,
                recording,
                sink,
                device=device,
                threads=threads,
                precision=self.precision,
                progress=self.progress,
                checkpoints=self.checkpoints,
                loading_seconds=time.perf_counter() - began,
                comm=comm,
                decomposition=shared,
            )
        return None if sink is None else (sink, given.problem, report)

    def _start_ranks(self, shared: Options | None) -> Communicator | None:
        """Start the ranks and exit when they have ended, or open the communicator of those that are there."""

        def schedule():
            return traffic(self.input, self.ranks.count, shared)

        if must_start(self.ranks):
            from wavefabric.files.output import check_output

            check_output(self.output, self.force, inputs=[self.input])
            schedule()
            start(self.ranks, self.checkpoints and self.checkpoints.path, schedule, self.quiet)
        return open_ranks(self.ranks, schedule, self.quiet)

    def _recording(self, given: KWaveInput) -> Recording:
        from wavefabric.acoustics.check.rules import check_recording
        from wavefabric.acoustics.problem import Recording

        quantities = self.quantities
        if not quantities:
            quantities = (*(() if given.sensor is None else ("p_raw", "p_max")), "p_max_all", "p_final")
        if "u_non_staggered_raw" in quantities and given.version == (1, 0):
            raise InputError(f"--u_non_staggered_raw: {self.input} has format 1.0; allowed: 1.1 or 1.2")
        recording = Recording(quantities, given.sensor, self.start)
        names = {"recording.start": "-s", "recording.where": f"{self.input}: dataset 'sensor_mask_index'"}
        check_recording(given.problem, recording, names, first_index=1)
        return recording

    def _make_sink(self, given: KWaveInput, comm: Communicator) -> KWaveOutput | None:
        """The output, on rank 0 only; what is wrong with it is an error on all."""
        from wavefabric.acoustics.kwave.output import KWaveOutput
        from wavefabric.lifecycle.agreement import on_all_ranks

        def make() -> KWaveOutput | None:
            if comm.rank:
                return None
            return KWaveOutput(
                self.output,
                given,
                compression=self.compression,
                copy_sensor_mask=self.copy_sensor_mask,
                force=self.force,
                start=self.start,
                threads=self.ranks.threads,
                checkpoint=None if self.checkpoints is None else self.checkpoints.path,
            )

        return on_all_ranks(comm, make)

    def _check_stability(self, problem: Problem, comm: Communicator, shared: Options | None) -> None:
        """Refuse a time step that is not stable; collective. A resumed run was checked when it began."""
        from wavefabric.acoustics.run import dtype_of
        from wavefabric.acoustics.stability.stable_time_step import stability
        from wavefabric.lifecycle.agreement import on_first_rank

        plan = self.checkpoints
        resumed = plan is not None and plan.resume and on_first_rank(comm, plan.path.exists)
        dtype = dtype_of(self.precision, problem, comm.device)
        verdict = stability(problem, comm=comm, dtype=dtype, options=shared, trials=not resumed)
        if verdict.warning:
            raise InputError(f"{self.input}: {verdict.refusal(self.unstable_advice)}")

    def _warn(self, problem: Problem) -> None:
        """Warn of frequencies that the grid does not carry, and of a sound speed that absorption changes."""
        if not is_rank_zero():
            return
        from wavefabric.acoustics.check.dispersion import largest_shift
        from wavefabric.acoustics.check.source_band import band_warnings
        from wavefabric.acoustics.kwave.input import dataset_names

        for line in band_warnings(problem, dataset_names(self.input)):
            warn(line)
        if shift := largest_shift(problem):
            warn(f"{self.input}: alpha_power: {shift}")


def size_text(problem: Problem) -> str:
    """The size of the grid: ``48 x 40 x 32``."""
    return " x ".join(str(n) for n in problem.shape[: problem.dimensions])
