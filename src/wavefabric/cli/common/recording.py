"""The option that records a run's own exchanges as a schedule."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from wavefabric.cli.common.files import check_target
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.ranks import PANEL, RankOptions
from wavefabric.exchange.communicator import Communicator
from wavefabric.system.progress import Progress


@options(PANEL)
class RecordingOptions:
    """Whether a step is recorded, and where."""

    record_schedule: Path | None = option("Write what ranks exchange in a step, as a schedule (JSON).")

    def check(self, ranks: RankOptions, force: bool, *files: Path | None) -> None:
        """Refuse what cannot be, before ranks are started; ``files`` are others of the run."""
        if ranks.count == 1:
            refuse(changed(self), "for one rank", "with --ranks 2 or more")
        if self.record_schedule is not None and self.record_schedule in files:
            refuse(changed(self), "twice", "another name than those of other files")
        check_target(self.record_schedule, force, (".json",), "--record-schedule")

    @contextmanager
    def recording(self, comm: Communicator | None, force: bool, progress: Progress) -> Iterator[None]:
        """Around the run; collective."""
        with ExitStack() as stack:
            if self.record_schedule is not None and comm is not None:
                stack.enter_context(comm.recording(self.record_schedule, force))
                stack.callback(progress.finish)  # before anything is said
            yield
