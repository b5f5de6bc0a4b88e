"""Clock recovery: the delay of each channel, and how to undo it."""

import numpy as np

METHODS = ("auto", "square-law", "data-aided", "none")


def symbol_clock(device, window, known, method: str = "data-aided"):
    """Delay of each channel against the sent frame, in symbols, float64 of shape (channels,).

    ``window`` (2, channels, 2 symbols) are spectra after the matched filter, NumPy's order, ``known``
    (2, channels, symbols) those of the sent symbols; ``method`` as `Receiver.clock`. The delay is common to
    both polarisations. A delay of τ turns bin j by −2πjτ/symbols.
    """
    xp, symbols = device.xp, known.shape[-1]
    if method == "none":
        return xp.zeros(window.shape[1])
    if method == "square-law":
        # The line of |y|² at the symbol rate, from the two band edges a symbol rate apart.
        line = (window[..., :symbols] * window[..., symbols:].conj()).sum(axis=(0, 2))
        fraction = -xp.angle(line) / (2 * np.pi)
        across = device.ifft(fold(advance(xp, window, fraction)) * known.conj())
        delay = fraction + (abs(across) ** 2).sum(axis=0).argmax(axis=-1)
    else:
        ratio = window * xp.concatenate([known, known], axis=-1).conj()
        delay = (abs(device.ifft(ratio)) ** 2).sum(axis=0).argmax(axis=-1) / 2
        slope = 2j * np.pi * xp.asarray(np.fft.fftfreq(2 * symbols, 0.5 / symbols)) / symbols
        # Newton's method for the top of the correlation; it starts within a quarter of a symbol.
        for _ in range(5):
            turned = ratio * xp.exp(slope * delay[:, None])
            c0, c1, c2 = (term.sum(axis=-1) for term in (turned, turned * slope, turned * slope * slope))
            first = (c0.conj() * c1).real.sum(axis=0)
            second = (abs(c1) ** 2 + (c0.conj() * c2).real).sum(axis=0)
            # Dark or hopeless signals have no top: stay.
            step = xp.where(second < 0, first / xp.where(second < 0, second, 1), 0)
            delay = delay - xp.clip(step, -0.25, 0.25)
    return delay - symbols * xp.rint(delay / symbols)


def advance(xp, window, delay):
    """Undo a delay of ``delay`` symbols (channels,) by the shift theorem."""
    size = window.shape[-1]
    cycles = xp.asarray(np.fft.fftfreq(size, 1 / size)) * (2 / size)
    return window * xp.exp(2j * np.pi * cycles * delay[:, None])


def fold(window):
    """Spectrum of every second sample: from 2 samples per symbol to 1."""
    half = window.shape[-1] // 2
    return window[..., :half] + window[..., half:]
