"""`wavefabric run`: a run file or a k-Wave input file in; a result file, tables and figures out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.common.decomposition import DecompositionOptions
from wavefabric.cli.common.lifecycle import naming_no_resume
from wavefabric.cli.common.options import Device, Json, Quiet, changed, grouped, option
from wavefabric.cli.common.ranks import PANEL, RankOptions
from wavefabric.cli.run_fibre import run_link_file
from wavefabric.cli.run_ultrasound import is_hdf5, run_kwave_file
from wavefabric.errors import InputError


@grouped
def command(
    file: Annotated[
        Path, typer.Argument(help="Run file (TOML; see docs/run-files.md) or k-Wave input file (HDF5).")
    ],
    ranks: RankOptions,
    decomposition: DecompositionOptions,
    output: Annotated[
        Path | None,
        option(
            "--output",
            "-o",
            help="Result file (HDF5). \\[default: the run file's stem + .h5, or k-Wave's + _out.h5]",
        ),
    ] = None,
    force: Annotated[bool, option("--force", help="Replace the result file if it exists.")] = False,
    device: Device = None,
    threads: Annotated[
        int | None,
        option("--threads", help="CPU threads. \\[default: all; ultrasound: by the size of the grid]"),
    ] = None,
    no_resume: Annotated[
        bool, option("--no-resume", help="Start anew even if there is a checkpoint.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    exchange: Annotated[
        str | None,
        option(
            "--exchange",
            help="Fibres: what ranks exchange, {wavefabric.optics.propagation.kerr_exchange:FORMS}. "
            "\\[default: auto]",
            panel=PANEL,
        ),
    ] = None,
) -> None:
    """Simulate the link of a run file, or a k-Wave input file.

    The same command again goes on where a killed one stopped.
    """
    ranks = replace(ranks, device=device, threads=threads)
    ranks.check()
    ways = {"force": force, "resume": not no_resume, "quiet": quiet, "as_json": as_json}
    with naming_no_resume():
        if is_hdf5(file):
            if exchange is not None:
                raise InputError(f"--exchange: {exchange} given with a k-Wave file; allowed: with run files")
            run_kwave_file(file, output, ranks, decomposition, **ways)
            return
        for name, value in changed(decomposition).items():
            raise InputError(f"--{name}: {value} given with a run file; allowed: with k-Wave files")
        if exchange is not None and ranks.count == 1:
            raise InputError(f"--exchange: {exchange} given for one rank; allowed: with --ranks 2 or more")
        run_link_file(file, output, ranks, exchange, **ways)
