"""Build the contents of a link's result file: received signals as arrays, Q² by mode group."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from wavefabric.base.results import Data, Result, Rows
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.link.received_signals import (
    NOISELESS_DB,
    distance,
    expected_db,
    mean_db,
    mode_groups,
    received,
)
from wavefabric.optics.propagation.propagate import Propagator
from wavefabric.optics.propagation.resonance import StepLimit
from wavefabric.optics.signal.receiver import ReceiverResult
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid

#: Number of received symbols stored per polarisation, for the constellation plot.
POINTS = 1024
#: Largest number of bins of a spectrum.
BINS = 1024
#: Unit and meaning of each array of `arrays_of`, the datasets of one receiver position.
_RECEIVED = {
    "q_squared_db": ("dB", "Q squared by mode and channel, both polarisations pooled"),
    "evm": ("", "root-mean-square error vector magnitude"),
    "ber_counted": ("", "bit errors over bits sent"),
    "ber_from_q": ("", "bit error ratio of Gaussian noise of this Q"),
    "mutual_information": ("bit", "mutual information per symbol of a polarisation, symbol by symbol"),
    "gmi": ("bit", "the same bit by bit: generalised mutual information"),
    "delay": ("symbols", "delay found by the clock recovery, or that the equaliser undoes"),
    "offset": ("Hz", "frequency of the local oscillator above the carrier, as estimated and removed"),
    "osnr_db": ("dB", "signal over noise of amplifiers and receiver.osnr in 12.5 GHz, by mean gains"),
    "gsnr_db": ("dB", "signal over all noise and interference in 12.5 GHz, that of Q squared"),
    "dispersion": ("s/m", "accumulated chromatic dispersion, before the receiver compensates it"),
    "spectrum": ("W/Hz", "power spectral density of each mode behind the amplifier, before the receiver"),
    "constellation": ("", "received symbols of the middle channel, (modes, 2, symbols), or of each before 2"),
    "eye": ("", "received waveform of the same channels at 4 samples per symbol, from the first symbol on"),
}


#: Ratios of signal to noise in 12.5 GHz.
_RATIOS = ("osnr", "gsnr")


def spectrum_bins(grid: WdmGrid) -> int:
    """Return the number of frequency bins of `power_spectrum`; each combines an equal number of FFT bins."""
    return max(b for b in range(1, min(BINS, grid.samples) + 1) if grid.samples % b == 0)


def spectrum_frequencies(grid: WdmGrid) -> np.ndarray:
    """Return the optical frequency at the middle of each bin of `power_spectrum`, ascending, Hz, (bins,)."""
    bins = spectrum_bins(grid)
    width = grid.samples // bins
    first = -((grid.samples - 1) // 2)  # the lowest optical bin: NumPy's highest
    return grid.centre_frequency + (first + width * np.arange(bins) + (width - 1) / 2) * grid.resolution


def power_spectrum(device, field, grid: WdmGrid) -> np.ndarray:
    """Return the power spectral density of each mode, both polarisations, W/Hz, (modes, bins).

    ``field`` (2 modes, N), √W; bins as in `spectrum_frequencies`. The sum over bins times their width is the
    mean power (Parseval).
    """
    bins, xp = spectrum_bins(grid), device.xp
    out = np.zeros((field.shape[0] // 2, bins))
    scale = 1 / (float(grid.samples) ** 2 * grid.resolution * (grid.samples // bins))
    for row in range(field.shape[0]):
        power = xp.fft.fftshift(abs(device.fft(field[row])).astype(np.float64) ** 2)[::-1]
        out[row // 2] += device.to_host(power.reshape(bins, -1).sum(axis=1)) * scale
    return out


def payload(
    fibre: Fibre,
    transmitter: Transmitter,
    received: dict[str, tuple[float, dict[str, np.ndarray]]],
    along_z: np.ndarray,
    solver: dict[str, Any],
    warnings: Sequence[str],
    field: Rows | None = None,
) -> dict[str, Any]:
    """Return the content of a link's result file, as nested dictionaries of groups and datasets.

    ``received`` is a dictionary from receiver position to the distance (m) and the arrays of `arrays_of`. A
    row of ``along_z`` (Z, 1 + modes) is a distance (m) and the power of each mode there (W).
    """
    grid, powers = transmitter.grid, transmitter.powers(fibre.modes)
    frequencies, bins = np.asarray(grid.frequencies), spectrum_frequencies(grid)
    out: dict[str, Any] = {
        "mode": Data(list(fibre.labels), "", "spatial modes", ("mode",)),
        "channel": Data(frequencies, "Hz", "optical frequency of each channel", ("channel",)),
        "spectrum_frequency": Data(bins, "Hz", "middles of the bins of spectra", ("spectrum_frequency",)),
        "fibre": {
            "attrs": {"name": fibre.name, "wavelength_m": fibre.wavelength, "gamma_per_W_m": fibre.gamma},
            "labels": Data(list(fibre.labels), "", "spatial modes", ("mode",)),
            "groups": Data(fibre.groups, "", "mode group of each spatial mode", ("mode",)),
            "beta": Data(
                fibre.beta, "s^n/m", "beta1 (relative to the fundamental mode), beta2, ...", ("mode", "order")
            ),
            "a_eff": Data(fibre.a_eff, "m^2", "effective area", ("mode",)),
            "kappa": Data(fibre.kappa, "", f"Kerr coupling per {fibre.kappa_of}"),
            "alpha": Data(fibre.alpha, "1/m", "power attenuation", ("mode",)),
        },
        "signal": {
            "attrs": {
                "modulation": ", ".join(dict.fromkeys(form.name for form in transmitter.formats)),
                "rolloff": float(transmitter.rolloffs.max()),
                "symbol_rate_Hz": grid.lowest_rate,
                "sample_rate_Hz": grid.sample_rate,
                "symbols": grid.symbols,
                "samples_per_symbol": grid.samples_per_symbol,
                "largest_frequency_shift_Hz": grid.largest_shift,
            },
            "frequencies": Data(frequencies, "Hz", "optical frequency of each channel", ("channel",)),
            "launch_power": Data(
                powers, "W", "per mode and channel, both polarisations", ("mode", "channel")
            ),
            "spectrum_frequencies": Data(bins, "Hz", "of /received/…/spectrum", ("spectrum_frequency",)),
        },
        "along_z": {
            "distance": Data(
                along_z[:, 0], "m", "from the transmitter; twice at an amplifier", ("distance",)
            ),
            "power": Data(
                along_z[:, 1:], "W", "of each spatial mode, all channels together", ("distance", "mode")
            ),
        },
        "received": {
            name: {"attrs": {"distance_m": length}}
            | {
                key: Data(arrays[key], *meaning, _received_dims(key, np.ndim(arrays[key])))
                for key, meaning in _RECEIVED.items()
                if key in arrays
            }
            for name, (length, arrays) in received.items()
        },
        "solver": {"attrs": solver},
    }
    if len(transmitter.parts) > 1:  # attributes: the lowest rate and the largest roll-off
        out["signal"] |= {
            "symbol_rate": Data(grid.symbol_rates, "Hz", "of each channel", ("channel",)),
            "rolloffs": Data(transmitter.rolloffs, "", "roll-off of each channel", ("channel",)),
            "modulations": Data(
                [form.name for form in transmitter.formats], "", "format of each channel", ("channel",)
            ),
        }
    if warnings:
        described = "what may make the result less accurate than it seems"
        out["solver"]["warnings"] = Data(list(warnings), "", described, ("warning",))
    if field is not None:
        described = "complex envelopes after the last amplifier, two polarisations per mode"
        out["field"] = Data(field, "W^0.5", described, ("row", "sample"))
    return out


def _received_dims(key: str, count: int) -> tuple[str, ...]:
    """Return the names of the ``count`` dimensions of an array of `arrays_of`."""
    if key == "spectrum":
        return "mode", "spectrum_frequency"
    if key not in ("constellation", "eye"):
        return ("mode", "channel")[:count]
    last = "polarisation", "symbol" if key == "constellation" else "sample"
    return ("mode", "plotted_channel", *last) if count == 4 else ("mode", *last)


def arrays_of(result: ReceiverResult) -> dict[str, np.ndarray]:
    """Return the arrays of one receiver position: a dictionary from the names of ``/received`` datasets."""
    arrays = {name: getattr(result, name) for name in _RECEIVED if hasattr(result, name)}
    for name, rows in (("constellation", result.points), ("eye", result.eyes)):
        if rows:  # an equaliser shows no eye
            count = min(POINTS, *(row.shape[1] for row in rows.values()))
            stacked = np.stack([rows[key][:, :count] for key in sorted(rows)]).astype(np.complex64)
            # Several channels of each mode.
            shape = (len(result.evm), -1) if len(stacked) > len(result.evm) else (len(stacked),)
            arrays[name] = stacked.reshape(*shape, *stacked.shape[1:])
    return arrays


def solver_attributes(propagator: Propagator, limit: StepLimit) -> dict[str, Any]:
    """Return the attributes of ``/solver`` in a result file: the propagation's report, limits of the step."""
    report, coupling = propagator.report, propagator.operators.coupling
    return {key: value for key, value in asdict(report).items() if key != "dropped"} | {
        "kerr_cells": coupling.groups,
        "kerr_rank": coupling.rank,
        "resonance_step_m": limit.step,
        "resonance_cause": limit.cause,
        "dispersion_resonance_step_m": limit.dispersion,
        "walk_off_resonance_step_m": limit.walk_off,
        "field_resonance_step_m": limit.field,
        "largest_dropped_singular_value": float(report.dropped.max(initial=0.0)),
    }


