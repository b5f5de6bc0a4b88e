"""`wavefabric fabric measure`: the fabric between real ranks, as a TOML file that costs can be taken on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.collective import source
from wavefabric.cli.common import ranks as several
from wavefabric.cli.common.measure import Device, RankSession, Repeats, Threads
from wavefabric.errors import InputError


def command(
    ranks: several.Ranks = None,
    transport: several.Transport = None,
    sizes: Annotated[
        str | None, typer.Option("--sizes", help="Bytes of a message: least:most, or with commas between.")
    ] = None,
    factor: source.Factor = None,
    repeats: Repeats = 5,
    residual: Annotated[
        float,
        typer.Option(
            "--residual", help="No file is written where a fit is off by more than so many percent."
        ),
    ] = 75.0,
    name: Annotated[str, typer.Option("--name", help="Of the fabric.")] = "measured",
    placement: several.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Fabric (TOML).", show_default=False)
    ] = None,
    force: source.Force = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all numbers as JSON and nothing else.")
    ] = False,
) -> None:
    """Measure latency and bandwidth between all ranks, and what they share; write a fabric.

    Nothing is written where a time is further from its fitted line than --residual, or times do not grow with
    bytes: something else was running, or the sizes are too small.

    Example: wavefabric fabric measure --ranks 4 -o mine.toml
    """
    from wavefabric.execution import measure_fabric as module
    from wavefabric.files.text import write_text

    if several.first():
        source.check_target(output, force, (".toml",))
    chosen = source.chosen_sizes(sizes, factor)
    if not 0 < residual < 1e6:
        raise InputError(f"--residual: {residual} given; allowed: percent above 0")
    with RankSession(ranks, transport or "all", placement, device, threads, as_json) as job:
        result = module.run(job.ranks, chosen, repeats, name, job.say, residual / 100)
        job.show(module, result, None, False)
        if output is None:
            return
        if result["fabric"] is None:
            raise InputError(
                "--transport: none could be used, so there is no fabric; allowed: see the reasons"
            )
        wrong = result["cases"][0]["misfits"]
        if wrong:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            allowed = f"residuals to {residual:g} % (--residual) of times that grow; measure again in quiet"
            raise InputError(f"--output: {output} not written: {wrong[0]}{more}; allowed: {allowed}")
        if job.ranks.rank == 0:
            write_text(output, result["fabric"], "--output", force)
            if not as_json:
                source.say_written([output])
