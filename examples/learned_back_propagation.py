"""Learned digital back-propagation: few steps a span, whose Kerr phases and linear phases are trained.

One channel of 16-QAM, 32 GBaud, over 15 spans of 80 km, amplifiers with a noise figure of 4.5 dB. The
receiver takes one step per span, 2 samples per symbol. Plain back-propagation has the fibre's parameters;
the learned one starts there and follows the gradient of the SNR, by L-BFGS. After C. Häger, H. D. Pfister,
arXiv:2010.14258. Trained on one sequence of symbols and noise, judged on another. It takes about a minute.

Usage: python examples/learned_back_propagation.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.polynomial.legendre import legval
from scipy.optimize import minimize

from wavefabric.base.files.output import check_output
from wavefabric.optics import (
    Amplifier,
    DifferentiablePropagator,
    Transmitter,
    WdmGrid,
    propagate,
    single_mode,
)
from wavefabric.optics.signal.transmitter import root_raised_cosine
from wavefabric.runtime.device import get_device

POWERS = [-2, 0, 2, 4, 6]  # dBm
SPANS, SPAN, ROLLOFF, ORDERS = 15, 80e3, 0.1, (2, 4, 6, 8)
FIBRE = single_mode(beta2="-21.7 ps^2/km", gamma="1.2 1/W/km", alpha="0.2 dB/km")
AMPLIFIER = Amplifier(float(np.exp(FIBRE.alpha[0] * SPAN)), 4.5)


def received(power, seed, symbols, spans, device):
    """The field behind the link, (2, 2 samples per symbol), and the symbols that were sent."""
    grid = WdmGrid(("193.4 THz",), "32 GBaud", 4, symbols)
    transmitter = Transmitter(grid, "16qam", ROLLOFF, f"{power} dBm", seed)
    field = np.zeros((2, grid.samples), complex)
    transmitter.fill(device, field)
    options = dict(step="1 km", integrator="strang", measure_error=False)
    for span in range(spans):
        field, _ = propagate(field, FIBRE, SPAN, sample_rate=grid.sample_rate, device=device, **options)
        AMPLIFIER.apply(device, field, grid, seed, span)
    spectrum = np.fft.fft(field)  # the receiver's band is half of what was simulated
    narrow = np.fft.ifft(np.concatenate([spectrum[:, :symbols], spectrum[:, -symbols:]], axis=1)) / 2
    return narrow, np.stack([transmitter.symbols(device, row, 0) for row in range(2)])


class Receiver:
    """Back-propagation in ``steps`` steps a span with parameters, and the noise that it leaves."""

    def __init__(self, symbols, spans, steps, device):
        n = 2 * symbols
        link = FIBRE, n, 64e9, SPAN, device
        options = dict(integrator="strang", step=SPAN / steps, backward=True)
        self.spans = [DifferentiablePropagator(*link, **options) for _ in range(spans)]
        frequency = np.fft.fftfreq(n, 0.5)  # in symbol rates
        self.filter = root_raised_cosine(frequency, ROLLOFF)
        # A few even polynomials: as many phases as there are frequencies would learn the noise.
        inside = np.clip(frequency / 0.55, -1, 1)
        self.basis = np.array([legval(inside, np.eye(order + 1)[order]) for order in ORDERS])
        self.shape = spans, steps, 1 + len(ORDERS)
        self.plain = np.zeros(self.shape)
        self.plain[..., 0] = 1

    def __call__(self, parameters, field, symbols):
        """Ratio of noise to the power of the symbols, and its gradient with respect to the parameters."""
        A, parameters = self.spans[0].operators.empty(), parameters.reshape(self.shape)
        A[...] = field
        scale = AMPLIFIER.gain**-0.5
        for span, own in zip(self.spans, parameters, strict=True):
            A *= scale
            span.run(A, own[:, 0], own[:, 1:] @ self.basis)
        value, A[...] = self.judged(A, symbols)
        gradient = np.empty(self.shape)
        for span, own in zip(reversed(self.spans), reversed(gradient), strict=True):
            own[:, 0], phases = span.adjoint(A)
            own[:, 1:] = phases @ self.basis.T
            A *= scale
        return value, gradient.ravel()

    def judged(self, A, sent):
        """1 − |⟨sent, got⟩|²/(‖sent‖ ‖got‖)² and its gradient with respect to the field."""
        got = np.fft.ifft(np.fft.fft(A) * self.filter)[:, ::2]
        common, energy, known = (sent.conj() * got).sum(), (abs(got) ** 2).sum(), (abs(sent) ** 2).sum()
        overlap = abs(common) ** 2 / (energy * known)
        gradient = np.zeros_like(A)
        gradient[:, ::2] = 2 * overlap * got / energy - 2 * common * sent / (energy * known)
        return 1 - overlap, np.fft.ifft(np.fft.fft(gradient) * self.filter)


def snr(noise):
    """In dB, from the ratio of noise to all power."""
    return 10 * np.log10(1 / noise - 1)


def main(folder=".", symbols=2048, powers=POWERS, spans=SPANS, iterations=100):
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = check_output(Path(folder) / "learned-back-propagation.png", force=True)  # before the work
    device = get_device("cpu", threads=1)  # the field is too small to be cut
    few, fine = Receiver(symbols, spans, 1, device), Receiver(symbols, spans, 20, device)
    curves = {}
    for power in powers:
        known, fresh = (received(power, seed, symbols, spans, device) for seed in (1, 2))
        learned = minimize(
            few, few.plain.ravel(), known, "L-BFGS-B", jac=True, options={"maxiter": iterations}
        )
        results = {
            "linear compensation": few(0 * few.plain, *fresh),
            "plain, 1 step a span": few(few.plain, *fresh),
            "learned, 1 step a span": few(learned.x, *fresh),
            "plain, 20 steps a span": fine(fine.plain, *fresh),
        }
        for name, (noise, _) in results.items():
            curves.setdefault(name, []).append(snr(noise))
        print(f"{power:3d} dBm:", ", ".join(f"{name} {curve[-1]:.2f} dB" for name, curve in curves.items()))
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves.items():
        axes.plot(powers, curve, "o-", label=name)
    axes.set(xlabel="launch power (dBm)", ylabel="SNR of the symbols (dB)")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=160)
    return {name: max(curve) for name, curve in curves.items()}


if __name__ == "__main__":
    for name, best in main(*sys.argv[1:]).items():
        print(f"{name}: best SNR {best:.2f} dB")
