"""Achievable information rates: mutual information symbol by symbol, and bit by bit (GMI).

Both are rates of a receiver that takes the channel for white Gaussian noise, in bits per symbol of one
polarisation. MI needs a non-binary code or iterations between demapper and decoder; GMI is that of
bit-interleaved coded modulation, which decodes each bit by itself.

Source: A. Alvarado, T. Fehenberger, B. Chen, F. M. J. Willems, "Achievable information rates for fiber
optics: applications and computations", J. Lightwave Technol. 36 (2018) 424, doi 10.1109/JLT.2017.2786351.
"""

import numpy as np

from wavefabric.errors import InputError, quoted
from wavefabric.optics.signal.constellation import Constellation, constellation
from wavefabric.quantities import numbers

#: Nodes of the Gauss-Hermite quadrature: 1e-7 of a bit for 64QAM.
_NODES = 160
#: Exponents are cut here: exp would overflow.
_LARGEST = 700.0


def _pam(form: Constellation) -> tuple[np.ndarray, list[np.ndarray]]:
    """Amplitudes of one quadrature by Gray label, and of each bit which labels share its value: (L, L) bool.

    Square QAM with one half of its bits for each quadrature is two such independent channels.
    """
    half = form.bits_per_symbol // 2
    label = np.arange(1 << half)
    bits = [label >> k & 1 for k in reversed(range(half))]
    return np.imag(form.points[: len(label)]), [bit[:, None] == bit for bit in bits]


def mutual_information(form: Constellation | str, snr):
    """MI of ``form`` in white Gaussian noise of E_s/N_0 = ``snr`` (linear, array), bits per symbol.

    ``form`` is a `Constellation` or its name. By Gauss-Hermite quadrature (Alvarado et al., section III);
    log2(1 + snr) for Gaussian symbols.
    """
    return _quadrature(form, snr)[0]


def gmi(form: Constellation | str, snr):
    """GMI of the Gray-mapped ``form``, as `mutual_information`; NaN for Gaussian symbols, without bits."""
    return _quadrature(form, snr)[1]


def _quadrature(form: Constellation | str, snr) -> list[np.ndarray]:
    form, snr = constellation(form), numbers(snr, "", "snr")
    if not (snr >= 0).all():
        raise InputError(f"snr: {quoted(snr)} given; allowed: linear ratios of 0 or more")
    if not form.digital:
        return [np.log2(1 + snr), np.full_like(snr, np.nan)]
    amplitude, alike = _pam(form)
    nodes, weights = np.polynomial.hermite.hermgauss(_NODES)
    apart = np.sqrt(snr)[..., None, None, None] * (amplitude[:, None] - amplitude)
    # By sent label, rival label, node: ln q(y|rival) − ln q(y|sent), y = sent + noise.
    rivals = np.exp(np.minimum(-apart * (apart + 2 * nodes[:, None, None]), _LARGEST))
    every = np.log2(rivals.sum(axis=-1))
    same = sum(every - np.log2((rivals * equal).sum(axis=-1)) for equal in alike)
    mean = weights[:, None] / (np.sqrt(np.pi) * len(amplitude))
    return [form.bits_per_symbol - 2 * (mean * loss).sum(axis=(-2, -1)) for loss in (every, same)]


def information_rates(device, form: Constellation, sent, received) -> np.ndarray:
    """MI and GMI of received symbols, bits per symbol: NumPy array (2, channels).

    ``sent`` and ``received`` (polarisations, channels, symbols), complex, of mean complex gain 1. The
    auxiliary channel is white Gaussian noise of the variance of ``received − sent`` in each channel (Alvarado
    et al., eqs. (30) and (36)). GMI is NaN for Gaussian symbols.
    """
    xp = device.xp
    variance = xp.maximum((abs(received - sent) ** 2).mean(axis=(0, 2)), np.finfo(float).tiny)
    if not form.digital:
        energy = (abs(sent) ** 2).mean(axis=(0, 2))
        excess = (abs(received) ** 2).mean(axis=(0, 2)) / (energy + variance) - 1
        rate = device.to_host(xp.log2(1 + energy / variance) + excess / np.log(2))
        return np.stack([rate, np.full_like(rate, np.nan)])
    amplitude, alike = (xp.asarray(np.array(values)) for values in _pam(form))
    scale, label = 1 / xp.sqrt(variance)[:, None], form.decide(xp, sent)
    indices = *(label // len(amplitude)), *(label % len(amplitude))
    losses = xp.zeros((2, len(variance)))
    for index, value in zip(indices, (*received.real, *received.imag), strict=True):
        noise = (value - amplitude[index]) * scale
        total, own = 0.0, [0.0] * len(alike)
        for level, equal in zip(amplitude, alike.swapaxes(0, 1), strict=True):
            d = (value - level) * scale
            metric = xp.exp(xp.minimum(noise * noise - d * d, _LARGEST))
            total = total + metric
            own = [part + metric * same[index] for part, same in zip(own, equal, strict=True)]
        every = xp.log2(total).mean(axis=-1)
        losses[0] += every
        losses[1] += sum(every - xp.log2(part).mean(axis=-1) for part in own)
    return form.bits_per_symbol - device.to_host(losses) / len(sent)
