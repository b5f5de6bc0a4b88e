"""Measure on a short part of a link how much a step size changes Q², and choose the step accordingly."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.system.progress import Progress
from wavefabric.optics.link.build import build_fibres, build_receiver, build_transmitter, propagation_options
from wavefabric.optics.link.elements import FibrePiece
from wavefabric.optics.link.expected import expected_of, has_kerr_effect, resonance
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.link.propagators import LinkPropagator
from wavefabric.optics.link.reception import LinkReceiver
from wavefabric.optics.propagation.propagate import PropagationOptions
from wavefabric.optics.propagation.resonance import metres
from wavefabric.optics.run_file.load import RunFile, run_file
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange.communicator import Communicator, solo
from wavefabric.runtime.lifecycle.collective_checks import on_first_rank

#: Symbols and spans of the short part: spurious products of two spans add up partly in phase.
SYMBOLS, SPANS = 1024, 2
#: Largest step as a fraction of a span and in resonance limits; smallest step as a fraction of a span.
_PART, _LIMITS, _LEAST = 0.25, 64.0, 1e-6


@dataclass(frozen=True)
class StepCheck:
    """Holds the effect of halving the step, measured on a short link.

    ``distortion`` and ``distortion_half`` (modes, channels) are squared error vector magnitudes without noise
    after ``spans`` spans: the first with steps of ``step`` m, the second with half of that.
    """

    step: float
    spans: int
    symbols: int
    distortion: np.ndarray
    distortion_half: np.ndarray
    #: Largest change of Q² after the whole link, with its noise, from halving the step, dB.
    change_db: float

    @property
    def text(self) -> str:
        """Return the result of the check as one line of text."""
        part = f"{self.symbols} symbols, {self.spans} span{'s' * (self.spans > 1)}"
        steps = f"step {metres(self.step)} against {metres(self.step / 2)} ({part})"
        return f"{steps}: Q² behind the link changes by {self.change_db:.2g} dB at most"


class _ShortLink:
    """Simulates the first spans of a link with few symbols, without noise and laser phase noise.

    There are too few symbols for an equaliser, so the receiver uses the link's inverse instead.
    """

    def __init__(self, run: RunFile, comm: Communicator | None):
        comm = comm or solo(get_device(run.solver.device, run.solver.threads))
        self.comm, self.device = comm, comm.device
        # The fewest symbols of which every channel has a whole number, taken as often as fits.
        fewest = run.signal.symbols // math.gcd(*run.signal.wdm_grid.channel_symbols.tolist())
        symbols = min(run.signal.symbols, max(SYMBOLS // fewest, 1) * fewest)
        signal = run.signal.model_copy(update={"symbols": symbols, "linewidth": 0.0})
        ideal = {"linewidth": 0.0, "frequency_offset": 0.0}
        quiet = run.receiver.model_copy(update={"osnr": None, **ideal})
        link = run.link.without_noise()
        self.run = run.model_copy(update={"signal": signal, "receiver": quiet, "link": link})
        fibres = on_first_rank(comm, lambda: build_fibres(run, lambda _: None))
        fibre = fibres["fibre"]
        self.transmitter = build_transmitter(self.run, fibre.modes)
        receiver = build_receiver(run, build_transmitter(run, fibre.modes), fibre)
        short = replace(receiver, transmitter=self.transmitter, osnr_db=None, equaliser=None, **ideal)
        end = run.receiver.model_copy(update={"at": "end", "back_to_back": False})
        linear = {key: replace(each, gamma=0.0) for key, each in fibres.items()}
        (expected,) = expected_of(run.model_copy(update={"receiver": end}), linear, lambda _: None).values()
        #: Noise over signal after the whole link, (modes, channels).
        self.noise = 1 / expected.snr
        self.path = LinkPath.of_rank(comm, self.run, fibres, self.transmitter)
        self.spans = min(len(self.path.span_ends), SPANS)
        #: Longest piece of fibre, m.
        self.length = max(piece.length for piece in self.path.pieces)
        self.receiver = LinkReceiver(self.run, self.path, short, comm, receiver.equaliser is not None)
        self.propagator = LinkPropagator(self.path, self._options(self.length), comm)
        self.field = self.propagator.operators.empty()

    def _options(self, step: float) -> PropagationOptions:
        return propagation_options(self.run, self.path, step=step, measure_error=False)

    def distortion(self, step: float, progress: Progress) -> np.ndarray:
        """Return the squared error vector magnitude of each mode and channel after steps of ``step`` m."""
        path, modes = self.path, self.path.local_modes
        propagator, field = self.propagator, self.field
        propagator.renew(self._options(step))
        path.launched.fill(self.device, field, modes.first_row, path.fibre.modes)
        elements = path.elements[: path.end(self.spans)]
        counts = {each: propagator.steps(each) or 1 for each in elements if isinstance(each, FibrePiece)}
        progress.start(sum(counts.values()), f"trial, step {step:.4g} m, steps")
        passed = 0
        for element in elements:
            if not isinstance(element, FibrePiece):
                element.apply(path, self.device, field)
                continue

            def on_step(z: float, done: int, before: int = passed) -> None:
                progress.update(before + done)

            propagator.run(field, path, element, on_step=on_step)
            passed += counts[element]
        evm = self.receiver.receive(propagator, field, self.spans, progress).evm
        return np.concatenate(self.comm.control.all_gather(evm**2))

    def check(self, step: float, progress: Progress, distortion: np.ndarray | None = None) -> StepCheck:
        """Compare steps of ``step`` m with half of that; ``distortion`` is that of the former, if known."""
        distortion = self.distortion(step, progress) if distortion is None else distortion
        half = self.distortion(step / 2, progress)
        # Distortion grows in proportion to the number of spans.
        growth = len(self.path.span_ends) / self.spans
        ratio = (self.noise + growth * distortion) / (self.noise + growth * half)
        change = float(np.nanmax(np.abs(10 * np.log10(ratio))))
        return StepCheck(step, self.spans, self.transmitter.grid.symbols, distortion, half, change)


def verify_step(
    run: RunFile | str | Path, comm: Communicator | None = None, progress: Progress | None = None
) -> StepCheck:
    """Return the effect of halving the run's fixed step, on its first two spans with up to 1024 symbols.

    All ranks of ``comm`` call it. `InputError` unless the step is fixed.
    """
    run = run_file(run)
    if run.solver.step is None:
        raise InputError("solver.step: no fixed step given; allowed here: a fixed one, or auto")
    return _ShortLink(run, comm).check(run.solver.step, progress or Progress())


def choose_step(
    run: RunFile | str | Path, comm: Communicator | None = None, progress: Progress | None = None
) -> RunFile:
    """Return the run with a fixed step that changes Q² by at most ``solver.step_penalty`` dB.

    The step is halved until one more halving changes Q² by at most half of that (`verify_step`). For errors
    proportional to the step (from resonances) the whole change is then at most the penalty; other errors
    fall faster. `InputError` if no step down to the smallest reaches it, for example due to round-off.
    """
    run = run_file(run)
    target, progress = run.solver.step_penalty, progress or Progress()
    if target is None:
        raise InputError('solver.step: no step = "auto" given; allowed: auto, or auto:0.01 dB')
    short = _ShortLink(run, comm)
    media = [medium.fibre for medium in short.path.media.values()]
    limit, length = min(resonance(fibre, short.transmitter).step for fibre in media), short.length
    step = min(length * _PART, _LIMITS * limit)
    step = length / math.ceil(length / step)
    if not any(map(has_kerr_effect, media)):  # any step is exact
        return run.with_solver(step=step, step_penalty=None)
    distortion = None
    while step > _LEAST * length:
        check = short.check(step, progress, distortion)
        if check.change_db <= target / 2:
            progress.finish()
            return run.with_solver(step=step, step_penalty=None)
        step, distortion = step / 2, check.distortion_half
    raise InputError(f"solver.step: auto:{target:g} dB given, no step reaches it; allowed: a larger penalty")
