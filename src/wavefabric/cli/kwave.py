"""Implement `wavefabric kwave`, with the command line and the files of k-Wave's own programs."""

import math
from dataclasses import MISSING, make_dataclass
from pathlib import Path
from typing import Any

import click

from wavefabric.acoustics.kwave.input import KWaveInput
from wavefabric.acoustics.kwave.output import working_names
from wavefabric.acoustics.recording.quantities import QUANTITIES, is_local, meaning
from wavefabric.acoustics.recording.sinks import PHASE_WORDS, Report
from wavefabric.base.errors import InputError
from wavefabric.base.files.output import check_output
from wavefabric.base.system.machine import usable_threads
from wavefabric.cli.common.options import changed, option, options
from wavefabric.cli.common.progress import make_progress
from wavefabric.cli.kwave_run import run_on_ranks
from wavefabric.cli.run_options import RunRankOptions
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

#: Options of this command, by the parameters of `run_kwave_file` that errors name.
_NAMES = {
    "start": "-s",
    "check_stability=False": "--allow_unstable",
    "u_non_staggered": "--u_non_staggered_raw",
}
#: Options that are parameters of `run_kwave_file` under the same name.
_SAME = ("start", "precision", "compression", "copy_sensor_mask", "force")
_LETTERS = {"p_raw": ("-p",), "u_raw": ("-u",)}


def _quantity_option(name: str) -> Any:
    text = f"{meaning(name)}." if name != "p_raw" else f"{meaning(name)} (if nothing else is asked)."
    panel = "At the sensor" if is_local(name) else "In the whole domain"
    return option(text.capitalize(), f"--{name}", *_LETTERS.get(name, ()), default=False, panel=panel)


#: One flag for each quantity that can be recorded.
_FIELDS = [(name, bool, _quantity_option(name)) for name in QUANTITIES]
Quantities = make_dataclass("Quantities", _FIELDS, frozen=True)


@options("Checkpoint")
class CheckpointOptions:
    """Options of where and how often to save a checkpoint."""

    checkpoint_file: Path | None = option("Save here, stop, and resume from here.", "--checkpoint_file")
    checkpoint_interval: int | None = option("After so many seconds.", "--checkpoint_interval", limits=(1,))
    checkpoint_timesteps: int | None = option("After so many steps.", "--checkpoint_timesteps", limits=(1,))

    def checkpoints(self, input: Path, output: Path) -> Checkpoints | None:
        """Return when and where to save, None without a file; `InputError` if options or files conflict."""
        file, interval, steps = self.checkpoint_file, self.checkpoint_interval, self.checkpoint_timesteps
        periods = list(changed(self, "checkpoint_interval", "checkpoint_timesteps"))
        if file is None:
            if periods:
                raise InputError(f"--{periods[0]}: is given without --checkpoint_file; allowed: both or none")
            return None
        if not periods:
            allowed = "with --checkpoint_interval or --checkpoint_timesteps"
            raise InputError(f"--checkpoint_file: is given alone; allowed: {allowed}")
        path = check_output(file, True, "--checkpoint_file")
        taken = {name.resolve() for name in (input, output, *working_names(output))}
        if taken & {path.resolve(), working_names(path)[0].resolve()}:
            raise InputError(f"--checkpoint_file: {file} would replace the input or output; allowed: another")
        return Checkpoints(path, interval=math.inf if interval is None else interval, every=steps, stop=True)


def _version(_: click.Context, __: click.Parameter, wanted: bool) -> None:
    if wanted:
        import wavefabric

        print(f"wavefabric {wavefabric.__version__} (k-Wave input files 1.0 to 1.2)")
        raise click.exceptions.Exit


@options()
class KWaveOptions:
    """Options of k-Wave's programs, and some of our own."""

    input: Path = option("Input file (HDF5).", "-i", default=MISSING)
    output: Path = option("Output file (HDF5).", "-o", default=MISSING)
    threads: int | None = option(
        "CPU threads, at most all. [default: by the size of the grid]", "-t", limits=(1,)
    )
    gpu: int | None = option("Use the GPU of this number.", "-g", limits=(0,))
    device: str | None = option("auto, cpu, cuda or cuda:K.")
    precision: str = option("{wavefabric.acoustics.run_settings:PRECISIONS}.", default="single")
    percent: int = option(
        "Report progress every so many percent, 1 to 100.", "-r", default=5, limits=(1, 100)
    )
    compression: int = option("Deflate level of the output, 0 to 9.", "-c", default=0, limits=(0, 9))
    start: int = option("First time step recorded, counted from 1.", "-s", default=1)
    benchmark: int | None = option("Only so many time steps.", limits=(1,))
    verbose: int = option("0: one line, 1: short, 2: more.", default=1, limits=(0, 2))
    force: bool = option("Replace the output file if it exists.", default=False)
    copy_sensor_mask: bool = option(
        "Copy the sensor mask into the output.", "--copy_sensor_mask", default=False
    )
    version: bool = option("Show the version.", "--version", default=False, callback=_version, is_eager=True)
    allow_unstable: bool = option(
        "Run a time step that is not stable until the field has grown.", "--allow_unstable", default=False
    )


