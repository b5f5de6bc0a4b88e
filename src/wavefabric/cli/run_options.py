"""Options of `wavefabric run` that both kinds of files have, and of other commands that simulate."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from wavefabric.cli.common.decomposition import GridRankOptions
from wavefabric.cli.common.options import OutputOptions, argument, changed, option, options, refuse
from wavefabric.cli.common.ranks import PANEL
from wavefabric.exchange.communicator import Communicator
from wavefabric.files.output import check_output
from wavefabric.system.progress import Progress


@options()
class SimulationOptions(OutputOptions):
    """Options of commands that simulate."""

    output: Path | None = option("Result file (HDF5).", "--output", "-o")
    device: str | None = option("auto, cpu, cuda or cuda:K.")
    threads: int | None = option(
        "CPU threads. [default: all; ultrasound: by the size of the grid]", limits=(1,)
    )
    no_resume: bool = option("Start anew even if there is a checkpoint.", default=False)
    quiet: bool = option("No progress bar, no table.", "--quiet", "-q", default=False)

    @property
    def silent(self) -> bool:
        """Whether nothing is said on the way."""
        return self.quiet or self.as_json


@options()
class RunOptions(SimulationOptions):
    """The file, and options of both kinds."""

    file: Path = argument("Run file (TOML; see docs/run-files.md) or k-Wave input file (HDF5).")
    output: Path | None = option(
        "Result file (HDF5). [default: the run file's stem + .h5, or k-Wave's + _out.h5]", "--output", "-o"
    )
    verify_step: bool = option(
        "Fibres: first take a short part at half the step too, and say what that changes.", default=False
    )
    exchange: str | None = option(
        "Fibres: what ranks exchange, {wavefabric.optics.propagation.phase_groups:EXCHANGE_FORMS}. "
        "[default: auto]",
        panel=PANEL,
    )


@options(PANEL)
class RunRankOptions(GridRankOptions):
    """Options of how many ranks there are, how they share a grid, and where a step of theirs is recorded."""

    record_schedule: Path | None = option("Write what ranks exchange in a step, as a schedule (JSON).")

    def check_files(self, force: bool, *files: Path | None) -> None:
        """Refuse a recording that cannot be, before ranks are started; ``files`` are others of the run."""
        recorded = changed(self, "record_schedule")
        if self.count == 1:
            refuse(recorded, "for one rank", "with --ranks 2 or more")
        if self.record_schedule in files:
            refuse(recorded, "twice", "another name than those of other files")
        if self.record_schedule is not None:
            check_output(self.record_schedule, force, "--record-schedule", endings=(".json",))

    @contextmanager
    def recording(self, comm: Communicator | None, force: bool, progress: Progress) -> Iterator[None]:
        """Around the run; collective."""
        with ExitStack() as stack:
            if self.record_schedule is not None and comm is not None:
                stack.enter_context(comm.recording(self.record_schedule, force))
                stack.callback(progress.finish)  # before anything is said
            yield
