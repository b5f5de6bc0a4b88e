"""`wavefabric kwave`: the command line of k-Wave's own programs, and their files."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavefabric.cli.common.decomposition import DecompositionOptions
from wavefabric.cli.common.options import Device, grouped, option
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.common.ranks import RankOptions, is_rank_zero
from wavefabric.cli.kwave_run import KWaveRun, size_text
from wavefabric.errors import InputError
from wavefabric.system.machine import usable_threads

if TYPE_CHECKING:
    from wavefabric.acoustics.kwave.input import KWaveInput
    from wavefabric.acoustics.kwave.output import KWaveOutput
    from wavefabric.acoustics.problem import Problem
    from wavefabric.acoustics.recording.sinks import Report
    from wavefabric.acoustics.run import Checkpoints

_SAVE = "Checkpoint"
#: `QUANTITIES` of the library: an option each, with a letter for two of them.
_HELP = {
    "At the sensor": {
        "p_raw": "Pressure over time (if nothing else is asked).",
        "p_rms": "RMS of the pressure.",
        "p_max": "Its maximum.",
        "p_min": "Its minimum.",
        "u_raw": "Velocity over time.",
        "u_non_staggered_raw": "The same, at the points of p.",
        "u_rms": "RMS of the velocity.",
        "u_max": "Its maximum.",
        "u_min": "Its minimum.",
        "I_raw": "Intensity over time.",
        "I_avg": "Mean acoustic intensity.",
    },
    "In the whole domain": {
        "p_max_all": "Maximum pressure.",
        "p_min_all": "Minimum pressure.",
        "p_final": "Pressure at the end.",
        "u_max_all": "Maximum velocity.",
        "u_min_all": "Minimum velocity.",
        "u_final": "Velocity at the end.",
    },
}
_LETTERS = {"p_raw": ("-p",), "u_raw": ("-u",)}

Quantities: Any = make_dataclass(
    "Quantities",
    [
        (
            name,
            Annotated[bool, option(f"--{name}", *_LETTERS.get(name, ()), help=text, panel=panel)],
            field(default=False),
        )
        for panel, texts in _HELP.items()
        for name, text in texts.items()
    ],
    frozen=True,
)


@dataclass(frozen=True)
class CheckpointOptions:
    """Where and how often to save."""

    checkpoint_file: Annotated[
        Path | None, option("--checkpoint_file", help="Save here, stop, and go on from here.", panel=_SAVE)
    ] = None
    checkpoint_interval: Annotated[
        int | None, option("--checkpoint_interval", min=1, help="After so many seconds.", panel=_SAVE)
    ] = None
    checkpoint_timesteps: Annotated[
        int | None, option("--checkpoint_timesteps", min=1, help="After so many steps.", panel=_SAVE)
    ] = None

    def checkpoints(self, input: Path, output: Path) -> Checkpoints | None:
        """Checked: together with each other, and with the files of the run."""
        file, interval, steps = self.checkpoint_file, self.checkpoint_interval, self.checkpoint_timesteps
        if file is None:
            if interval is not None or steps is not None:
                name = "--checkpoint_interval" if interval is not None else "--checkpoint_timesteps"
                raise InputError(f"{name}: is given without --checkpoint_file; allowed: both or none")
            return None
        if interval is None and steps is None:
            raise InputError(
                "--checkpoint_file: is given alone; allowed: with --checkpoint_interval or "
                "--checkpoint_timesteps"
            )
        from wavefabric.acoustics.kwave.output import working_names
        from wavefabric.acoustics.run import Checkpoints
        from wavefabric.files.output import check_output

        path = check_output(file, True, "--checkpoint_file")
        taken = {name.resolve() for name in (input, output, *working_names(output))}
        if taken & {path.resolve(), working_names(path)[0].resolve()}:
            raise InputError(f"--checkpoint_file: {file} would replace the input or output; allowed: another")
        return Checkpoints(path, interval=math.inf if interval is None else interval, every=steps, stop=True)


def _version(asked: bool) -> None:
    if asked:
        import wavefabric

        typer.echo(f"wavefabric {wavefabric.__version__} (k-Wave input files 1.0 to 1.2)")
        raise typer.Exit


@grouped
def command(
    input: Annotated[Path, option("-i", help="Input file (HDF5).")],
    output: Annotated[Path, option("-o", help="Output file (HDF5).")],
    quantities: Quantities,
    checkpoint: CheckpointOptions,
    ranks: RankOptions,
    decomposition: DecompositionOptions,
    threads: Annotated[
        int | None, option("-t", min=1, help="CPU threads, at most all. \\[default: by the size of the grid]")
    ] = None,
    gpu: Annotated[int | None, option("-g", min=0, help="Use the GPU of this number.")] = None,
    device: Device = None,
    precision: Annotated[
        str,
        option("--precision", help="auto, {wavefabric.acoustics.run:PRECISIONS}.", also=("auto",)),
    ] = "auto",
    percent: Annotated[int, option("-r", min=1, max=100, help="Report progress every so many percent.")] = 5,
    compression: Annotated[int, option("-c", min=0, max=9, help="Deflate level of the output.")] = 0,
    start: Annotated[int, option("-s", help="First time step recorded, counted from 1.")] = 1,
    benchmark: Annotated[int | None, option("--benchmark", min=1, help="Only so many time steps.")] = None,
    verbose: Annotated[int, option("--verbose", min=0, max=2, help="0: one line, 1: short, 2: more.")] = 1,
    force: Annotated[bool, option("--force", help="Replace the output file if it exists.")] = False,
    copy_sensor_mask: Annotated[
        bool, option("--copy_sensor_mask", help="Copy the sensor mask into the output.")
    ] = False,
    version: Annotated[
        bool, option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    allow_unstable: Annotated[
        bool, option("--allow_unstable", help="Run a time step that is not stable until the field has grown.")
    ] = False,
) -> None:
    """Run a k-Wave input file as kspaceFirstOrder-OMP and -CUDA do: same options, same files."""
    if gpu is not None and device is not None:
        raise InputError(f"--device: {device} with -g {gpu}; allowed: one of them")
    device = device or (f"cuda:{gpu}" if gpu is not None else None)
    if threads is not None:
        # k-Wave's scripts name the threads of the machine they were written on.
        threads = min(threads, usable_threads())
    ranks = replace(ranks, device=device, threads=threads)
    ranks.check()
    verbose = verbose if is_rank_zero() else 0
    names = tuple(name for name, wanted in vars(quantities).items() if wanted) or ("p_raw",)
    run = KWaveRun(
        input,
        output,
        force,
        ranks,
        decomposition,
        checkpoint.checkpoints(input, output),
        make_progress(not verbose, percent),
        quiet=not verbose,
        quantities=names,
        start=start - 1,
        steps=benchmark,
        precision=precision,
        compression=compression,
        copy_sensor_mask=copy_sensor_mask,
        check_stability=not allow_unstable,
        unstable_advice=", or --allow_unstable",
        introduce=lambda given: _introduce(given, names, start, verbose),
    )
    if done := run.run():
        _conclude(*done, run.checkpoints, verbose)


def _introduce(given: KWaveInput, quantities: tuple[str, ...], start: int, verbose: int) -> None:
    problem = given.problem
    uniform = not any(hasattr(value, "shape") for value in (problem.sound_speed, problem.density))
    wave = "linear" if problem.nonlinearity is None else "nonlinear"
    sources = {
        "initial pressure": problem.initial_pressure,
        "pressure": problem.pressure_source,
        "velocity": problem.velocity_source,
        "transducer": problem.transducer,
    }
    lines = {"Domain dimensions": size_text(problem), "Simulation steps": problem.steps}
    more = {
        "File format": f"{given.version[0]}.{given.version[1]}",
        "Medium": f"{'homogeneous' if uniform else 'heterogeneous'}, {wave}",
        "Absorption": problem.absorption.replace("_", " "),
        "Sources": ", ".join(name for name, source in sources.items() if source is not None) or "none",
        "Recorded": ", ".join(quantities),
        "Sampling begins at": start,
    }
    if verbose:
        _print(lines | (more if verbose > 1 else {}))


def _conclude(
    sink: KWaveOutput, problem: Problem, report: Report, checkpoints: Checkpoints | None, verbose: int
) -> None:
    seconds = sum(report.seconds.values())
    if not sink.finished:
        assert checkpoints is not None
        print(f"Checkpoint saved in {checkpoints.path}; the same command goes on from there")
        return
    if not verbose:
        print(f"Simulated {problem.steps} steps in {seconds:.2f} s; wrote {sink.path}")
        return
    _print({"Device": report.device})
    if report.ranks > 1:
        _print({"Ranks": f"{report.ranks} through {report.transport}, {report.decomposition}"})
        for note in report.notes:
            _print({"Note": note})
    if report.resumed_at:
        _print({"Recovered from": f"time step {report.resumed_at}"})
    _print({"Peak memory in use": f"{report.peak_bytes >> 20} MB"})
    for phase in ("loading", "preprocessing", "simulation", "postprocessing") if verbose > 1 else ():
        _print({phase.capitalize(): f"{report.seconds.get(phase, 0.0):.2f} s"})
    _print({"Elapsed time": f"{seconds:.2f} s", "Wrote": sink.path})


def _print(lines: dict[str, Any]) -> None:
    for name, value in lines.items():
        print(f"{name + ':':<19} {value}")
