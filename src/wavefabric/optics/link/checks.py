"""What a run file allows and its user should know of: steps above resonance, delays beyond the window."""

import math

from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.resonance import StepLimit, delay_spread, metres, step_limit
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.signal.transmitter import Transmitter


def resonance(fibre: Fibre, transmitter: Transmitter) -> StepLimit:
    """Resonance limit of the step for the band that the channels of a transmitter fill."""
    grid = transmitter.grid
    half_band = float(abs(grid.offsets).max()) + 0.5 * grid.symbol_rate * (1 + transmitter.rolloff)
    return step_limit(fibre, half_band)


def warnings_before(settings: RunFile, fibre: Fibre, transmitter: Transmitter) -> list[str]:
    """What can be said before the run: a fixed step above the limit, mode delays beyond the window."""
    warnings = []
    limit, step = resonance(fibre, transmitter), settings.solver.step
    if step is not None and step > limit.step:
        # The steps are equal, and at most as long as asked for.
        taken = settings.link.length / math.ceil(settings.link.length / step - 1e-9)
        if taken > limit.step:
            warnings.append(
                f"solver.step: {_above(taken, limit)}; a shorter step tells how much of it is numerical"
            )
    length = settings.link.length * settings.link.spans
    spread, (slow, fast) = delay_spread(fibre)
    window = transmitter.grid.duration
    if spread * length > window:
        warnings.append(
            f"signal.symbols: {slow} and {fast} are {spread * length * 1e9:.3g} ns apart after "
            f"{length / 1e3:g} km, the time window is {window * 1e9:.3g} ns: the same symbols meet again; "
            f"{math.ceil(spread * length * transmitter.grid.symbol_rate)} symbols would hold the delay"
        )
    return warnings


def warning_after(taken: float, limit: StepLimit) -> str | None:
    """The same for steps that the control chose: ``taken`` is the last, in m."""
    return f"solver: the last step of {_above(taken, limit)}" if taken > limit.step else None


def _above(taken: float, limit: StepLimit) -> str:
    return (
        f"{metres(taken)} is above the resonance limit of {metres(limit.step)} ({limit.cause}): spurious "
        "four-wave mixing adds up in phase and may exceed the fibre's own"
    )
