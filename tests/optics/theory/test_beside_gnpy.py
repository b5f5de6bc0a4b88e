"""Line systems as gnpy 3.0.1 has them: OSNR and GSNR of the middle and the first channel.

Its figures: `gnpy-transmission-example NETWORK -e EQUIPMENT --show-channels`, per signal bandwidth, with its
equipment library but for flat amplifiers of noise figure 5 dB, a transmitter without noise and no margins.
gnpy adds the spans' interference up in power, and takes its density at a channel's centre for all of it.
"""

import math

import numpy as np
import pytest

from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.link.expected import expected_of
from wavefabric.optics.run_file.load import RunFile

#: Spans in km, loss of each connector in dB, D in s/m², A_eff in m², first channel, channels, launch power;
#: gnpy's OSNR and GSNR of the middle channel, GSNR of the first.
NETWORKS = {
    "one span": ([80], 0.5, 1.67e-5, 83e-12, 193.0e12, 9, 0, (31.87, 29.44, 29.88)),
    "unequal spans": ([60, 80, 100, 75, 90], 0.5, 1.67e-5, 83e-12, 192.0e12, 76, 0, (23.86, 20.88, 21.76)),
    "NZDF": ([60, 80, 100, 75, 90], 0.5, 5e-6, 72e-12, 192.0e12, 76, -1, (22.85, 18.29, 19.62)),
    "ten spans": ([80] * 10, 0.0, 1.67e-5, 83e-12, 193.2e12, 9, 1, (23.85, 18.54, 19.29)),
}


def _networks():
    for name, row in NETWORKS.items():
        yield pytest.param(name, marks=pytest.mark.slow if row[5] > 9 else ())


@pytest.mark.parametrize("name", _networks())
def test_osnr_and_gsnr(name):
    spans, connector, dispersion, area, first, channels, power, theirs = NETWORKS[name]
    wavelength = 1550e-9
    scale = wavelength**2 / (2 * math.pi * SPEED_OF_LIGHT)
    fibre = {
        "preset": "single-mode",
        "attenuation": "0.2 dB/km",
        "beta2": -dispersion * scale,
        "beta3": scale**2 * 2 * dispersion / wavelength,  # no slope of D
        "gamma": 2 * math.pi * 2.6e-20 / (wavelength * area),
    }
    loss = {"kind": "loss", "loss": f"{connector} dB"}
    amplifier = {"kind": "amplifier", "noise_figure": "5 dB"}
    elements = [
        each
        for length in spans
        for each in (loss, {"kind": "fibre", "length": length * 1e3}, loss, amplifier)
    ]
    signal = {
        "modulation": "gaussian",
        "symbol_rate": 32e9,
        "symbols": 65536,
        "samples_per_symbol": 256,
        "rolloff": 0.15,
        "launch_power": f"{power} dBm",
        "frequencies": [first + 50e9 * k for k in range(channels)],
    }
    receiver = {"at": "end", "phase_window": 0, "back_to_back": False}
    tables = {"fibre": fibre, "link": {"element": elements}, "signal": signal, "receiver": receiver}
    (expected,) = expected_of(RunFile.model_validate(tables | {"solver": {"step": 1e3}})).values()
    osnr = 10 * np.log10(expected.signal / expected.ase)[0]
    gsnr = 10 * np.log10(expected.signal / (expected.ase + expected.nli))[0]
    middle = channels // 2
    assert osnr[middle] == pytest.approx(theirs[0], abs=0.1)
    assert gsnr[middle] == pytest.approx(theirs[1], abs=0.32)
    assert gsnr[0] == pytest.approx(
        theirs[2], abs=0.45
    )  # where it adds up in field, ten spans interfere more
