"""What digital back-propagation gains: 5 channels of 16-QAM over 10 spans, received in three ways.

Linear compensation, back-propagation of each channel by itself, and of the whole band, over the launch power.
Amplifiers have a noise figure of 4.5 dB. Set-up after G. Liga et al., Opt. Express 22 (2014) 30053,
doi 10.1364/OE.22.030053. It takes some minutes on two cores.

Usage: python examples/back_propagation.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from wavefabric.base.files.output import check_output
from wavefabric.cli.common.progress import make_progress
from wavefabric.optics import run_link
from wavefabric.optics.run_file.load import RunFile

POWERS = [-3, -1, 1, 3, 5, 7, 9]  # dBm
RECEIVERS = {
    "linear compensation": None,
    "back-propagation of a channel": {"of": "channel", "step": 2e3},
    "back-propagation of the band": {"of": "band", "step": 1e3},
}


def link(power, back, symbols):
    """The run: a launch power in dBm, and what the receiver does."""
    return RunFile.model_validate(
        {
            "fibre": {
                "preset": "single-mode",
                "attenuation": "0.2 dB/km",
                "beta2": "-21.7 ps^2/km",
                "gamma": "1.2 1/W/km",
            },
            "link": {"length": "80 km", "spans": 10, "noise_figure": "4.5 dB"},
            "signal": {
                "modulation": "16qam",
                "symbol_rate": "32 GBaud",
                "symbols": symbols,
                "samples_per_symbol": 16,
                "rolloff": 0.01,
                "launch_power": f"{power} dBm",
                "channels": 5,
                "spacing": "33 GHz",
                "centre_frequency": "193.4 THz",
            },
            "receiver": {"at": "end", "back_to_back": False, "back_propagation": back},
            "solver": {"step": "1 km", "integrator": "strang"},
            "output": {"figures": False},
        }
    )


def main(folder=".", symbols=2048, powers=POWERS):
    out, progress = Path(folder), make_progress(False)
    out.mkdir(parents=True, exist_ok=True)
    picture = check_output(out / "back-propagation.png", force=True)  # before the work
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes, best = figure.add_subplot(), {}
    for name, back in RECEIVERS.items():
        q = []
        for power in powers:
            path = out / "back-propagation.h5"
            result = run_link(link(power, back, symbols), path, force=True, progress=progress)
            received = result.payload["received"]["span_10"]["q_squared_db"].value
            q.append(received[0, 2])  # the middle channel
        best[name] = max(q)
        axes.plot(powers, q, "o-", label=name)
        print(f"{name}: best Q² of the middle channel {best[name]:.2f} dB at {powers[int(np.argmax(q))]} dBm")
    axes.set(xlabel="launch power per channel (dBm)", ylabel="Q² of the middle channel (dB)")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=160)
    (out / "back-propagation.h5").unlink()
    return best


if __name__ == "__main__":
    main(*sys.argv[1:])
