"""`wavefabric bench`: what a step, an exchange and more ranks cost on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from wavefabric.cli.bench import ultrasound
from wavefabric.cli.bench.options import Local, OverRanks
from wavefabric.cli.common.measure import Repeats
from wavefabric.cli.common.options import grouped
from wavefabric.cli.common.parse import parse_list, parse_sizes
from wavefabric.errors import InputError

bench = typer.Typer(no_args_is_help=True, help="Benchmarks: what steps and exchanges cost on this machine.")


def register(app: typer.Typer) -> None:
    """Add ``bench`` to the command."""
    for name, command in {
        "fibre-step": fibre_step,
        "fibre-scaling": fibre_scaling,
        "exchange": exchange,
        **ultrasound.COMMANDS,
    }.items():
        bench.command(name)(grouped(command))
    app.add_typer(bench, name="bench")


def fibre_step(
    common: Local,
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
) -> None:
    """Cost of one step: time, FFT share, passes over the data, memory; against bare FFTs and plain RK4IP."""
    from wavefabric.bench import fibre_step as module
    from wavefabric.optics.propagation.integrators import INTEGRATORS
    from wavefabric.units import quantity

    common.run(
        module,
        [_parse_case(text) for text in cases or []],
        ("double", "single") if precision == "both" else (precision,),
        list(INTEGRATORS) if integrators == "all" else parse_list(integrators),
        quantity(step, "m", "--step"),
        repeats,
        error_steps,
        plain,
    )


def fibre_scaling(
    common: OverRanks,
    modes: Annotated[int, typer.Option("--modes-per-rank", help="Spatial modes of a rank.")] = 15,
    log2_n: Annotated[
        int | None, typer.Option("--log2n", help="log2 of the samples a row. \\[default: CPU 12, GPU 21]")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", help="Steps in a sample.")] = 150,
    exchanges: Annotated[
        str, typer.Option("--exchange", help="What travels: dense, factored, comma between.")
    ] = "dense,factored",
    step: Annotated[str, typer.Option("--step", help="Step; does not change the time.")] = "100 m",
    repeats: Repeats = 3,
) -> None:
    """Time of a step when the modes are split over ranks, over that of a step on one."""
    from wavefabric.bench import fibre_scaling as module
    from wavefabric.units import quantity

    length = quantity(step, "m", "--step")
    common.run(module, modes, log2_n, steps, parse_list(exchanges), length, repeats)


def exchange(
    common: OverRanks,
    patterns: Annotated[
        str,
        typer.Option("--patterns", help="ping, ring, halo, all-gather, all-to-all, comma between, or all."),
    ] = "all",
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes",
            help="Bytes from rank to rank: least:most, or with commas between; K, M, G are powers of 1024. "
            "\\[default: 64K:4M on CPUs, 64K:1G on GPUs]",
        ),
    ] = None,
    factor: Annotated[int, typer.Option("--factor", help="From one size to the next of least:most.")] = 4,
    repeats: Repeats = 5,
    peaks: Annotated[
        bool, typer.Option("--peaks", help="Give shares of bandwidths measured on H200.")
    ] = False,
) -> None:
    """Bandwidth, latency and correctness of every transport, in the manner of nccl-tests."""
    from wavefabric.bench import exchange as module

    chosen = parse_sizes(sizes, "--sizes", factor if ":" in sizes else None) if sizes is not None else []
    kinds = module.PATTERNS if patterns == "all" else parse_list(patterns)
    common.run(module, kinds, chosen, repeats, peaks)


def _parse_case(text: str) -> tuple[int, int]:
    rows, x, log2_n = text.lower().replace(" ", "").replace("2^", "").partition("x")
    if not (x and rows.isdecimal() and log2_n.isdecimal()):
        raise InputError(f"--case: {text!r} given; allowed: rows x log2 of samples, such as 30x21")
    return int(rows), int(log2_n)
