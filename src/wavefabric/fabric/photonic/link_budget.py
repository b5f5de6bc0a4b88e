"""Holds the parameters of a link budget, and computes bit error rates of modulation formats.

With two levels I₀, I₁ and thermal noise σ the bit error rate is ½ erfc(Q/√2), Q = (I₁ − I₀)/(2σ) (Agrawal,
Fiber-Optic Communication Systems, 4th ed., section 4.6, doi:10.1002/9780470918524). With four levels, whose
eyes are a third as high, and Gray coding it is ⅜ erfc(Q/(3√2)) (Proakis & Salehi, Digital Communications, 5th
ed., section 4.3).
"""

import math
from dataclasses import dataclass
from typing import Annotated

from wavefabric.base.errors import InputError, ensure

#: By modulation format: bits per symbol, factor before erfc, and divisor of Q in its argument.
FORMATS = {"NRZ": (1, 0.5, math.sqrt(2.0)), "PAM4": (2, 0.375, 3.0 * math.sqrt(2.0))}

# Numbers annotated with the unit used in fabric files.
Decibels = Annotated[float, "dB"]
Ratio = Annotated[float, ""]


@dataclass(frozen=True)
class LinkBudget:
    """Holds launch power, losses and receiver properties of circuits.

    The LUMORPH paper measures the loss where tiles meet, and in waveguides. It gives neither launch power nor
    sensitivity: all other defaults are our choice, typical of silicon photonics.
    """

    launch_power: Annotated[float, "dBm"] = 10.0  # of one laser
    modulator_loss: Decibels = 4.0  # of a micro-ring modulator, modulation loss included
    extinction_ratio: Decibels = 6.0  # between highest and lowest level
    #: Per Mach–Zehnder switch; light passes one at each end of an edge.
    switch_loss: Decibels = 0.3
    crossing_loss: Decibels = 0.02  # per crossing of waveguides
    crossings: Ratio = 4.0  # in each tile between the ends of a route
    reticle_loss: Decibels = 0.25  # from a tile to the next of the same wafer (measured: 0.25)
    #: Loss in waveguides (measured: below 40); an edge is as long as the tile pitch.
    propagation_loss: Annotated[float, "dB/m"] = 40.0
    coupling_loss: Decibels = 1.5  # between waveguide and fibre: twice for each edge from wafer to wafer
    receiver_loss: Decibels = 1.0  # of the ring that drops the wavelength to its photodiode
    responsivity: Annotated[float, "A/W"] = 0.9  # of the photodiode
    #: Thermal noise of the receiver referred to its input.
    noise_current: Annotated[float, "A/sqrt(Hz)"] = 18e-12
    bandwidth_ratio: Ratio = 0.75  # noise bandwidth of the receiver / symbol rate
    #: Largest bit error rates at which a link closes: NRZ without, PAM4 with forward error correction.
    nrz_limit: Ratio = 1e-12
    pam4_limit: Ratio = 1e-4

    def __post_init__(self) -> None:
        least = dict.fromkeys(vars(self), (0.0, "from 0")) | {"launch_power": (-math.inf, "finite")}
        for key in ("extinction_ratio", "responsivity", "noise_current", "bandwidth_ratio"):
            least[key] = math.ulp(0.0), "above 0"
        for key, value in vars(self).items():
            if not math.isfinite(value) or value < least[key][0]:
                raise InputError(f"{key}: {value} given; allowed: {least[key][1]}")
        required_q("NRZ", self.nrz_limit)
        required_q("PAM4", self.pam4_limit)


def bit_error_rate(fmt: str, q: float) -> float:
    """Return the bit error rate for a Q (from 0) of the outer eye, Q = (I_highest − I_lowest) / (2σ)."""
    _, factor, divisor = _format(fmt)
    return factor * math.erfc(q / divisor)


def required_q(fmt: str, ber: float) -> float:
    """Return the Q of the outer eye at a bit error rate; `InputError` for a rate no better than guessing."""
    from scipy.special import erfcinv

    _, factor, divisor = _format(fmt)
    ensure(0 < ber < factor, "bit error rate", f"{ber} given", f"above 0 and below {factor} ({fmt})")
    return divisor * float(erfcinv(ber / factor))


def _format(fmt: str) -> tuple[int, float, float]:
    ensure(fmt in FORMATS, "format", f"{fmt!r} given", ", ".join(FORMATS))
    return FORMATS[fmt]
