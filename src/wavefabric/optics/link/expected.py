"""Predict results of a run file before the run: warnings, and theory's expectations, stored in the result."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.results import Data
from wavefabric.base.system.progress import warn
from wavefabric.base.units import db
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.fibre.raman import raman_tilt, tilt_bound
from wavefabric.optics.link.build import build_path, build_receiver, build_transmitter
from wavefabric.optics.link.elements import FibrePiece
from wavefabric.optics.link.line import element_rows, line_of
from wavefabric.optics.link.path import SPECTRAL, LinkPath
from wavefabric.optics.link.received_signals import mean_db
from wavefabric.optics.link.result import described_channels
from wavefabric.optics.link.spectral_gain import overlap_of
from wavefabric.optics.propagation.resonance import StepLimit, delay_spread, metres, step_limit
from wavefabric.optics.run_file.elements import AmplifierElement
from wavefabric.optics.run_file.load import RunFile, run_file
from wavefabric.optics.signal.constellation import DIRECT
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.theory.expected import PARTS, Expectation, expected_quality
from wavefabric.optics.theory.gaussian_noise import Options
from wavefabric.optics.theory.response import QUADRATURES, Steps

#: Change of a channel in a span, dB, above which Raman scattering should be included.
RAMAN_DB = 0.3
#: Largest number of channels for which this change is estimated, in about a second.
_MOST_CHANNELS = 1000
#: Fraction of a fibre's dispersion that is not proportional to the reference's, above which theory warns.
_UNLIKE = 0.1
#: Unit and meaning of the values of an `Expectation` that a result file stores.
_KEPT = {
    "q_squared_db": ("dB", "Q squared by mode and channel that theory expects"),
    "nli": ("W", "nonlinear interference behind the matched filter, both polarisations"),
    "ase": ("W", "noise of the amplifiers"),
    "loaded": ("W", "noise of the OSNR"),
    "numerical": ("W", "what steps and sampling add to the interference"),
}


def resonance(fibre: Fibre, transmitter: Transmitter) -> StepLimit:
    """Return the limits of the step above which four-wave mixing of the channels is wrongly phase-matched."""
    grid = transmitter.grid
    half_widths = 0.5 * grid.symbol_rates * (1 + transmitter.rolloffs)
    return step_limit(fibre, float((abs(grid.offsets) + half_widths).max()))


def warnings_before(
    settings: RunFile,
    path: LinkPath,
    steps: dict[FibrePiece, int | None],
    expected: dict[str, Expectation] | None = None,
) -> list[str]:
    """Return warnings about a run's steps, delays, equaliser taps and missing Raman scattering.

    ``steps`` is the number of steps in each piece of fibre, None if unknown. With ``expected``, theory's
    prediction by receiver position, the warning about steps says by how much they lower Q².
    """
    warnings, transmitter = [], path.transmitter
    window = transmitter.grid.duration
    limits = {key: resonance(medium.fibre, transmitter) for key, medium in path.media.items()}
    long = [
        (piece.length / number / limits[piece.medium].step, piece.length / number, limits[piece.medium])
        for piece, number in steps.items()
        if number is not None and has_kerr_effect(path.medium(piece).fibre)
    ]
    excess, step, limit = max(long, key=lambda each: each[0], default=(0.0, 0.0, None))
    if limit is not None and excess > 1:
        cost = "a shorter step, or --verify-step, tells how much of it is numerical"
        last = max(expected.values(), key=lambda one: one.distance) if expected else None
        if last is not None and np.any(last.numerical):
            with np.errstate(divide="ignore", invalid="ignore"):
                loss = np.nanmax(10 * np.log10(last.noise / (last.noise - last.numerical)), initial=0.0)
            cost = f"theory expects these steps to cost up to {loss:.2g} dB of Q²"
        warnings.append(f"solver.step: {above_limit(step, limit)}; {cost}")
    if text := _raman_left_out(settings, path):
        warnings.append(text)
    length, beta = path.through(len(path.span_ends))
    fibre = dataclasses.replace(path.fibre, beta=beta)
    spread, (slow, fast) = delay_spread(fibre)
    if spread * length > window:
        difference = f"{slow} and {fast} are {spread * length * 1e9:.3g} ns apart after {length / 1e3:g} km"
        symbols = f"{math.ceil(spread * length * transmitter.grid.lowest_rate)} symbols would hold the delay"
        again = f"the time window is {window * 1e9:.3g} ns: the same symbols meet again"
        warnings.append(f"signal.symbols: {difference}, {again}; {symbols}")
    if settings.receiver.equaliser == "mimo":
        together = fibre.groups * (settings.receiver.joint == "groups")
        difference = max(float(np.ptp(fibre.beta[together == k, 0])) for k in np.unique(together))
        symbols = difference * length * float(transmitter.grid.symbol_rates.max())
        if symbols > settings.receiver.taps:
            fault = f"modes equalised together come {symbols:.0f} symbols apart after {length / 1e3:g} km"
            limit = f"{settings.receiver.taps} taps hold without strong coupling"
            warnings.append(f"receiver.taps: {fault}, more than {limit}")
    return warnings


def has_kerr_effect(fibre: Fibre) -> bool:
    """Return whether a fibre has a Kerr effect, without which nothing depends on the step."""
    return bool((fibre.gamma * fibre.kappa).any())


def _raman_left_out(settings: RunFile, path: LinkPath) -> str:
    """Return a warning if a run omits Raman scattering that changes a channel by over `RAMAN_DB`; else ""."""
    transmitter, tables = path.transmitter, settings.fibre_tables()
    grid = transmitter.grid
    longest = {piece.medium[0]: piece for piece in sorted(path.pieces, key=lambda piece: piece.length)}
    for key, piece in longest.items():
        fibre, table = path.medium(piece).fibre, tables[key]
        if table.raman is not None or grid.channels > _MOST_CHANNELS:
            continue
        try:
            overlap = overlap_of(table, fibre)
        except InputError:  # not known
            continue
        link = fibre, grid.frequencies, transmitter.powers(fibre.modes).T, piece.length
        if (tilt := tilt_bound(*link, overlap)) > RAMAN_DB:
            tilt = raman_tilt(*link, overlap=overlap)
        if tilt > RAMAN_DB:
            effect = f"Raman scattering would change a channel by {tilt:.2g} dB in a span"
            return f"{key}.raman: left out; {effect}, and a table [{key}.raman] takes it along"
    return ""


def above_limit(step: float, limit: StepLimit) -> str:
    """Say in words that steps of ``step`` m exceed the resonance limit ``limit``, and what that causes."""
    return (
        f"{metres(step)} is above the resonance limit of {metres(limit.step)} ({limit.cause}): spurious "
        "four-wave mixing adds up in phase and may exceed the fibre's own"
    )


def left_out(run: RunFile) -> str:
    """Return the key of the first effect that a run includes but theory does not; "" if there is none."""
    present: dict[str, Any] = {}
    without_pumps = {each.table for each in run.link.pieces if not each.pumps}
    for name, fibre in run.fibre_tables().items():
        coupling = fibre.random_coupling
        present |= {f"{name}.{key}": getattr(fibre, key) for key in SPECTRAL}
        if name not in without_pumps:  # theory has Raman scattering in pumped fibre
            present[f"{name}.raman"] = None
        present[f"{name}.random_coupling.between_groups"] = coupling and coupling.between_groups
    amplifiers = [each for each in run.link.elements if isinstance(each, AmplifierElement)]
    for key in ("mode_dependent_gain", "gain_tilt"):
        present[f"link.{key}"] = any(getattr(each, key) for each in amplifiers)
    present |= {
        "receiver.back_propagation": run.receiver.back_propagation,
        "signal.waveform": run.signal.waveform,
        "signal.modulation": set(np.atleast_1d(run.signal.modulation)) & set(DIRECT),
    }
    return next((key for key, value in present.items() if value), "")


def expected_of(
    run: RunFile | str | Path,
    fibres: dict[str, Fibre] | Fibre | None = None,
    warn: Callable[[str], None] = warn,
) -> dict[str, Expectation]:
    """Return a dictionary from receiver position, named as in ``/received``, to theory's `Expectation` there.

    ``fibres`` are the fibres of the run (`build_fibres`); None: they are built. In a link of equal spans
    without pumps a fixed step above the resonance limit causes spurious interference: its power is the
    ``numerical`` of an `Expectation` if the integrator is one of `QUADRATURES`, else that is 0. ``warn`` is
    called with one line if the run includes an effect that theory omits, or simplifies. InputError as for a
    run.
    """
    run = run_file(run)
    if key := left_out(run):
        warn(f"{key}: theory leaves it out; only a run has it")
    path, solver = build_path(run, fibres), run.solver
    fibre, transmitter, grid = path.fibre, path.transmitter, path.grid
    receiver = build_receiver(run, transmitter, fibre)
    line, options = line_of(path), Options(symbols=grid.symbols)
    half_band = float(abs(grid.offsets).max() + grid.symbol_rates.max())
    worst = max((line.compared(each.fibre, half_band)[2] for each in set(line.parts)), default=0.0)
    if worst > _UNLIKE:
        how = f"theory takes the dispersion of all fibres as proportional, which leaves {worst:.0%} of it"
        warn(f"link: {how}; interference of unlike pieces is approximate")
    parts, _ = line.repeated
    uniform = len(parts) == 1 and parts[0].profile is None and not line.changes
    if solver.step is not None and solver.integrator in QUADRATURES and uniform:
        steps = Steps(solver.step, solver.integrator, path.pieces[0].section_count)
        if steps.actual_step(parts[0].length) > resonance(path.fibre, transmitter).step:
            options = Options(symbols=grid.symbols, steps=steps, sample_rate=grid.sample_rate)
    at, joint = run.receiver.spans(line.count), run.receiver.sets(fibre.group_sizes)
    expected = expected_quality(fibre, receiver, line, None, at, options, joint)
    if not run.receiver.back_to_back:
        del expected["back_to_back"]
    return expected


def expected_elements(
    run: RunFile | str | Path, fibres: dict[str, Fibre] | None = None
) -> list[dict[str, Any]]:
    """Return what theory expects of the signal after each element of a link; see `element_rows`."""
    run = run_file(run)
    path = build_path(run, fibres)
    return element_rows(path, build_receiver(run, path.transmitter, path.fibre))


def group_expectations(expected: dict[str, Expectation], fibre: Fibre) -> list[dict[str, Any]]:
    """Summarise what theory expects for each mode group: return a dictionary of levels in dB for each.

    Its ``received`` is a dictionary from receiver position to mean and smallest Q², and to the ratio of the
    signal to each part of the noise. Means over modes and channels are taken in linear units. A ratio is None
    where its noise is zero.
    """
    rows = []
    for number in np.unique(fibre.groups):
        inside, received = fibre.groups == number, {}
        for name, expectation in expected.items():
            lit = inside[:, None] & (expectation.signal > 0)
            levels = received[name] = {
                "distance_m": expectation.distance,
                "q_squared_mean_db": db(float(expectation.snr[lit].mean())) if lit.any() else None,
                "q_squared_min_db": float(expectation.q_squared_db[lit].min()) if lit.any() else None,
            }
            for part in (*PARTS, "recovery"):
                noise = float((getattr(expectation, part) / np.where(lit, expectation.signal, 1))[lit].sum())
                levels[f"snr_{part}_db"] = db(lit.sum() / noise) if noise > 0 else None
        rows.append({"group": int(number), "modes": int(inside.sum()), "received": received})
    return rows


def channel_expectations(run: RunFile, expected: dict[str, Expectation]) -> list[dict[str, Any]]:
    """Describe each channel and its expected Q² at the farthest receiver; [] if all channels are alike."""
    last = max(expected.values(), key=lambda one: one.distance)
    transmitter = build_transmitter(run, len(last.signal))
    if len(transmitter.parts) == 1:
        return []
    names = [form.name for form in transmitter.formats]
    signal = transmitter.grid.frequencies, transmitter.grid.symbol_rates, names, transmitter.rolloffs
    return described_channels(signal, {"theory_dB": mean_db(last.q_squared_db.T)})


def theory_payload(expected: dict[str, Expectation]) -> dict[str, Any]:
    """Return the content of ``/theory`` in a result file: a dictionary from receiver position to arrays."""
    return {
        name: {
            part: Data(getattr(one, part), unit, text, ("mode", "channel"))
            for part, (unit, text) in _KEPT.items()
        }
        for name, one in expected.items()
    }