def group_rows(result: Result) -> list[dict[str, Any]]:
    """Summarise a result for each mode group: return a dictionary of Q² and GMI for each.

    Its ``received`` is a dictionary from receiver position to the mean Q², the smallest Q², the penalty of
    the mean (dB), the mean GMI and others. The GMI is in bits per symbol of a polarisation, None for Gaussian
    symbols. The penalty is relative to back-to-back; None if back-to-back is missing or was received without
    noise.
    """
    names = received(result)
    if not names:
        return []
    q = {name: np.atleast_2d(result[f"received/{name}/q_squared_db"]) for name in names}
    # Results of older versions have no GMI.
    gmi = {name: np.broadcast_to(result.get(f"received/{name}/gmi", np.nan), q[name].shape) for name in names}
    ratios = {key: {name: _ratios(result, name, key, q[name].shape) for name in names} for key in _RATIOS}
    theory = {name: expected_db(result, name, q[name].shape) for name in names}
    groups = mode_groups(result, len(q[names[0]]))
    rows = []
    for number in np.unique(groups):
        inside, received_at = groups == number, {}
        # One number for the group: its modes and channels together, averaged in linear units.
        means = {name: float(mean_db(q[name][inside].reshape(1, -1))[0]) for name in names}
        reference = means.get("back_to_back", math.inf)
        for name, mean in means.items():
            rates, expected = gmi[name][inside], theory[name]
            rate = float(rates[~np.isnan(rates)].mean()) if not np.isnan(rates).all() else math.nan
            expected = None if expected is None else mean_db(expected[inside].reshape(1, -1))[0]
            received_at[name] = {
                "distance_m": distance(result, name),
                "q_squared_expected_db": None if expected is None else float(expected),
                "q_squared_mean_db": mean,
                "q_squared_min_db": float(np.fmin.reduce(q[name][inside], axis=None)),
                "gmi_mean": rate if np.isfinite(rate) else None,
                "penalty_db": mean - reference if reference <= NOISELESS_DB else None,
            } | {f"{key}_min_db": _least(ratios[key][name][inside]) for key in _RATIOS}
        rows.append({"group": int(number), "modes": int(inside.sum()), "received": received_at})
    return rows


