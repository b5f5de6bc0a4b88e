"""One way to run a k-Wave input file, for `wavefabric kwave` and for `wavefabric run`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.cli.common.decomposition import DecompositionOptions, traffic
from wavefabric.cli.common.options import check_range
from wavefabric.cli.common.progress import announce_compiling, guarded, make_progress
from wavefabric.cli.common.ranks import RankOptions, is_rank_zero, must_start, open_ranks, start
from wavefabric.cli.common.show import print_json
from wavefabric.cli.run_options import RunOptions
from wavefabric.errors import InputError
from wavefabric.files.input import check_regular
from wavefabric.system.progress import Progress, warn

if TYPE_CHECKING:
    from wavefabric.acoustics.decomposition.decompose import Options
    from wavefabric.acoustics.kwave.input import KWaveInput
    from wavefabric.acoustics.kwave.output import KWaveOutput
    from wavefabric.acoustics.problem import Problem, Recording
    from wavefabric.acoustics.recording.sinks import Report
    from wavefabric.acoustics.run import Checkpoints
    from wavefabric.exchange import Communicator

_SIGNATURE = b"\x89HDF\r\n\x1a\n"


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

    @property
    def _checkpoint(self) -> Path | None:
        return self.checkpoints and self.checkpoints.path

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
        self._check(given.problem, comm, shared)
        self.introduce(given)
        with guarded(self.progress, self._checkpoint, None if sink is None else sink.abandon):
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
            start(self.ranks, self._checkpoint, schedule, self.quiet)
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
                checkpoint=self._checkpoint,
            )

        return on_all_ranks(comm, make)

    def _check(self, problem: Problem, comm: Communicator, shared: Options | None) -> None:
        """Refuse a time step that is not stable; warn of sources that grid or absorption distort."""
        from wavefabric.acoustics.check.warnings import problem_warnings
        from wavefabric.acoustics.kwave.input import dataset_names
        from wavefabric.acoustics.run import dtype_of
        from wavefabric.acoustics.stability.stable_time_step import refuse_unstable

        if self.check_stability:
            saved = self.checkpoints.path if self.checkpoints and self.checkpoints.resume else None
            dtype = dtype_of(self.precision, problem, comm.device)
            refuse_unstable(problem, comm, dtype, shared, saved, self.unstable_advice, f"{self.input}: ")
        if is_rank_zero():
            names = {**dataset_names(self.input), "alpha_power": f"{self.input}: alpha_power"}
            for line in problem_warnings(problem, names):
                warn(line)


def size_text(problem: Problem) -> str:
    """The size of the grid: ``48 x 40 x 32``."""
    return " x ".join(str(n) for n in problem.shape[: problem.dimensions])


def is_hdf5(file: Path) -> bool:
    """Whether a file is HDF5 by its name, or by its content if its name does not say TOML."""
    suffix = file.suffix.lower()
    if suffix in (".h5", ".hdf5"):
        return True
    try:
        check_regular(file)
        with open(file, "rb") as handle:
            return suffix != ".toml" and handle.read(len(_SIGNATURE)) == _SIGNATURE
    except (OSError, ValueError):  # whoever reads it says why
        return False


def run_kwave_file(
    file: Path, asked: RunOptions, ranks: RankOptions, decomposition: DecompositionOptions
) -> None:
    """Run an input file and print what it cost; ``ranks`` are checked."""
    check_range("--threads", ranks.threads, 1, math.inf, "a whole number from 1")
    from wavefabric.acoustics.run import Checkpoints
    from wavefabric.lifecycle.checkpoint.file import checkpoint_path

    target = asked.output or file.with_name(file.stem + "_out.h5")
    done = KWaveRun(
        file,
        target,
        asked.force,
        ranks,
        decomposition,
        Checkpoints(checkpoint_path(target), resume=not asked.no_resume),
        make_progress(asked.silent),
        asked.silent,
    ).run()
    if done is None:
        return
    facts = summary(*done)
    if asked.as_json:
        print_json(facts)
    elif not asked.quiet:
        show(facts, done[1])


def summary(sink: KWaveOutput, problem: Problem, report: Report) -> dict[str, Any]:
    """What ``--json`` prints."""
    import h5py

    with h5py.File(sink.path, "r") as file:
        # Plane by plane: a field may be bigger than what is left of the memory.
        peak = max(float(plane.max()) for plane in file["p_max_all"])  # type: ignore[union-attr]
    simulation = report.seconds.get("simulation", 0.0)
    return {
        "output": str(sink.path),
        "device": report.device,
        "ranks": report.ranks,
        "transport": report.transport,
        "decomposition": report.decomposition,
        "notes": report.notes,
        "grid": list(problem.shape[: problem.dimensions]),
        "steps": problem.steps,
        "ms_per_step": 1e3 * simulation / problem.steps,
        "seconds": sum(report.seconds.values()),
        "peak_pressure_pa": peak,
        "memory_bytes": report.peak_bytes,
        "resumed_at": report.resumed_at,
    }


def show(summary: dict[str, Any], problem: Problem) -> None:
    """Print the closing lines."""
    where = summary["device"]
    if summary["ranks"] > 1:
        where += f", {summary['ranks']} ranks through {summary['transport']}"
    print(
        f"{size_text(problem)} points, {summary['steps']} steps on {where}: "
        f"{summary['ms_per_step']:.3g} ms a step, {summary['seconds']:.1f} s; "
        f"peak pressure {summary['peak_pressure_pa']:.4g} Pa"
    )
    for note in summary["notes"]:
        print(f"note: {note}")
    print(f"wrote {summary['output']}")
