"""What a run file allows and its user should know of: steps above resonance, delays beyond the window."""

import math

import numpy as np

from wavefabric.errors import InputError
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.fibre.raman import raman_tilt
from wavefabric.optics.link.spectral_gain import overlap_of
from wavefabric.optics.propagation.resonance import StepLimit, delay_spread, metres, step_limit
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.signal.transmitter import Transmitter

#: Change of a channel in a span, dB, from which Raman scattering should not be left out.
RAMAN_DB = 0.3
#: Channels for which that is estimated, in a second or so.
_MOST_CHANNELS = 1000


def resonance(fibre: Fibre, transmitter: Transmitter) -> StepLimit:
    """Resonance limit of the step for the band that the channels of a transmitter fill."""
    grid = transmitter.grid
    half_band = float(abs(grid.offsets).max()) + 0.5 * grid.symbol_rate * (1 + transmitter.rolloff)
    return step_limit(fibre, half_band)


def warnings_before(
    settings: RunFile,
    fibre: Fibre,
    transmitter: Transmitter,
    steps: int | None,
    numerical_db: float | None = None,
) -> list[str]:
    """What can be said before the run: of steps, of delays beyond the window, of Raman scattering.

    ``steps`` of a span, if they are known; ``numerical_db``: what theory expects them to cost of Q².
    """
    warnings = []
    limit = resonance(fibre, transmitter)
    if steps is not None and (taken := settings.link.length / steps) > limit.step:
        cost = "a shorter step, or --verify-step, tells how much of it is numerical"
        if numerical_db is not None:
            cost = f"theory expects these steps to cost up to {numerical_db:.2g} dB of Q²"
        warnings.append(f"solver.step: {_above(taken, limit)}; {cost}")
    if text := _raman_left_out(settings, fibre, transmitter):
        warnings.append(text)
    length = settings.link.length * settings.link.spans
    spread, (slow, fast) = delay_spread(fibre)
    window = transmitter.grid.duration
    if spread * length > window:
        warnings.append(
            f"signal.symbols: {slow} and {fast} are {spread * length * 1e9:.3g} ns apart after "
            f"{length / 1e3:g} km, the time window is {window * 1e9:.3g} ns: the same symbols meet again; "
            f"{math.ceil(spread * length * transmitter.grid.symbol_rate)} symbols would hold the delay"
        )
    if settings.receiver.equaliser == "mimo":
        together = fibre.groups * (settings.receiver.joint == "groups")
        apart = max(float(np.ptp(fibre.beta[together == k, 0])) for k in np.unique(together))
        symbols = apart * length * transmitter.grid.symbol_rate
        if symbols > settings.receiver.taps:
            warnings.append(
                f"receiver.taps: modes equalised together come {symbols:.0f} symbols apart after "
                f"{length / 1e3:g} km, more than {settings.receiver.taps} taps hold without strong coupling"
            )
    return warnings


def _raman_left_out(settings: RunFile, fibre: Fibre, transmitter: Transmitter) -> str:
    """What to say where stimulated Raman scattering would be seen, but the run does without; else ""."""
    grid, table = transmitter.grid, settings.fibre
    if table.raman is not None or grid.channels > _MOST_CHANNELS:
        return ""
    try:
        overlap = overlap_of(table, fibre)
    except InputError:  # not known
        return ""
    powers = transmitter.powers(fibre.modes).T
    tilt = raman_tilt(fibre, grid.frequencies, powers, settings.link.length, overlap=overlap)
    if tilt <= RAMAN_DB:
        return ""
    effect = f"Raman scattering would change a channel by {tilt:.2g} dB in a span"
    return f"fibre.raman: left out; {effect}, and a table [fibre.raman] takes it along"


def warning_after(taken: float, limit: StepLimit) -> str | None:
    """The same for steps that the control chose: ``taken`` is the last, in m."""
    return f"solver: the last step of {_above(taken, limit)}" if taken > limit.step else None


def _above(taken: float, limit: StepLimit) -> str:
    return (
        f"{metres(taken)} is above the resonance limit of {metres(limit.step)} ({limit.cause}): spurious "
        "four-wave mixing adds up in phase and may exceed the fibre's own"
    )
