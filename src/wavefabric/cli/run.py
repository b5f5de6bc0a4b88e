"""`wavefabric run`: a run file or a k-Wave input file in; a result file, tables and figures out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.common.decomposition import DecompositionOptions
from wavefabric.cli.common.options import OutputOptions, changed, from_one, option, options, refuse
from wavefabric.cli.common.progress import naming_no_resume
from wavefabric.cli.common.ranks import PANEL, RankOptions
from wavefabric.cli.kwave_run import is_hdf5, run_kwave_file
from wavefabric.cli.run_fibre import run_link_file


@options()
class RunOptions(OutputOptions):
    """Options of both kinds of files."""

    output: Path | None = option(
        "Result file (HDF5). \\[default: the run file's stem + .h5, or k-Wave's + _out.h5]", "--output", "-o"
    )
    device: str | None = option("auto, cpu, cuda or cuda:K.")
    threads: int | None = option(
        "CPU threads. \\[default: all; ultrasound: by the size of the grid]", callback=from_one
    )
    no_resume: bool = option("Start anew even if there is a checkpoint.", default=False)
    quiet: bool = option("No progress bar, no table.", "--quiet", "-q", default=False)

    exchange: str | None = option(
        "Fibres: what ranks exchange, {wavefabric.optics.propagation.phase_groups:EXCHANGE_FORMS}. "
        "\\[default: auto]",
        panel=PANEL,
    )

    @property
    def silent(self) -> bool:
        """Whether nothing is said on the way."""
        return self.quiet or self.as_json


def command(
    file: Annotated[
        Path, typer.Argument(help="Run file (TOML; see docs/run-files.md) or k-Wave input file (HDF5).")
    ],
    asked: RunOptions,
    ranks: RankOptions,
    decomposition: DecompositionOptions,
) -> None:
    """Simulate the link of a run file, or a k-Wave input file.

    The same command again goes on where a killed one stopped.
    """
    ranks = replace(ranks, device=asked.device, threads=asked.threads)
    ranks.check()
    with naming_no_resume():
        if is_hdf5(file):
            refuse(changed(asked, "exchange"), "with a k-Wave file", "with run files")
            run_kwave_file(file, asked, ranks, decomposition)
            return
        refuse(changed(decomposition), "with a run file", "with k-Wave files")
        if ranks.count == 1:
            refuse(changed(asked, "exchange"), "for one rank", "with --ranks 2 or more")
        run_link_file(file, asked, ranks)
