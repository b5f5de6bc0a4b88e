"""Receive a field after some spans as the run file specifies, also with digital back-propagation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wavefabric.base.system.progress import Progress
from wavefabric.optics.link.build import propagation_options
from wavefabric.optics.link.elements import Lumped
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.link.propagators import LinkPropagator
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.run_file.tables import BackPropagationTable
from wavefabric.optics.signal.receiver import Receiver, ReceiverResult
from wavefabric.runtime.device import Device, get_device
from wavefabric.runtime.exchange.communicator import Communicator

#: Default samples per symbol of one channel: they cover the spectrum that the Kerr effect widens.
CHANNEL_SAMPLES = 4
#: Largest field, in samples of all rows, whose signals the CPU computes in a run on a GPU.
_SMALL = 1 << 20


def signal_device(comm: Communicator, samples: int) -> Device:
    """Return the device that computes transmitter, receiver and spectra for a field of ``samples`` values.

    In a run on one GPU the CPU computes small signals: it is as fast, and saves the compilation of some sixty
    CuPy kernels, 0.15 s each.
    """
    small = comm.device.name != "cpu" and comm.size == 1 and samples <= _SMALL
    return get_device("cpu") if small else comm.device


def for_signals(comm: Communicator, field: Any) -> tuple[Device, Any]:
    """Choose the device that processes a received signal; return it, and ``field`` in its memory."""
    device = signal_device(comm, field.size)
    return device, field if device is comm.device else comm.device.to_host(field)


class BackPropagation:
    """Solves a `LinkPath` from its end to its beginning, by the integrators of `Propagator` with h < 0.

    ``of = "band"`` uses the whole field: without noise the result is the launched field, to the order of the
    integrator. ``of = "channel"`` solves each channel separately, like a receiver that sees no other channel:
    interference between channels stays. E. Ip, J. M. Kahn, J. Lightwave Technol. 26 (2008) 3416,
    doi 10.1109/JLT.2008.927791.
    """

    def __init__(self, run: RunFile, table: BackPropagationTable, path: LinkPath, comm: Communicator):
        self._path, self._device, self._comm = path, comm.device, comm
        steps = {"integrator": table.integrator, "step": table.step, "max_phase": None, "tolerance": None}
        self._options = propagation_options(run, path, **steps, backward=True, measure_error=False)
        self._scope, grid, self._rolloff = table.of, path.grid, run.signal.ascending("rolloff")
        samples = table.samples_per_symbol or CHANNEL_SAMPLES
        self._samples = min(samples, grid.samples_per_symbol)
        #: Number of propagations per span.
        self.parts = 1 if self._scope == "band" else grid.channels
        self._band = LinkPropagator(path, self._options, comm) if self._scope == "band" else None

    def run(self, field, spans: int, progress: Callable[[int, int], None] | None = None) -> None:
        """Propagate ``field`` (local rows, N), √W, back from the end of ``spans`` spans, in place.

        With ``of = "channel"`` light outside the channels' bands is removed. ``progress(done, total)`` counts
        spans, for each channel again if channels are solved separately.
        """
        if self._band:
            self._spans(self._path, self._band, field, spans, progress)
            return
        grid, device, xp = self._path.grid, self._device, self._device.xp
        half, order = grid.half_widths(self._rolloff), np.argsort(grid.bins)
        gaps = np.diff(grid.bins[order]) - half[order][1:] - half[order][:-1]
        spectrum = xp.stack([device.fft(row) for row in field])
        field[...] = 0
        for channel in range(grid.channels):
            n = self._samples * int(grid.channel_symbols[channel])
            offsets = np.fft.fftfreq(n, 1 / n).astype(np.int64)
            # A channel's band ends half way to its neighbours, so that it contains nothing of them.
            gap = int(gaps.min(initial=n)) + 2 * half[channel]
            inside = xp.asarray(np.flatnonzero(2 * np.abs(offsets) < gap))
            path = self._path.of_channel(channel, self._samples)
            propagator = LinkPropagator(path, self._options, self._comm)
            channel_bins = xp.asarray((grid.bins[channel] + offsets) % grid.samples)[inside]
            channel_field, bins = propagator.operators.empty(), xp.zeros(n, spectrum.dtype)
            for row in range(len(channel_field)):
                bins[inside] = spectrum[row, channel_bins]
                channel_field[row] = device.ifft(bins) * (n / grid.samples)
            self._spans(path, propagator, channel_field, spans, progress, channel * spans)
            for row in range(len(channel_field)):
                field[row, channel_bins] = device.fft(channel_field[row])[inside] * (grid.samples / n)
        for row in range(len(field)):
            field[row] = device.ifft(field[row])

    def _spans(self, path: LinkPath, propagator, field, spans: int, progress, done: int = 0) -> None:
        for number, span in enumerate(reversed(range(spans)), start=done + 1):
            for element in reversed(path.elements[path.end(span) : path.end(span + 1)]):
                if isinstance(element, Lumped):
                    element.undo(path, self._device, field)
                else:
                    propagator.run(field, path, element, backward=True)
            if progress is not None:
                progress(number, self.parts * spans)


@dataclass
class LinkReceiver:
    """Receives a link's field on all ranks of ``comm``, as the table [receiver] of the run file specifies.

    With ``inverse`` it undoes the linear effects of the whole link, even if [receiver] has an equaliser.
    """

    run: RunFile
    path: LinkPath
    receiver: Receiver
    comm: Communicator
    inverse: bool = False
    _inverse: BackPropagation | None = None

    def receive(
        self, propagator: LinkPropagator, field, spans: int, display: Progress, **options: Any
    ) -> ReceiverResult:
        """Receive the modes of this rank from ``field`` after ``spans`` spans; ``field`` is not changed.

        ``display`` shows progress. ``options`` are those of `Receiver.receive`; digital back-propagation also
        calls their ``progress``, with the spans done.
        """
        added_after, parts = self.path.added_after(spans), self.receiver.transmitter.parts
        if not added_after.any():
            return self._receive(self.receiver, 0, propagator, field, spans, display, **options)
        # Channels have passed only what came after they entered.
        starts = [(channels, start) for channels, _ in parts for start in np.unique(added_after[channels])]
        entered = [(channels[added_after[channels] == s], int(s)) for channels, s in starts if s >= 0]

        def receive(number: int, receiver: Receiver, **more: Any) -> ReceiverResult:
            return self._receive(receiver, entered[number][1], propagator, field, spans, display, **more)

        return self.receiver.receive_parts([channels for channels, _ in entered], receive, **options)

    def _receive(
        self,
        receiver: Receiver,
        start: int,
        propagator: LinkPropagator,
        field,
        spans: int,
        display: Progress,
        **options: Any,
    ) -> ReceiverResult:
        """Receive by ``receiver`` channels that were added after ``start`` elements; see `receive`."""
        path = self.path
        modes, gain, table = path.local_modes, path.net_gain(spans), self.run.receiver.back_propagation
        through: tuple[Any, ...] = *path.through(spans, start), path.inverse_mixing(spans, start)
        if path.inverted or self.inverse:
            field, through = field.copy(), (0.0, None, None)
            if table is not None or not path.unitary:
                # An inverse that is nonlinear or amplifies rows unequally changes noise: add noise before it.
                receiver.load_noise(self.comm.device, field, modes.first_mode, gain)
                receiver = replace(receiver, osnr_db=None)
            if table is None:
                propagator.undo_linear(path, field, spans, start)
            else:
                inverse = self._inverse = self._inverse or BackPropagation(self.run, table, path, self.comm)
                display.start(inverse.parts * spans, "digital back-propagation, spans")
                inverse.run(field, spans, options.get("progress"))
        display.start(modes.rows, f"receiver, {f'span {spans}' if spans else 'back to back'}, rows")
        options |= {"joint": self.run.receiver.sets(path.fibre.group_sizes), "control": self.comm.control}
        options |= {"first_mode": modes.first_mode, "modes": path.fibre.modes}
        options |= {"power_gain": gain}
        return receiver.receive(*for_signals(self.comm, field), *through, **options)
