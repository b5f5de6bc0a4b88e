"""`wavefabric bench`: tables and figures of the paper, costs and convergence, each one a command."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from wavefabric.errors import InputError

bench = typer.Typer(
    no_args_is_help=True, help="Benchmarks: tables and figures of the papers, and what a step costs."
)

Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:K.")]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads. [default: all]")]
Json = Annotated[bool, typer.Option("--json", help="Print all numbers as JSON and nothing else.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder for the picture and the numbers (JSON). [default: .]"),
]
Plot = Annotated[
    bool | None,
    typer.Option(
        "--plot/--no-plot", help="Draw the picture. [default: yes; with --json if --output is given]"
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``bench`` to the command."""
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
    from wavefabric.bench import fibre_modes, measure
    from wavefabric.device import get_device
    from wavefabric.units import quantity

    place = get_device(device)
    result = fibre_modes.run(quantity(radial_step, "m", "--radial-step"))
    result["machine"] = measure.machine(place)
    _show(fibre_modes, result, as_json, output, plot)


@bench.command("fibre-step")
def fibre_step(
    cases: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            help="Rows x log2 of samples, e.g. 30x21; may be repeated. "
            "[default: 2x17 and 30x15 on a CPU, 30x21 on a GPU]",
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
    from wavefabric.optics.integrators import INTEGRATORS
    from wavefabric.units import quantity

    with _Status(as_json) as say:
        result = fibre_step.run(
            [_case(text) for text in cases or []],
            ("double", "single") if precision == "both" else (precision,),
            list(INTEGRATORS) if integrators == "all" else _words(integrators),
            quantity(step, "m", "--step"),
            repeats,
            error_steps,
            plain,
            device,
            threads,
            say,
        )
    _show(fibre_step, result, as_json, output, plot)


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

    with _Status(as_json) as say:
        result = fibre_order.run(
            ("pulses", "wdm") if case == "both" else (case,),
            points,
            _numbers(tolerances, "--tolerances"),
            _numbers(phases, "--phases"),
            device,
            threads,
            say,
        )
    _show(fibre_order, result, as_json, output, plot)


@bench.command("fibre-q2")
def fibre_q2(
    groups: Annotated[int, typer.Option("--groups", help="Mode groups 1 to so many (15: 120 modes).")] = 15,
    channels: Annotated[int, typer.Option("--channels", help="WDM channels on 50 GHz.")] = 60,
    symbols: Annotated[int, typer.Option("--symbols", help="Symbols a channel (paper: 16384).")] = 64,
    samples: Annotated[
        int | None, typer.Option("--samples", help="Samples a symbol. [default: 1.25 x the band, power of 2]")
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
    from wavefabric.cli.progress import make_progress

    progress = make_progress(as_json)
    try:
        result = fibre_q2.run(
            groups,
            channels,
            symbols,
            samples,
            _words(steps),
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
    _show(fibre_q2, result, as_json, output, plot)


@bench.command("ultrasound-step")
def ultrasound_step(
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            help="Points, N or NXxNYxNZ; may be repeated. [default: 128 on a CPU, 256 and 512 on a GPU]",
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

    with _Status(as_json) as say:
        result = ultrasound_step.run(
            [_grid(text) for text in sizes or []],
            ultrasound_cases.MEDIA if medium == "both" else (medium,),
            precision,
            repeats,
            plain,
            peer,
            device,
            threads,
            say,
        )
    _show(ultrasound_step, result, as_json, output, plot)


# --- options and answers -----------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str, key: str) -> list[float]:
    if text.strip() == "none":
        return []
    try:
        return [float(word) for word in _words(text)]
    except ValueError:
        raise InputError(f"{key}: {text!r} given; allowed: numbers with a comma between, or none") from None


def _case(text: str) -> tuple[int, int]:
    rows, x, log2_n = text.lower().replace(" ", "").replace("2^", "").partition("x")
    if not (x and rows.isdecimal() and log2_n.isdecimal()):
        raise InputError(f"--case: {text!r} given; allowed: rows x log2 of samples, such as 30x21")
    return int(rows), int(log2_n)


def _grid(text: str) -> tuple[int, int, int]:
    words = text.lower().replace(" ", "").split("x")
    if len(words) not in (1, 3) or not all(word.isdecimal() for word in words):
        raise InputError(f"--size: {text!r} given; allowed: N or NXxNYxNZ, such as 128 or 256x128x128")
    numbers = [int(word) for word in words]
    x, y, z = numbers * (3 // len(numbers))
    return x, y, z


class _Status:
    """What is being measured, on a terminal only; gone when done."""

    def __init__(self, quiet: bool):
        self._status: Any = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("")

    def __enter__(self):
        if self._status is not None:
            self._status.start()
        return self._say

    def _say(self, line: str) -> None:
        if self._status is not None:
            self._status.update(line)

    def __exit__(self, *_):
        if self._status is not None:
            self._status.stop()


def _show(module: ModuleType, result: dict[str, Any], as_json: bool, output: Path | None, plot: bool | None):
    """Print tables or JSON; write picture and numbers."""
    name, written = result["benchmark"], []
    result = _plain(result)
    folder = output or Path()
    if plot is None:
        plot = not as_json or output is not None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if output is not None:
            numbers = folder / f"{name}.json"
            numbers.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            written.append(numbers)
        if plot:
            picture = folder / f"{name}.png"
            written += module.plot(result, picture) or [picture]
    except OSError as error:
        raise InputError(f"--output: {folder} cannot be used ({error.strerror})") from None
    if as_json:
        typer.echo(json.dumps(result))
        return
    from rich.console import Console

    # Tables are for reading whole: where there is no terminal, 80 columns would cut them.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    for each in module.table(result):
        console.print(each)
    machine = result.get("machine", {})
    chip = machine.get("gpu") or f"{machine.get('cpu', '?')}, {machine.get('threads', '?')} threads"
    console.print(f"{machine.get('device', '?')}: {chip}; wavefabric {machine.get('wavefabric', '?')}")
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True, markup=False)


def _plain(value: Any) -> Any:
    """Values that JSON has; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