def _ratios(result: Result, name: str, key: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return OSNR or GSNR of a receiver position, dB; NaN in results of older versions."""
    return np.broadcast_to(result.get(f"received/{name}/{key}_db", np.nan), shape)


def _least(ratios: np.ndarray) -> float | None:
    """Return the smallest of the ratios in dB of lit signals; None without, or without noise."""
    least = float(np.min(ratios[~np.isnan(ratios)], initial=np.inf))
    return least if least < NOISELESS_DB else None


def channel_rows(result: Result) -> list[dict[str, Any]]:
    """Describe each channel of a result whose channels differ, at the farthest receiver; [] if all are alike.

    Q² in dB is the mean over modes, taken in linear units, and the bit error ratio the mean over modes.
    """
    names = received(result)
    if not names or "signal/modulations" not in result:
        return []
    q = np.atleast_2d(result[f"received/{names[-1]}/q_squared_db"])
    expected = expected_db(result, names[-1], q.shape)
    measured = {"Q²_dB": mean_db(q.T)} | ({} if expected is None else {"theory_dB": mean_db(expected.T)})
    for key in _RATIOS:
        if np.isfinite(ratio := _ratios(result, names[-1], key, q.shape)).any():
            measured[f"{key.upper()}_dB"] = mean_db(ratio.T)
    offset = np.asarray(result.get(f"received/{names[-1]}/offset", 0.0))
    if np.nan_to_num(offset).any():
        measured["offset_GHz"] = np.broadcast_to(offset, q.shape).mean(axis=0) / 1e9
    measured["BER_counted"] = np.mean(result[f"received/{names[-1]}/ber_counted"], axis=0)
    keys = "frequencies", "symbol_rate", "modulations", "rolloffs"
    return described_channels([result[f"signal/{key}"] for key in keys], measured)


def described_channels(signal: Sequence[Any], measured: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return a dictionary for each channel: its number, its ``signal`` and the values of ``measured``.

    ``signal`` are the frequencies (Hz), symbol rates (Hz), formats and roll-offs of all channels.
    """
    frequencies, rates, formats, rolloffs = signal
    about = {"channel": np.arange(len(formats)) + 1, "THz": np.asarray(frequencies) / 1e12}
    about |= {"GBaud": np.asarray(rates) / 1e9, "format": formats, "rolloff": rolloffs} | measured
    columns = (np.asarray(values).tolist() for values in about.values())
    return [dict(zip(about, row, strict=True)) for row in zip(*columns, strict=True)]


def channel_cells(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the cells of a table of `described_channels`."""

    def cell(key: str, value: Any) -> str:
        digits = 7 if key in ("channel", "THz", "GBaud") else 4
        return value if isinstance(value, str) else f"{value:.{digits}g}"

    heads = [key.replace("_", " ") for key in rows[0]]
    return heads, [[cell(key, value) for key, value in row.items()] for row in rows]