def command(
    options: KWaveOptions,
    quantities: Quantities,  # type: ignore[valid-type]
    checkpoint: CheckpointOptions,
    ranks: RunRankOptions,
) -> None:
    """Run a k-Wave input file as kspaceFirstOrder-OMP and -CUDA do: same options, same files."""
    input, output, device, threads = options.input, options.output, options.device, options.threads
    if options.gpu is not None:
        if device is not None:
            raise InputError(f"--device: {device} with -g {options.gpu}; allowed: one of them")
        device = f"cuda:{options.gpu}"
    if threads is not None:
        # Scripts for k-Wave give the number of threads of the machine they were written on.
        threads = min(threads, usable_threads())
    ranks = ranks.checked(device, threads)
    ranks.check_files(options.force, input, output, checkpoint.checkpoint_file)
    verbose = options.verbose if environment.rank() == 0 else 0
    names = [name for name, wanted in vars(quantities).items() if wanted] or ["p_raw"]
    saved = checkpoint.checkpoints(input, output)
    report = run_on_ranks(
        input,
        output,
        ranks,
        not verbose,
        checkpoint=saved,
        progress=make_progress(not verbose, options.percent),
        record=[name.removesuffix("_raw") for name in names],
        **{name: getattr(options, name) for name in _SAME},
        steps=options.benchmark,
        check_stability=not options.allow_unstable,
        names=_NAMES,
        started=lambda inputs: _introduce(inputs, names, options.start, verbose),
    )
    if environment.rank() > 0:
        return
    if report.steps < report.total_steps:
        assert saved is not None
        print(f"Checkpoint saved in {saved.path}; the same command resumes from there")
    else:
        _conclude(output, report, verbose)


def _introduce(inputs: KWaveInput, quantities: list[str], start: int, verbose: int) -> None:
    problem = inputs.problem
    uniform = not any(hasattr(value, "shape") for value in (problem.sound_speed, problem.density))
    sources = {
        "initial pressure": problem.initial_pressure,
        "pressure": problem.pressure_source,
        "velocity": problem.velocity_source,
        "transducer": problem.transducer,
    }
    medium = "homogeneous" if uniform else "heterogeneous"
    size = " x ".join(map(str, problem.shape[: problem.dimensions]))
    lines: dict[str, Any] = {"Domain dimensions": size, "Simulation steps": problem.steps}
    if verbose > 1:
        lines |= {
            "File format": f"{inputs.version[0]}.{inputs.version[1]}",
            "Medium": f"{medium}, {'linear' if problem.nonlinearity is None else 'nonlinear'}",
            "Absorption": problem.absorption.replace("_", " "),
            "Sources": ", ".join(name for name, each in sources.items() if each is not None) or "none",
            "Recorded": ", ".join(quantities),
            "Sampling begins at": start,
        }
    if verbose:
        _print(lines)


def _conclude(output: Path, report: Report, verbose: int) -> None:
    seconds = sum(report.seconds.values())
    if not verbose:
        print(f"Simulated {report.total_steps} steps in {seconds:.2f} s; wrote {output}")
        return
    _print({"Device": report.device})
    if report.ranks > 1:
        _print({"Ranks": f"{report.ranks} through {report.transport}, {report.decomposition}"})
    for note in report.notes:
        _print({"Note": note})
    if report.resumed_at:
        _print({"Recovered from": f"time step {report.resumed_at}"})
    _print({"Peak memory in use": f"{report.peak_bytes >> 20} MB"})
    if verbose > 1:
        _print({PHASE_WORDS[name].capitalize(): f"{taken:.2f} s" for name, taken in report.seconds.items()})
    _print({"Elapsed time": f"{seconds:.2f} s", "Wrote": output})


def _print(lines: dict[str, Any]) -> None:
    for name, value in lines.items():
        print(f"{name + ':':<19} {value}")
