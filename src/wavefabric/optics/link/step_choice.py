"""How much of a penalty is numerical: a short part of a link at a step and at half of it; the step for it."""

import math
from dataclasses import dataclass

import numpy as np

from wavefabric.device import get_device
from wavefabric.errors import InputError
from wavefabric.exchange.communicator import Communicator, solo
from wavefabric.lifecycle.agreement import on_first_rank
from wavefabric.optics.link.build import build_fibre, build_transmitter
from wavefabric.optics.link.checks import resonance
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.propagation.propagate import PropagationOptions, Propagator
from wavefabric.optics.propagation.resonance import metres
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.signal.amplifier import REFERENCE_BANDWIDTH
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.system.progress import Progress

#: Symbols and spans of the short part: spurious products of two spans add up in phase, in part.
SYMBOLS, SPANS = 1024, 2
#: A chosen step is at most this part of a span, and this many times the resonance limit; at least the least.
_PART, _LIMITS, _LEAST = 0.25, 64.0, 1e-6


@dataclass(frozen=True)
class StepCheck:
    """What half the step changes. ``distortion`` and ``distortion_half`` (modes, channels): the squared error
    vector magnitude without noise behind ``spans`` spans, at ``step`` and at half of it, in m."""

    step: float
    spans: int
    symbols: int
    distortion: np.ndarray
    distortion_half: np.ndarray
    #: Largest change of Q² behind the whole link, with its noise, by half the step, dB.
    change_db: float

    @property
    def text(self) -> str:
        """One line for a user."""
        part = f"{self.symbols} symbols, {self.spans} span{'s' * (self.spans > 1)}"
        steps = f"step {metres(self.step)} against {metres(self.step / 2)} ({part})"
        return f"{steps}: Q² behind the link changes by {self.change_db:.2g} dB at most"


class _ShortLink:
    """The first spans of a link with few symbols and no noise."""

    def __init__(self, run: RunFile, comm: Communicator | None):
        comm = comm or solo(get_device(run.solver.device, run.solver.threads))
        self.comm, self.device = comm, comm.device
        symbols = min(run.signal.symbols, SYMBOLS)
        self.run = run.model_copy(update={"signal": run.signal.model_copy(update={"symbols": symbols})})
        fibre = on_first_rank(comm, lambda: build_fibre(run, lambda _: None))
        self.transmitter = build_transmitter(self.run, fibre.modes)
        self.path = LinkPath.over(comm, self.run, fibre, self.transmitter)
        self.spans = min(run.link.spans, SPANS)
        shape = self.path.fibre, self.transmitter.grid.samples, self.transmitter.grid.sample_rate
        self.propagator = Propagator(*shape, self.device, self._options(run.link.length), comm)
        self.field = self.propagator.operators.empty()

    def _options(self, step: float) -> PropagationOptions:
        solver = self.run.solver.model_dump(exclude={"device", "threads", "step", "step_penalty"})
        split = tuple(np.diff(self.path.local_modes.ends).tolist())
        return PropagationOptions(**solver, step=step, split=split, measure_error=False)

    def distortion(self, step: float, progress: Progress) -> np.ndarray:
        """Squared error vector magnitude of each mode and channel, of all ranks."""
        run, path, modes = self.run, self.path, self.path.local_modes
        propagator, field = self.propagator, self.field
        propagator.renew(self._options(step))
        self.transmitter.fill(self.device, field, modes.first_row, path.fibre.modes)
        count = propagator.steps(run.link.length, path.section_count) or 1
        progress.start(self.spans * count, f"trial, step {step:.4g} m, steps")
        for span in range(self.spans):

            def on_step(z: float, done: int, before: int = span * count) -> None:
                progress.update(before + done)

            sections = path.sections(self.device, span)
            propagator.run(field, run.link.length, on_step=on_step, sections=sections)
            path.without_noise().amplify(self.device, field, span)
        path.undo_linear(propagator.operators, field, self.spans)
        receiver = Receiver(self.transmitter, phase_window=run.receiver.phase_window or None)
        held = {"first_mode": modes.first_mode, "modes": path.fibre.modes}
        evm = receiver.receive(self.device, field, **held).evm
        return np.concatenate(self.comm.control.all_gather(evm**2))

    def noise(self) -> np.ndarray:
        """Noise over signal behind the whole link, (modes, channels)."""
        run, grid = self.run, self.transmitter.grid
        powers = self.transmitter.powers(self.path.fibre.modes)
        density = self.path.amplifier.noise_density(grid.centre_frequency)
        noise = 2 * grid.symbol_rate * run.link.spans * density / powers
        if run.receiver.osnr is not None:
            noise = noise + grid.symbol_rate / REFERENCE_BANDWIDTH / 10 ** (run.receiver.osnr / 10)
        return noise

    def check(self, step: float, progress: Progress, whole: np.ndarray | None = None) -> StepCheck:
        """`StepCheck` of a step; ``whole`` is its distortion, if that is known."""
        whole = self.distortion(step, progress) if whole is None else whole
        half, noise = self.distortion(step / 2, progress), self.noise()
        # From span to span distortions add up.
        growth = self.run.link.spans / self.spans
        ratio = (noise + growth * whole) / (noise + growth * half)
        change = float(np.nanmax(np.abs(10 * np.log10(ratio))))
        return StepCheck(step, self.spans, self.transmitter.grid.symbols, whole, half, change)


def verify_step(
    run: RunFile, comm: Communicator | None = None, progress: Progress | None = None
) -> StepCheck:
    """What half of the run's fixed step would change: from its first two spans and up to 1024 symbols.

    All ranks of ``comm`` call it. `InputError` unless the step is fixed.
    """
    if run.solver.step is None:
        raise InputError("solver.step: no fixed step given; allowed here: a fixed one, or auto")
    return _ShortLink(run, comm).check(run.solver.step, progress or Progress())


def choose_step(run: RunFile, comm: Communicator | None = None, progress: Progress | None = None) -> RunFile:
    """The run with a fixed step that changes Q² by at most ``solver.step_penalty`` dB.

    Steps are halved until half of one changes Q² by at most half of that (`verify_step`): errors that fall in
    proportion to the step, as those of resonances do, then add up to it; others fall faster. `InputError` if
    round-off or the least step comes first.
    """
    target, progress = run.solver.step_penalty, progress or Progress()
    assert target is not None
    short = _ShortLink(run, comm)
    limit = resonance(short.path.fibre, short.transmitter).step
    step = min(run.link.length * _PART, _LIMITS * limit)
    step = run.link.length / math.ceil(run.link.length / step)
    if not (short.path.fibre.gamma * short.path.fibre.kappa).any():  # any step is exact
        return run.with_solver(step=step, step_penalty=None)
    known = None
    while step > _LEAST * run.link.length:
        check = short.check(step, progress, known)
        if check.change_db <= target / 2:
            progress.finish()
            return run.with_solver(step=step, step_penalty=None)
        step, known = step / 2, check.distortion_half
    raise InputError(f"solver.step: auto:{target:g} dB given, no step reaches it; allowed: a larger penalty")
