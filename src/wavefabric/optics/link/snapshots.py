"""Fields along a link, each in a result file of its own."""

from pathlib import Path
from typing import Any

from wavefabric.exchange.communicator import Communicator
from wavefabric.lifecycle.agreement import on_first_rank
from wavefabric.optics.propagation.rank_modes import RankModes, RowReader
from wavefabric.optics.run_file.load import RunFile
from wavefabric.results import Data, ResultWriter, Rows, read_result


def field_rows(comm: Communicator, local_modes: RankModes, A) -> tuple[Rows, RowReader]:
    """The whole field on rank 0, read row by row while the other ranks `serve` theirs."""
    to_host = comm.device.to_host
    reader = RowReader(comm, local_modes, lambda i: to_host(A[i]), A.shape[1], A.dtype)
    return Rows((local_modes.row_ends[-1], A.shape[1]), A.dtype, reader.read), reader


class Snapshots:
    """Writes the field at the first look at it at or behind each of ``output.snapshots``.

    Files are called after the result: ``link-20km.h5`` beside ``link.h5``. `InputError` if one is there that
    this run (``fingerprint``) has not written, unless ``force`` replaces it.
    """

    def __init__(self, comm: Communicator, run: RunFile, writer: ResultWriter, fingerprint: str):
        self._comm, self._fingerprint = comm, fingerprint
        names = {at: f"{writer.path.stem}-{at / 1e3:g}km.h5" for at in sorted(set(run.output.snapshots))}
        paths = {at: writer.path.with_name(name) for at, name in names.items()}

        def check() -> list[float]:
            open_ = [at for at, path in paths.items() if not self._is_own(path)]
            for at in open_:
                ResultWriter(paths[at], writer.force, run.input_paths())
            return open_

        #: Files still to be written, by distance in m.
        self._due = {at: paths[at] for at in on_first_rank(comm, check)}

    def _is_own(self, path: Path) -> bool:
        """Whether this run wrote a file before it was interrupted."""
        return path.exists() and read_result(path).attrs().get("fingerprint") == self._fingerprint

    def take(self, A, local_modes: RankModes, distance: float, facts: dict[str, Any]) -> None:
        """Write what is due at ``distance`` m; all ranks call it with their rows ``A``, √W."""
        for at in [at for at in self._due if at <= distance * (1 + 1e-12)]:
            path = self._due.pop(at)
            rows, reader = field_rows(self._comm, local_modes, A)

            def write(path: Path = path, rows: Rows = rows, reader: RowReader = reader) -> None:
                about = {"distance_m": distance, "fingerprint": self._fingerprint}
                try:
                    content = {"field": Data(rows, "W^0.5", "complex envelopes, two polarisations a mode")}
                    ResultWriter(path, force=True).write(content, attributes=facts | about)
                finally:
                    reader.drain()

            if self._comm.rank:
                reader.serve()
            on_first_rank(self._comm, write)
