"""Reception of a field behind some spans of a link, as the run file says: of runs and of trial steps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from wavefabric.exchange.communicator import Communicator
from wavefabric.optics.link.back_propagation import BackPropagation
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.signal.receiver import Receiver, ReceiverResult
from wavefabric.system.progress import Progress


@dataclass
class LinkReceiver:
    """Loads noise, undoes the link or propagates back, and receives, on all ranks of ``comm``.

    With ``inverse`` the receiver knows the inverse of the whole link, whatever its equaliser.
    """

    run: RunFile
    path: LinkPath
    receiver: Receiver
    comm: Communicator
    inverse: bool = False
    _back: BackPropagation | None = None

    def receive(
        self,
        operators: FibreOperators,
        field,
        spans: int,
        progress: Progress,
        on_row: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> ReceiverResult:
        """Receive the modes of this rank from ``field``, which is left as it is, behind so many ``spans``.

        ``on_row(done, total)`` is called after each row and back-propagated span; ``options`` are those of
        `Receiver.receive`.
        """
        path, receiver, device = self.path, self.receiver, self.comm.device
        modes, gain, back = path.local_modes, path.net_gain(spans), self.run.receiver.back_propagation
        through = spans * path.link.length, path.fibre.beta, path.inverse_mixing(spans)
        if path.inverted or self.inverse:
            field, through = field.copy(), (0.0, None, None)
            if back is not None or not path.unitary:
                # What amplifies some rows more than others, or is not linear, changes noise: it comes first.
                receiver.load_noise(device, field, modes.first_mode, gain)
                receiver = replace(receiver, osnr_db=None)
            if back is None:
                path.undo_linear(operators, field, spans)
            else:
                solver = self.run.solver
                self._back = self._back or BackPropagation(path, device, self.comm, solver, back)
                progress.start(self._back.parts * spans, "digital back-propagation, spans")
                self._back.run(field, spans, on_row)
        progress.start(modes.rows, f"receiver, {f'span {spans}' if spans else 'back to back'}, rows")
        options |= {"joint": self.run.receiver.sets(path.fibre.group_sizes), "control": self.comm.control}
        options |= {"first_mode": modes.first_mode, "modes": path.fibre.modes, "progress": on_row}
        return receiver.receive(device, field, *through, power_gain=gain, **options)
