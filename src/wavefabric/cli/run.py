"""`wavefabric run`: a run file or a k-Wave input file in; a result file, tables and figures out."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.common.decomposition import GRID
from wavefabric.cli.common.files import is_hdf5
from wavefabric.cli.common.options import changed, refuse
from wavefabric.cli.common.progress import naming_no_resume
from wavefabric.cli.planned import PlannedOptions
from wavefabric.cli.run_options import RunOptions, RunRankOptions


def command(
    file: Annotated[
        Path, typer.Argument(help="Run file (TOML; see docs/run-files.md) or k-Wave input file (HDF5).")
    ],
    options: RunOptions,
    ranks: RunRankOptions,
    planned: PlannedOptions,
) -> None:
    """Simulate the link of a run file, or a k-Wave input file.

    The same command again goes on where a killed one stopped.
    """
    ranks = replace(ranks, device=options.device, threads=options.threads)
    ranks.check()
    ranks.check_files(options.force, file, options.output)
    with naming_no_resume(), planned.for_one_run():
        options, ranks = planned.apply(file, options, ranks)
        if is_hdf5(file):
            refuse(changed(options, "exchange", "verify_step"), "with a k-Wave file", "with run files")
            from wavefabric.cli.kwave_run import run_and_show

            run_and_show(file, options, ranks)
            return
        refuse(changed(ranks, *GRID), "with a run file", "with k-Wave files")
        if ranks.count == 1:
            refuse(changed(options, "exchange"), "for one rank", "with --ranks 2 or more")
        from wavefabric.cli.run_fibre import run_link_file

        run_link_file(file, options, ranks)
