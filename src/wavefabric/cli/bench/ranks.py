"""`wavefabric bench`: what several ranks exchange, what they gain, and what an approximation costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.bench.show import Json, Output, Plot
from wavefabric.cli.common import ranks as cli_ranks
from wavefabric.cli.common.measure import (
    Device,
    RankSession,
    Repeats,
    Threads,
    Transports,
    show_measurement,
)
from wavefabric.cli.common.parse import parse_list
from wavefabric.errors import InputError

_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30}


def register(bench: typer.Typer) -> None:
    """Add the benchmarks of several ranks to ``bench``."""
    bench.command("exchange")(exchange)
    bench.command("fibre-scaling")(fibre_scaling)


def exchange(
    transports: Transports = "all",
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
    ranks: cli_ranks.Ranks = None,
    placement: cli_ranks.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Bandwidth, latency and correctness of every transport, in the manner of nccl-tests."""
    from wavefabric.bench import exchange as module

    chosen = _sizes(sizes, factor)
    kinds = module.PATTERNS if patterns == "all" else parse_list(patterns)
    with RankSession(ranks, transports, placement, device, threads, as_json) as job:
        result = module.run(job.ranks, kinds, chosen, repeats, peaks, job.say)
        job.show(module, result, output, plot)


def fibre_scaling(
    transports: Transports = "all",
    modes: Annotated[int, typer.Option("--modes-per-rank", help="Spatial modes of a rank.")] = 15,
    log2_n: Annotated[
        int | None, typer.Option("--log2n", help="log2 of the samples a row. \\[default: CPU 12, GPU 21]")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", help="Steps in a sample.")] = 150,
    exchanges: Annotated[
        str, typer.Option("--exchange", help="What travels: dense, factored, comma between.")
    ] = "dense,factored",
    step: Annotated[str, typer.Option("--step", help="Step; does not change the time.")] = "100 m",
    source: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            help="JSON of a run; to be repeated, for the curve over ranks (figure 3). Nothing is run.",
        ),
    ] = None,
    repeats: Repeats = 3,
    ranks: cli_ranks.Ranks = None,
    placement: cli_ranks.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Table 1 and figure 3 of the paper: a step when the modes are split over ranks, over a step on one."""
    from wavefabric.bench import fibre_scaling as module
    from wavefabric.units import quantity

    if source:
        if ranks is not None:
            raise InputError(f"--ranks: {ranks} given together with --from; allowed: one of the two")
        show_curve(source, as_json, output, plot)
        return

    length = quantity(step, "m", "--step")
    with RankSession(ranks, transports, placement, device, threads, as_json) as job:
        result = module.run(job.ranks, modes, log2_n, steps, parse_list(exchanges), length, repeats, job.say)
        job.show(module, result, output, plot)


def show_curve(source: list[Path], as_json: bool, output: Path | None, plot: bool | None) -> None:
    """Put results of ``fibre-scaling`` together."""
    from wavefabric.bench import fibre_scaling_curve

    show_measurement(fibre_scaling_curve, fibre_scaling_curve.combine(source), as_json, output, plot)


def _sizes(text: str | None, factor: int) -> list[int]:
    from wavefabric.bench.exchange import sizes_between

    if text is None:
        return []
    if factor < 2:
        raise InputError(f"--factor: {factor} given; allowed: 2 or more")
    least, to, most = text.partition(":")
    if to:
        found = sizes_between(_bytes(least, text), _bytes(most, text), factor)
    else:
        found = [_bytes(word, text) for word in parse_list(text)]
    if not found:
        raise InputError(
            f"--sizes: {text!r} holds none; allowed: least:most, or numbers with a comma between"
        )
    return found


def _bytes(word: str, text: str) -> int:
    word = word.strip().lower().removesuffix("ib")
    digits = word.rstrip("bkmg")
    unit = word[len(digits) :]
    if not digits.isdecimal() or unit not in _UNITS or int(digits) < 1:
        raise InputError(f"--sizes: {text!r} given; allowed: such as 64K:1G or 64K,1M")
    return int(digits) << _UNITS[unit]
