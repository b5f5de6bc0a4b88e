"""`wavefabric fabric measure`: the fabric between real ranks, as a TOML file that costs can be taken on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli import collective_source as source
from wavefabric.cli import ranks as several
from wavefabric.cli.bench_ranks import Device, Job, Repeats, Threads
from wavefabric.errors import InputError


def command(
    ranks: several.Ranks = None,
    transport: several.Transport = None,
    sizes: Annotated[
        str | None, typer.Option("--sizes", help="Bytes of a message: least:most, or with commas between.")
    ] = None,
    factor: source.Factor = None,
    repeats: Repeats = 5,
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

    Example: wavefabric fabric measure --ranks 4 -o mine.toml
    """
    from wavefabric.bench import fabric_measure as module
    from wavefabric.text_files import write_text

    if several.first():
        source.check_target(output, force, (".toml",))
    chosen = source.chosen_sizes(sizes, factor)
    with Job(ranks, transport or "all", placement, device, threads, as_json) as job:
        result = module.run(job.ranks, chosen, repeats, name, job.say)
        job.show(module, result, None, False)
        if output is None:
            return
        if result["fabric"] is None:
            raise InputError(
                "--transport: none could be used, so there is no fabric; allowed: see the reasons"
            )
        if job.ranks.rank == 0:
            write_text(output, result["fabric"], "--output", force)
            if not as_json:
                source.say_written([output])
