"""`wavefabric kwave`: the command line of k-Wave's own programs, and their files."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavefabric.cli.common import decomposition
from wavefabric.cli.common import ranks as several
from wavefabric.errors import InputError
from wavefabric.system.machine import usable_threads

if TYPE_CHECKING:
    from wavefabric.acoustics.kwave.input import KWaveInput
    from wavefabric.acoustics.kwave.output import KWaveOutput
    from wavefabric.acoustics.problem import Problem
    from wavefabric.acoustics.recording.sinks import Report
    from wavefabric.acoustics.run import Checkpoints

_AT_SENSOR, _EVERYWHERE, _SAVE = "At the sensor", "In the whole domain", "Checkpoint"


def _flag(*names: str, help: str, panel: str | None = None) -> typer.models.OptionInfo:
    return typer.Option(*names, help=help, rich_help_panel=panel)


def _version(asked: bool) -> None:
    if asked:
        import wavefabric

        typer.echo(f"wavefabric {wavefabric.__version__} (k-Wave input files 1.0 to 1.2)")
        raise typer.Exit


def command(
    input: Annotated[Path, _flag("-i", help="Input file (HDF5).")],
    output: Annotated[Path, _flag("-o", help="Output file (HDF5).")],
    threads: Annotated[
        int | None,
        typer.Option("-t", min=1, help="CPU threads, at most all. \\[default: by the size of the grid]"),
    ] = None,
    gpu: Annotated[int | None, typer.Option("-g", min=0, help="Use the GPU of this number.")] = None,
    device: Annotated[str | None, _flag("--device", help="auto, cpu, cuda or cuda:K.")] = None,
    precision: Annotated[str, _flag("--precision", help="auto, single, or double.")] = "auto",
    percent: Annotated[
        int, typer.Option("-r", min=1, max=100, help="Report progress every so many percent.")
    ] = 5,
    compression: Annotated[int, typer.Option("-c", min=0, max=9, help="Deflate level of the output.")] = 0,
    start: Annotated[int, typer.Option("-s", help="First time step recorded, counted from 1.")] = 1,
    benchmark: Annotated[
        int | None, typer.Option("--benchmark", min=1, help="Only so many time steps.")
    ] = None,
    verbose: Annotated[
        int, typer.Option("--verbose", min=0, max=2, help="0: one line, 1: short, 2: more.")
    ] = 1,
    force: Annotated[bool, _flag("--force", help="Replace the output file if it exists.")] = False,
    copy_sensor_mask: Annotated[
        bool, _flag("--copy_sensor_mask", help="Copy the sensor mask into the output.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    checkpoint_file: Annotated[
        Path | None, _flag("--checkpoint_file", help="Save here, stop, and go on from here.", panel=_SAVE)
    ] = None,
    checkpoint_interval: Annotated[
        int | None,
        typer.Option("--checkpoint_interval", min=1, help="After so many seconds.", rich_help_panel=_SAVE),
    ] = None,
    checkpoint_timesteps: Annotated[
        int | None,
        typer.Option("--checkpoint_timesteps", min=1, help="After so many steps.", rich_help_panel=_SAVE),
    ] = None,
    p_raw: Annotated[
        bool, _flag("--p_raw", "-p", help="Pressure over time (if nothing else is asked).", panel=_AT_SENSOR)
    ] = False,
    p_rms: Annotated[bool, _flag("--p_rms", help="RMS of the pressure.", panel=_AT_SENSOR)] = False,
    p_max: Annotated[bool, _flag("--p_max", help="Its maximum.", panel=_AT_SENSOR)] = False,
    p_min: Annotated[bool, _flag("--p_min", help="Its minimum.", panel=_AT_SENSOR)] = False,
    p_max_all: Annotated[bool, _flag("--p_max_all", help="Maximum pressure.", panel=_EVERYWHERE)] = False,
    p_min_all: Annotated[bool, _flag("--p_min_all", help="Minimum pressure.", panel=_EVERYWHERE)] = False,
    p_final: Annotated[bool, _flag("--p_final", help="Pressure at the end.", panel=_EVERYWHERE)] = False,
    u_raw: Annotated[bool, _flag("--u_raw", "-u", help="Velocity over time.", panel=_AT_SENSOR)] = False,
    u_non_staggered_raw: Annotated[
        bool, _flag("--u_non_staggered_raw", help="The same, at the points of p.", panel=_AT_SENSOR)
    ] = False,
    u_rms: Annotated[bool, _flag("--u_rms", help="RMS of the velocity.", panel=_AT_SENSOR)] = False,
    u_max: Annotated[bool, _flag("--u_max", help="Its maximum.", panel=_AT_SENSOR)] = False,
    u_min: Annotated[bool, _flag("--u_min", help="Its minimum.", panel=_AT_SENSOR)] = False,
    u_max_all: Annotated[bool, _flag("--u_max_all", help="Maximum velocity.", panel=_EVERYWHERE)] = False,
    u_min_all: Annotated[bool, _flag("--u_min_all", help="Minimum velocity.", panel=_EVERYWHERE)] = False,
    u_final: Annotated[bool, _flag("--u_final", help="Velocity at the end.", panel=_EVERYWHERE)] = False,
    i_avg: Annotated[bool, _flag("--I_avg", help="Mean acoustic intensity.", panel=_AT_SENSOR)] = False,
    i_raw: Annotated[bool, _flag("--I_raw", help="Intensity over time.", panel=_AT_SENSOR)] = False,
    allow_unstable: Annotated[
        bool, _flag("--allow_unstable", help="Run a time step that is not stable until the field has grown.")
    ] = False,
    ranks: several.Ranks = None,
    transport: several.Transport = None,
    placement: several.Placement = None,
    kind: decomposition.Kind = None,
    grid: decomposition.Grid = None,
    overlap: decomposition.Overlap = None,
    bell: decomposition.Bell = None,
) -> None:
    """Run a k-Wave input file as kspaceFirstOrder-OMP and -CUDA do: same options, same files."""
    asked = {
        **{"p_raw": p_raw, "p_rms": p_rms, "p_max": p_max, "p_min": p_min},
        **{"p_max_all": p_max_all, "p_min_all": p_min_all, "p_final": p_final},
        **{"u_raw": u_raw, "u_non_staggered_raw": u_non_staggered_raw},
        **{"u_rms": u_rms, "u_max": u_max, "u_min": u_min},
        **{"u_max_all": u_max_all, "u_min_all": u_min_all, "u_final": u_final},
        **{"I_raw": i_raw, "I_avg": i_avg},
    }
    quantities = tuple(name for name, wanted in asked.items() if wanted) or ("p_raw",)
    if gpu is not None and device is not None:
        raise InputError(f"--device: {device} with -g {gpu}; allowed: one of them")
    if precision not in ("auto", "single", "double"):
        raise InputError(f"--precision: {precision}; allowed: auto, single, double")
    device = device or (f"cuda:{gpu}" if gpu is not None else None)
    if threads is not None:
        # k-Wave's scripts name the threads of the machine they were written on.
        threads = min(threads, usable_threads())
    asked_ranks = several.RankOptions(ranks, transport, placement, device, threads)
    asked_ranks.check()
    shared = decomposition.read_options(kind, grid, overlap, bell, asked_ranks)
    checkpoints = _checkpoints(checkpoint_file, checkpoint_interval, checkpoint_timesteps)
    from wavefabric.acoustics.kwave.output import KWaveOutput, working_names

    if checkpoints:
        taken = {name.resolve() for name in (input, output, *working_names(output))}
        if taken & {checkpoints.path.resolve(), working_names(checkpoints.path)[0].resolve()}:
            raise InputError(
                f"--checkpoint_file: {checkpoint_file} would replace the input or output; allowed: another"
            )
    from wavefabric.cli.common.kwave_run import (
        check_stable,
        guarded,
        make_lines,
        make_sink,
        share,
        single_device,
        warn_of_band,
        warn_of_dispersion,
    )

    saved = checkpoints.path if checkpoints else None
    comm = share(input, output, force, asked_ranks, shared, saved, not verbose)
    verbose = verbose if several.first() else 0

    began = time.perf_counter()
    from wavefabric.acoustics.check.rules import check_recording
    from wavefabric.acoustics.kwave.input import read_input
    from wavefabric.acoustics.problem import Recording
    from wavefabric.acoustics.run import communicator

    given = read_input(input, single_device(comm, asked_ranks))
    if benchmark is not None:
        given = replace(given, problem=replace(given.problem, steps=benchmark))
    if u_non_staggered_raw and given.version == (1, 0):
        raise InputError(f"--u_non_staggered_raw: {input} has format 1.0; allowed: 1.1 or 1.2")
    recording = Recording(quantities, given.sensor, start - 1)
    names = {"recording.start": "-s", "recording.where": f"{input}: dataset 'sensor_mask_index'"}
    check_recording(given.problem, recording, names, first_index=1)
    comm = comm or communicator(device or "auto", threads, given.problem.shape)
    sink = make_sink(
        comm,
        lambda: KWaveOutput(
            output,
            given,
            compression=compression,
            copy_sensor_mask=copy_sensor_mask,
            force=force,
            start=start - 1,
            threads=threads,
            checkpoint=saved,
        ),
    )
    from wavefabric.cli.common.progress import tell_of_compiling

    tell_of_compiling(not verbose)
    if not allow_unstable:
        check_stable(input, given.problem, comm, precision, shared, saved, ", or --allow_unstable")
    warn_of_band(input, given.problem)
    warn_of_dispersion(input, given.problem)
    if verbose:
        _introduce(given, quantities, start, verbose)

    from wavefabric.acoustics.run import run

    progress = make_lines(percent, verbose)
    with guarded(sink, saved, progress):
        report = run(
            given.problem,
            recording,
            sink,
            device=device or "auto",
            threads=threads,
            precision=precision,  # type: ignore[arg-type]
            progress=progress,
            checkpoints=checkpoints,
            loading_seconds=time.perf_counter() - began,
            comm=comm,
            decomposition=shared,
        )
    if sink is not None:
        _conclude(sink, report, given.problem, checkpoints, verbose)


def _checkpoints(file: Path | None, interval: int | None, steps: int | None) -> Checkpoints | None:
    if file is None:
        if interval is not None or steps is not None:
            name = "--checkpoint_interval" if interval is not None else "--checkpoint_timesteps"
            raise InputError(f"{name}: is given without --checkpoint_file; allowed: both or none")
        return None
    if interval is None and steps is None:
        raise InputError(
            "--checkpoint_file: is given alone; allowed: with --checkpoint_interval or --checkpoint_timesteps"
        )
    from wavefabric.acoustics.run import Checkpoints
    from wavefabric.files.output import check_output

    path = check_output(file, True, "--checkpoint_file")
    return Checkpoints(path, interval=math.inf if interval is None else interval, every=steps, stop=True)


def _introduce(given: KWaveInput, quantities: tuple[str, ...], start: int, verbose: int) -> None:
    from wavefabric.cli.common.kwave_run import domain

    problem = given.problem
    print(f"Domain dimensions:  {domain(problem)}")
    print(f"Simulation steps:   {problem.steps}")
    if verbose < 2:
        return
    print(f"File format:        {given.version[0]}.{given.version[1]}")
    uniform = not any(hasattr(value, "shape") for value in (problem.sound_speed, problem.density))
    wave = "linear" if problem.nonlinearity is None else "nonlinear"
    print(f"Medium:             {'homogeneous' if uniform else 'heterogeneous'}, {wave}")
    print(f"Absorption:         {problem.absorption.replace('_', ' ')}")
    sources = {
        "initial pressure": problem.initial_pressure,
        "pressure": problem.pressure_source,
        "velocity": problem.velocity_source,
        "transducer": problem.transducer,
    }
    print(f"Sources:            {', '.join(n for n, s in sources.items() if s is not None) or 'none'}")
    print(f"Recorded:           {', '.join(quantities)}")
    print(f"Sampling begins at: {start}")


def _conclude(
    sink: KWaveOutput, report: Report, problem: Problem, checkpoints: Checkpoints | None, verbose: int
) -> None:
    seconds = sum(report.seconds.values())
    if not sink.finished:
        assert checkpoints is not None
        print(f"Checkpoint saved in {checkpoints.path}; the same command goes on from there")
        return
    if not verbose:
        print(f"Simulated {problem.steps} steps in {seconds:.2f} s; wrote {sink.path}")
        return
    print(f"Device:             {report.device}")
    if report.ranks > 1:
        print(f"Ranks:              {report.ranks} through {report.transport}, {report.decomposition}")
        for note in report.notes:
            print(f"Note:               {note}")
    if report.resumed_at:
        print(f"Recovered from:     time step {report.resumed_at}")
    print(f"Peak memory in use: {report.peak_bytes >> 20} MB")
    for phase in ("loading", "preprocessing", "simulation", "postprocessing") if verbose > 1 else ():
        print(f"{phase.capitalize() + ':':<19} {report.seconds.get(phase, 0.0):.2f} s")
    print(f"Elapsed time:       {seconds:.2f} s")
    print(f"Wrote:              {sink.path}")
