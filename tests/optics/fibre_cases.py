"""Fibres and fields that the propagation tests share."""

from __future__ import annotations

import numpy as np

from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.propagate import PropagationOptions, Propagator, propagate

SECOND = ("strang", "ssfm_rk4", "ssfm_agrawal")
FOURTH = ("rk4ip", "blanes_moan", "erk43ip")
ALL = tuple(INTEGRATORS)


def make_fibre(kappa, kappa_of="mode", beta=0.0, gamma=1.3e-3, alpha=0.0, groups=None) -> Fibre:
    """A fibre straight from its numbers; ``beta`` is (M, 4), (4,) or a plain 0, in SI."""
    kappa = np.atleast_2d(np.asarray(kappa, float))
    modes = {"mode": kappa.shape[0], "row": kappa.shape[0] // 2}.get(kappa_of) or len(groups)
    groups = np.arange(1, modes + 1) if groups is None else np.asarray(groups)
    return Fibre(
        name="test",
        labels=tuple(f"M{i + 1}" for i in range(modes)),
        groups=groups,
        alpha=np.asarray(alpha, float),
        beta=np.broadcast_to(np.asarray(beta, float), (modes, 4)).copy(),
        gamma=gamma,
        kappa=kappa,
        kappa_of=kappa_of,
        a_eff=np.full(modes, 80e-12),
        wavelength=1550e-9,
    )


def repeated_as_captured(propagation, work):
    """What repeats ``work`` as a CUDA graph does: with the transfer functions that are there now."""
    tables = dict(propagation.factors)

    def replay():
        propagation.prepare = tables.__getitem__
        work()
        del propagation.prepare

    return replay


def times(n: int, dt: float) -> np.ndarray:
    """Sample times, zero in the middle of the window, s."""
    return (np.arange(n) - n // 2) * dt


def unit_vector(components: int, seed: int) -> np.ndarray:
    """A random direction in complex space."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(components) + 1j * rng.standard_normal(components)
    return v / np.linalg.norm(v)


def smooth_field(rows: int, n: int, power: float, seed: int = 1, width: float = 0.05) -> np.ndarray:
    """Band-limited random rows of mean power ``power`` W; ``width`` of the band is filled."""
    rng = np.random.default_rng(seed)
    spectrum = rng.standard_normal((rows, n)) + 1j * rng.standard_normal((rows, n))
    spectrum *= np.exp(-((np.fft.fftfreq(n) / width) ** 2))
    field = np.fft.ifft(spectrum)
    return field * np.sqrt(power / (abs(field) ** 2).mean(axis=1, keepdims=True))


def run(field, fibre, length, dt, integrator, steps, device, **options):
    """Field after ``steps`` equal steps over ``length`` m."""
    return propagate(
        field,
        fibre,
        length,
        sample_rate=1 / dt,
        step=length / steps,
        integrator=integrator,
        device=device,
        **options,
    )[0]


def distance(got, wanted) -> float:
    """‖got − wanted‖/‖wanted‖."""
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


#: Three modes with delays, loss and a κ that is not symmetric, for the tests of `propagate`.
RATE, LOSS = 500e9, np.array([0.04e-3, 0.06e-3, 0.05e-3])
_BETA = np.array([[0, -20e-27, 0, 0], [0.4e-15, -22e-27, 0, 0], [-0.7e-15, -19e-27, 0, 0]])
FIBRE = make_fibre([[0.9, 0.5, 0.4], [0.6, 1.1, 0.3], [0.4, 0.3, 0.8]], beta=_BETA, alpha=LOSS)


def launch(n=192, power=10e-3):
    """A field for `FIBRE`."""
    return smooth_field(6, n, power, seed=2)


def propagator(device, n=192, **options) -> Propagator:
    """A propagator for `FIBRE`."""
    return Propagator(FIBRE, n, RATE, device, PropagationOptions(**options))


def put(runner: Propagator, field):
    """A copy of ``field`` where the propagator works."""
    A = runner.operators.empty()
    A[...] = runner.device.asarray(field)
    return A
