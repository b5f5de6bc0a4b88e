"""`wavefabric run` with a k-Wave input file: sensible outputs, a checkpoint, a short answer."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from wavefabric.errors import InputError
from wavefabric.files.input import check_regular

if TYPE_CHECKING:
    from wavefabric.acoustics.kwave.output import KWaveOutput
    from wavefabric.acoustics.parallel.decomposition import Options
    from wavefabric.acoustics.problem import Problem
    from wavefabric.acoustics.recording.sinks import Report
    from wavefabric.cli.common.ranks import RankOptions

_SIGNATURE = b"\x89HDF\r\n\x1a\n"


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


def run_file(
    file: Path,
    output: Path | None,
    *,
    force: bool,
    ranks: RankOptions,
    shared: Options | None,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run an input file.

    Records the pressure over time and its maximum at the sensor, if there is one, and the maximum and
    final pressure everywhere. ``ranks`` (checked) says who computes, ``shared`` how they share the grid.

    Raises
    ------
    InputError
        If the file or an option is wrong, or the time step is not stable.
    """
    began = time.perf_counter()
    if ranks.threads is not None and ranks.threads < 1:
        raise InputError(f"--threads: {ranks.threads}; allowed: a whole number from 1")
    target = output or file.with_name(file.stem + "_out.h5")
    from wavefabric.cli.common.kwave_run import (
        check_stable,
        guarded,
        make_sink,
        share,
        single_device,
        warn_of_band,
        warn_of_dispersion,
    )
    from wavefabric.results.checkpoint import checkpoint_path

    saved = checkpoint_path(target)
    comm = share(file, target, force, ranks, shared, saved, quiet or as_json)

    from wavefabric.acoustics.kwave.input import read_input
    from wavefabric.acoustics.kwave.output import KWaveOutput
    from wavefabric.acoustics.problem import Recording
    from wavefabric.acoustics.run import communicator

    given = read_input(file, single_device(comm, ranks))
    comm = comm or communicator(ranks.device or "auto", ranks.threads, given.problem.shape)
    local = () if given.sensor is None else ("p_raw", "p_max")
    recording = Recording((*local, "p_max_all", "p_final"), given.sensor)
    sink = make_sink(
        comm, lambda: KWaveOutput(target, given, force=force, threads=ranks.threads, checkpoint=saved)
    )

    from wavefabric.acoustics.run import Checkpoints, run
    from wavefabric.cli.common.progress import make_progress, tell_of_compiling

    progress = make_progress(quiet or as_json)
    tell_of_compiling(quiet or as_json)
    check_stable(file, given.problem, comm, "auto", shared, saved if resume else None)
    warn_of_band(file, given.problem)
    warn_of_dispersion(file, given.problem)
    with guarded(sink, saved, progress):
        report = run(
            given.problem,
            recording,
            sink,
            device=ranks.device or "auto",
            threads=ranks.threads,
            precision="auto",
            progress=progress,
            checkpoints=Checkpoints(saved, resume=resume),
            loading_seconds=time.perf_counter() - began,
            comm=comm,
            decomposition=shared,
        )
    if sink is None:
        return
    if as_json:
        typer.echo(json.dumps(summary(sink, given.problem, report), indent=2))
    elif not quiet:
        show(summary(sink, given.problem, report), given.problem)


def summary(sink: KWaveOutput, problem: Problem, report: Report) -> dict[str, Any]:
    """What ``--json`` prints."""
    import h5py

    with h5py.File(sink.path, "r") as file:
        field = file["p_max_all"]
        # Plane by plane: a field may be bigger than what is left of the memory.
        peak = max(float(plane.max()) for plane in field)  # type: ignore[union-attr]
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


def place(found: dict[str, Any]) -> str:
    """Where it ran: device, and ranks if there were several."""
    if found["ranks"] == 1:
        return found["device"]
    return f"{found['device']}, {found['ranks']} ranks through {found['transport']}"


def show(found: dict[str, Any], problem: Problem) -> None:
    """Print the closing lines."""
    from wavefabric.cli.common.kwave_run import domain

    print(
        f"{domain(problem)} points, {found['steps']} steps on {place(found)}: "
        f"{found['ms_per_step']:.3g} ms a step, {found['seconds']:.1f} s; "
        f"peak pressure {found['peak_pressure_pa']:.4g} Pa"
    )
    for note in found["notes"]:
        print(f"note: {note}")
    print(f"wrote {found['output']}")
