"""`wavefabric bench`: tables and figures of the paper, costs and convergence, each one a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.bench import lumorph, ranks, ultrasound_ranks
from wavefabric.cli.bench.show import Json, Output, Plot, grid
from wavefabric.cli.common.measure import show_measurement
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.show import Status
from wavefabric.errors import InputError

bench = typer.Typer(
    no_args_is_help=True, help="Benchmarks: tables and figures of the papers, and what a step costs."
)

Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:K.")]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads. \\[default: all]")]


def register(app: typer.Typer) -> None:
    """Add ``bench`` to the command."""
    ranks.register(bench)
    ultrasound_ranks.register(bench)
    lumorph.register(bench)
    app.add_typer(bench, name="bench")


@bench.command("fibre-modes")
def fibre_modes(
    radial_step: Annotated[str, typer.Option("--radial-step", help="Radial step of the solver.")] = "0.02 um",
    device: Device = "cpu",
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Modes of the 62.5 µm fibre against tables 2 and 3 of the paper (always solved on the CPU)."""
    from wavefabric.bench import fibre_modes
    from wavefabric.device import get_device
    from wavefabric.execution import measure
    from wavefabric.units import quantity

    place = get_device(device)
    result = fibre_modes.run(quantity(radial_step, "m", "--radial-step"))
    result["machine"] = measure.machine(place)
    show_measurement(fibre_modes, result, as_json, output, plot)


@bench.command("fibre-step")
def fibre_step(
    cases: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            help="Rows x log2 of samples, e.g. 30x21; may be repeated. "
            "\\[default: 2x17 and 30x15 on a CPU, 30x21 on a GPU]",
        ),
    ] = None,
    precision: Annotated[str, typer.Option("--precision", help="double, single, or both.")] = "both",
    integrators: Annotated[
        str, typer.Option("--integrators", help="Names, comma between, or all.")
    ] = "rk4ip,strang",
    step: Annotated[str, typer.Option("--step", help="Step; changes the error, not the time.")] = "100 m",
    repeats: Annotated[int, typer.Option("--repeats", help="Samples of each time; the median counts.")] = 15,
    error_steps: Annotated[
        int, typer.Option("--error-steps", help="Steps after which complex64 is compared; 0: not.")
    ] = 100,
    plain: Annotated[
        bool, typer.Option("--plain/--no-plain", help="Time a plain NumPy/CuPy RK4IP too (ten fields).")
    ] = True,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Cost of one step: time, FFT share, passes over the data, memory; against bare FFTs and plain RK4IP."""
    from wavefabric.bench import fibre_step
    from wavefabric.optics.propagation.integrators import INTEGRATORS
    from wavefabric.units import quantity

    with Status(as_json) as say:
        result = fibre_step.run(
            [_case(text) for text in cases or []],
            ("double", "single") if precision == "both" else (precision,),
            list(INTEGRATORS) if integrators == "all" else parse_list(integrators),
            quantity(step, "m", "--step"),
            repeats,
            error_steps,
            plain,
            device,
            threads,
            say,
        )
    show_measurement(fibre_step, result, as_json, output, plot)


@bench.command("fibre-order")
def fibre_order(
    case: Annotated[str, typer.Option("--case", help="pulses (smooth), wdm, or both.")] = "both",
    points: Annotated[
        int, typer.Option("--points", help="Step sizes an integrator, each half the last.")
    ] = 6,
    tolerances: Annotated[
        str, typer.Option("--tolerances", help="Of erk43ip, comma between; none: leave out.")
    ] = "1e-3,1e-4,1e-5,1e-6,1e-7",
    phases: Annotated[
        str, typer.Option("--phases", help="rad, of strang by phase, comma between; none: leave out.")
    ] = "0.1,0.03,0.01,0.003,0.001",
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Work-precision diagram of all integrators: error against FFTs, exchanges and time."""
    from wavefabric.bench import fibre_order

    with Status(as_json) as say:
        result = fibre_order.run(
            ("pulses", "wdm") if case == "both" else (case,),
            points,
            _numbers(tolerances, "--tolerances"),
            _numbers(phases, "--phases"),
            device,
            threads,
            say,
        )
    show_measurement(fibre_order, result, as_json, output, plot)


