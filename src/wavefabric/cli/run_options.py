"""Define the options of `wavefabric run` for run files and k-Wave files, and of other simulating commands."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from wavefabric.base.files.output import check_output
from wavefabric.base.system.progress import Progress
from wavefabric.cli.common.decomposition import GridRankOptions
from wavefabric.cli.common.options import OutputOptions, argument, changed, option, options, refuse
from wavefabric.cli.common.ranks import PANEL
from wavefabric.runtime.exchange.communicator import Communicator


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
        """Whether the command prints no progress."""
        return self.quiet or self.as_json


@options()
class RunOptions(SimulationOptions):
    """Options of `wavefabric run` for run files and k-Wave files."""

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
    """Options of the number of ranks, the decomposition of a grid, and recording the exchanges of a step."""

    record_schedule: Path | None = option("Write what ranks exchange in a step, as a schedule (JSON).")

    def check_files(self, force: bool, *files: Path | None) -> None:
        """Raise `InputError` if ``--record-schedule`` is impossible, or names one of the run's ``files``."""
        recorded = changed(self, "record_schedule")
        if self.count == 1:
            refuse(recorded, "for one rank", "with --ranks 2 or more")
        if self.record_schedule in files:
            refuse(recorded, "twice", "another name than those of other files")
        if self.record_schedule is not None:
            check_output(self.record_schedule, force, "--record-schedule", endings=(".json",))

    @contextmanager
    def recording(self, comm: Communicator | None, force: bool, progress: Progress) -> Iterator[None]:
        """Record what ranks exchange in one step of the run in the block, if asked for; collective."""
        with ExitStack() as stack:
            if self.record_schedule is not None and comm is not None:
                stack.enter_context(comm.recording(self.record_schedule, force))
                stack.callback(progress.finish)  # before the recorder writes its file, which may fail
            yield
