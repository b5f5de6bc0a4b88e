"""Options of `wavefabric run` that both kinds of files have, and of other commands that simulate."""

from pathlib import Path

from wavefabric.cli.common.options import OutputOptions, from_one, option, options
from wavefabric.cli.common.ranks import PANEL


@options()
class SimulationOptions(OutputOptions):
    """Options of commands that simulate."""

    output: Path | None = option("Result file (HDF5).", "--output", "-o")
    device: str | None = option("auto, cpu, cuda or cuda:K.")
    threads: int | None = option(
        "CPU threads. \\[default: all; ultrasound: by the size of the grid]", callback=from_one
    )
    no_resume: bool = option("Start anew even if there is a checkpoint.", default=False)
    quiet: bool = option("No progress bar, no table.", "--quiet", "-q", default=False)

    @property
    def silent(self) -> bool:
        """Whether nothing is said on the way."""
        return self.quiet or self.as_json


@options()
class RunOptions(SimulationOptions):
    """Options of both kinds of files."""

    output: Path | None = option(
        "Result file (HDF5). \\[default: the run file's stem + .h5, or k-Wave's + _out.h5]", "--output", "-o"
    )
    verify_step: bool = option(
        "Fibres: first take a short part at half the step too, and say what that changes.", default=False
    )
    exchange: str | None = option(
        "Fibres: what ranks exchange, {wavefabric.optics.propagation.phase_groups:EXCHANGE_FORMS}. "
        "\\[default: auto]",
        panel=PANEL,
    )