@bench.command("fibre-q2")
def fibre_q2(
    groups: Annotated[int, typer.Option("--groups", help="Mode groups 1 to so many (15: 120 modes).")] = 15,
    channels: Annotated[int, typer.Option("--channels", help="WDM channels on 50 GHz.")] = 60,
    symbols: Annotated[int, typer.Option("--symbols", help="Symbols a channel (paper: 16384).")] = 64,
    samples: Annotated[
        int | None, typer.Option("--samples", help="Samples a symbol. \\[default: 1.25 x band, power of 2]")
    ] = None,
    steps: Annotated[
        str, typer.Option("--steps", help="Steps, comma between, e.g. 50m,rk4ip:200m.")
    ] = "100m,50m",
    integrator: Annotated[str, typer.Option("--integrator", help="Of the steps that name none.")] = "strang",
    precision: Annotated[str, typer.Option("--precision", help="double or single.")] = "double",
    spans: Annotated[int, typer.Option("--spans", help="Amplified spans.")] = 2,
    span_length: Annotated[str, typer.Option("--span-length", help="Length of a span.")] = "80 km",
    source: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Read this result instead of simulating; may be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Simulate anew, replace results.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Figures 4 and 5 of the paper: Q² of each mode after the link, and its convergence in step size."""
    from wavefabric.bench import fibre_q2
    from wavefabric.cli.common.progress import make_progress

    progress = make_progress(as_json)
    try:
        result = fibre_q2.run(
            groups,
            channels,
            symbols,
            samples,
            parse_list(steps),
            integrator,
            precision,
            spans,
            span_length,
            source or (),
            output or Path(),
            force,
            device,
            threads,
            progress,
        )
    finally:
        progress.finish()
    show_measurement(fibre_q2, result, as_json, output, plot)


@bench.command("ultrasound-step")
def ultrasound_step(
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            help="Points, N or NXxNYxNZ; may be repeated. \\[default: 128 on a CPU, 256 and 512 on a GPU]",
        ),
    ] = None,
    medium: Annotated[str, typer.Option("--medium", help="homogeneous, heterogeneous, or both.")] = "both",
    precision: Annotated[str, typer.Option("--precision", help="single or double.")] = "single",
    repeats: Annotated[int, typer.Option("--repeats", help="Rounds; medians count.")] = 15,
    plain: Annotated[
        bool, typer.Option("--plain/--no-plain", help="Time stages of whole-array transforms too.")
    ] = True,
    peer: Annotated[
        Path | None,
        typer.Option("--peer", help="kspaceFirstOrder-OMP or -CUDA, to be run on the same problems."),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Cost of one ultrasound time step: time against bare 3-D transforms, passes over the data, memory."""
    from wavefabric.bench import ultrasound_cases, ultrasound_step

    with Status(as_json) as say:
        result = ultrasound_step.run(
            [grid(text) for text in sizes or []],
            ultrasound_cases.MEDIA if medium == "both" else (medium,),
            precision,
            repeats,
            plain,
            peer,
            device,
            threads,
            say,
        )
    show_measurement(ultrasound_step, result, as_json, output, plot)


@bench.command("ultrasound-stability")
def ultrasound_stability(
    media: Annotated[int, typer.Option("--media", help="How many random media.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Of the media.")] = 1,
    steps: Annotated[int, typer.Option("--steps", help="Time steps of each run.")] = 400,
    points: Annotated[int, typer.Option("--points", help="Grid points at most, from 16.")] = 40,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Random media at random time steps: what is refused, stopped and returned, against eigenvalues (CPU)."""
    from wavefabric.bench import ultrasound_stability

    with Status(as_json) as say:
        result = ultrasound_stability.run(media, seed, steps, points, say)
    show_measurement(ultrasound_stability, result, as_json, output, False)


# --- options and answers -----------------------------------------------------------------------------


def _numbers(text: str, key: str) -> list[float]:
    if text.strip() == "none":
        return []
    try:
        return [float(word) for word in parse_list(text)]
    except ValueError:
        raise InputError(f"{key}: {text!r} given; allowed: numbers with a comma between, or none") from None


def _case(text: str) -> tuple[int, int]:
    rows, x, log2_n = text.lower().replace(" ", "").replace("2^", "").partition("x")
    if not (x and rows.isdecimal() and log2_n.isdecimal()):
        raise InputError(f"--case: {text!r} given; allowed: rows x log2 of samples, such as 30x21")
    return int(rows), int(log2_n)
