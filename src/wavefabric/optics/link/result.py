"""What a link leaves behind: the payload of its result file, received signals as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.propagate import PropagationReport
from wavefabric.optics.propagation.resonance import StepLimit
from wavefabric.optics.signal.receiver import ReceiverResult
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.results import Data, Rows

#: Received symbols kept of each polarisation, for the constellation picture.
POINTS = 1024


def payload(
    fibre: Fibre,
    transmitter: Transmitter,
    received: dict[str, tuple[float, ReceiverResult]],
    report: PropagationReport,
    coupling,
    limit: StepLimit,
    warnings: Sequence[str],
    field: Rows | None = None,
) -> dict[str, Any]:
    """Groups and datasets of the result file; ``received`` by place: distance (m) and result."""
    grid = transmitter.grid
    out: dict[str, Any] = {
        "fibre": {
            "attrs": {"name": fibre.name, "wavelength_m": fibre.wavelength, "gamma_per_W_m": fibre.gamma},
            "labels": Data(list(fibre.labels), "", "spatial modes"),
            "groups": Data(fibre.groups, "", "mode group of each spatial mode"),
            "beta": Data(fibre.beta, "s^n/m", "beta1 (relative to the fundamental mode) to beta4"),
            "a_eff": Data(fibre.a_eff, "m^2", "effective area"),
            "kappa": Data(fibre.kappa, "", f"Kerr coupling per {fibre.kappa_of}"),
            "alpha": Data(fibre.alpha, "1/m", "power attenuation"),
        },
        "signal": {
            "attrs": {
                "modulation": transmitter.format.name,
                "rolloff": transmitter.rolloff,
                "symbol_rate_Hz": grid.symbol_rate,
                "sample_rate_Hz": grid.sample_rate,
                "symbols": grid.symbols,
                "samples_per_symbol": grid.samples_per_symbol,
                "largest_frequency_shift_Hz": grid.largest_shift,
            },
            "frequencies": Data(np.asarray(grid.frequencies), "Hz", "optical frequency of each channel"),
            "launch_power": Data(
                transmitter.powers(fibre.modes), "W", "per mode and channel, both polarisations"
            ),
        },
        "received": {name: _group(length, result) for name, (length, result) in received.items()},
        "solver": {"attrs": _attributes(report, coupling, limit)},
    }
    if warnings:
        described = "what may make the result less accurate than it seems"
        out["solver"]["warnings"] = Data(list(warnings), "", described)
    if field is not None:
        out["field"] = Data(
            field, "W^0.5", "complex envelopes after the last amplifier, two polarisations a mode"
        )
    return out


def arrays_of(result: ReceiverResult) -> dict[str, np.ndarray]:
    """A receiver's result as plain arrays."""
    points = np.stack([result.points[key][:, :POINTS] for key in sorted(result.points)])
    names = ("q_squared_db", "evm", "ber_counted", "ber_from_q", "delay")
    return {name: getattr(result, name) for name in names} | {"points": points.astype(np.complex64)}


def _group(length: float, result: ReceiverResult) -> dict[str, Any]:
    described = {
        "q_squared_db": ("dB", "Q squared by mode and channel, both polarisations pooled"),
        "evm": ("", "root-mean-square error vector magnitude"),
        "ber_counted": ("", "bit errors over bits sent"),
        "ber_from_q": ("", "bit error ratio of Gaussian noise of this Q"),
        "delay": ("symbols", "delay found by the clock recovery"),
        "constellation": ("", "received symbols of the middle channel: (modes, 2, symbols)"),
    }
    arrays = arrays_of(result)
    arrays["constellation"] = arrays.pop("points")
    group: dict[str, Any] = {name: Data(arrays[name], *described[name]) for name in described}
    return group | {"attrs": {"distance_m": length}}


def _attributes(report: PropagationReport, coupling, limit: StepLimit) -> dict[str, Any]:
    kept = {key: value for key, value in asdict(report).items() if key != "dropped"}
    kept["kerr_cells"] = coupling.groups
    kept["kerr_rank"] = coupling.rank
    kept["resonance_step_m"], kept["resonance_cause"] = limit.step, limit.cause
    kept["dispersion_resonance_step_m"], kept["walk_off_resonance_step_m"] = limit.dispersion, limit.walk_off
    kept["field_resonance_step_m"] = limit.field
    kept["largest_dropped_singular_value"] = float(report.dropped.max(initial=0.0))
    return kept
