"""`wavefabric fabric measure`: the fabric between real ranks, as a TOML file that costs can be taken on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from wavefabric.cli.common import ranks as common_ranks
from wavefabric.cli.common.files import check_target
from wavefabric.cli.common.measure import Device, Factor, RankSession, Repeats, Threads
from wavefabric.cli.common.options import Force, Json, option
from wavefabric.cli.common.parse import optional_sizes
from wavefabric.cli.common.show import print_written
from wavefabric.errors import InputError


def command(
    ranks: common_ranks.Ranks = None,
    transport: Annotated[
        str,
        option(
            "--transport", help="p2p, nccl, mpi-cuda, mpi, comma between, or all.", panel=common_ranks.PANEL
        ),
    ] = "all",
    sizes: Annotated[
        str | None, option("--sizes", help="Bytes of a message: least:most, or with commas between.")
    ] = None,
    factor: Factor = None,
    repeats: Repeats = 5,
    residual: Annotated[
        float,
        option("--residual", help="No file is written where a fit is off by more than so many percent."),
    ] = 75.0,
    name: Annotated[str, option("--name", help="Of the fabric.")] = "measured",
    placement: common_ranks.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    output: Annotated[Path | None, option("--output", "-o", help="Fabric (TOML).")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure latency and bandwidth between all ranks, and what they share; write a fabric.

    Nothing is written where a time is further from its fitted line than --residual, or times do not grow with
    bytes: something else was running, or the sizes are too small.

    Example: wavefabric fabric measure --ranks 4 -o mine.toml
    """
    from wavefabric.execution import fabric_measure as module
    from wavefabric.files.text import write_text

    if common_ranks.is_rank_zero():
        check_target(output, force, (".toml",))
    chosen = optional_sizes(sizes, factor)
    if not 0 < residual < 1e6:
        raise InputError(f"--residual: {residual} given; allowed: percent above 0")
    with RankSession(ranks, transport, placement, device, threads, as_json) as job:
        result = module.run(job.ranks, chosen, repeats, name, job.say, residual / 100)
        job.show(module, result, None, False)
        if output is None:
            return
        if result["fabric"] is None:
            raise InputError(
                "--transport: none could be used, so there is no fabric; allowed: see the reasons"
            )
        misfits = result["cases"][0]["misfits"]
        if misfits:
            more = f" (and {len(misfits) - 1} more)" if len(misfits) > 1 else ""
            allowed = f"residuals to {residual:g} % (--residual) of times that grow; measure again in quiet"
            raise InputError(f"--output: {output} not written: {misfits[0]}{more}; allowed: {allowed}")
        if job.ranks.rank == 0:
            write_text(output, result["fabric"], "--output", force)
            if not as_json:
                print_written([output])
