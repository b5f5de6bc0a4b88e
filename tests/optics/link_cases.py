"""Links of elements, as run files and as paths, for tests of several files."""

import numpy as np
from run_tables import merged, without_none

from wavefabric.optics.link.build import build_fibres, build_transmitter
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.optics.run_file.load import RunFile

SMF = {
    "preset": "single-mode",
    "attenuation": "0.2 dB/km",
    "beta2": "-21.7 ps^2/km",
    "beta3": "0.13 ps^3/km",
    "gamma": "1.3 1/W/km",
}
#: A compensating fibre whose dispersion and slope are −5 times those of `SMF`.
DCF = SMF | {
    "attenuation": "0.5 dB/km",
    "beta2": "108.5 ps^2/km",
    "beta3": "-0.65 ps^3/km",
    "gamma": "5 1/W/km",
}
AMPLIFIER = {"kind": "amplifier"}
#: No Kerr effect.
LINEAR = {"fibre": {"gamma": "0 1/W/km"}, "fibres": {"dcf": {"gamma": "0 1/W/km"}}}
LINK = {
    "seed": 3,
    "fibre": SMF,
    "fibres": {"dcf": DCF},
    "link": {},
    "signal": {
        "symbol_rate": "32 GBaud",
        "symbols": 256,
        "samples_per_symbol": 8,
        "launch_power": "0 dBm",
        "channels": 3,
        "spacing": "50 GHz",
        "centre_frequency": "193.4 THz",
        "modulation": "16qam",
    },
    "receiver": {"phase_window": 0},
    "solver": {"step": "1 km"},
    "output": {"figures": False},
}


def piece(length, fibre=None):
    return {"kind": "fibre", "length": length} | ({"fibre": fibre} if fibre else {})


def settings(*elements, **changes) -> RunFile:
    link = {"link": {"element": list(elements)}} if elements else {}
    return RunFile.model_validate(without_none(merged(merged(LINK, link), changes)))


def path_of(run) -> LinkPath:
    fibres = build_fibres(run)
    modes = fibres["fibre"].modes
    return LinkPath(run, fibres, build_transmitter(run, modes), RankModes((0, modes)))


def launched(run, device):
    path = path_of(run)
    field = device.empty((path.fibre.rows, path.grid.samples), np.complex128)
    path.transmitter.fill(device, field)
    return path, field
