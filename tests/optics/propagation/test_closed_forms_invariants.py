"""Closed forms 8 to 10: conserved energy, reversibility, order, and nothing else that counts."""

import math

import numpy as np
import pytest
from emulated_device import opened
from fibre_cases import ALL, FOURTH, distance, make_fibre, run, smooth_field

from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.propagation.propagate import propagate
from wavefabric.runtime.device import get_device

DT = 2e-12
KAPPA = np.array([[0.9, 0.5, 0.4], [0.6, 1.1, 0.3], [0.4, 0.3, 0.8]])
BETA = np.zeros((3, 4))
BETA[:, 0] = 0, 0.4e-15, -0.7e-15
BETA[:, 1] = -20e-27, -22e-27, -19e-27
BETA[:, 2] = 0.1e-39
#: Rotations only: |A|² of a sample never changes but by transforms.
EXACT = ("strang", "ssfm_agrawal", "blanes_moan")


def lossless(alpha=0.0):
    return make_fibre(KAPPA, beta=BETA, alpha=alpha)


def launch(n=384):
    field = smooth_field(6, n, 10e-3, seed=2)
    field *= np.sqrt([1.0, 0.3, 2.0, 0.1, 1.4, 0.0])[:, None]
    return field


def energies(field):
    return (abs(field) ** 2).sum(axis=1)


@pytest.mark.parametrize("integrator", ALL)
def test_energy_of_every_mode_and_polarisation_is_kept(cpu, integrator):
    start = launch()
    out = run(start, lossless(), 30e3, DT, integrator, 200, cpu)
    change = abs(energies(out)[:-1] / energies(start)[:-1] - 1).max()
    assert change < (1e-12 if integrator in EXACT else 1e-7)
    # A dark row stays dark: nothing here moves power between rows.
    assert (out[-1] == 0).all()
    assert distance(abs(out), abs(start)) > 0.1


@pytest.mark.parametrize("integrator", ALL)
def test_energy_falls_by_the_loss_of_the_mode(cpu, integrator):
    alpha = np.array([0.2, 0.25, 0.3]) * 1e-3 * math.log(10) / 10
    start = launch()
    out, report = propagate(
        start, lossless(alpha), 30e3, sample_rate=1 / DT, step=150.0, integrator=integrator, device=cpu
    )
    left = np.repeat(np.exp(-alpha * 30e3), 2)[:-1]
    change = abs(energies(out)[:-1] / energies(start)[:-1] / left - 1).max()
    assert change < (1e-12 if integrator in EXACT else 1e-7)
    assert report.energy_drift == pytest.approx(change, abs=1e-13)


def backwards_and_forwards(integrator, device, steps, alpha=0.0, length=30e3):
    """Distance from the start after ``length`` m there and back, relative to the start."""
    start = launch()
    operators = FibreOperators(device, lossless(alpha), start.shape[1], 1 / DT, np.complex128)
    A = operators.empty()
    A[...] = start
    scheme = INTEGRATORS[integrator](operators)
    scheme.advance(A, length / steps, steps)
    assert distance(A, start) > 0.5
    scheme.advance(A, -length / steps, steps)
    return distance(A, start)


@pytest.mark.parametrize("alpha", [0.0, 0.05e-3])
@pytest.mark.parametrize("integrator", ["strang", "blanes_moan"])
def test_symmetric_splittings_run_backwards_exactly(cpu, integrator, alpha):
    assert backwards_and_forwards(integrator, cpu, 40, alpha) < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["ssfm_rk4", "ssfm_agrawal", "rk4ip", "erk43ip"])
def test_others_run_backwards_to_their_accuracy(cpu, integrator):
    coarse, fine = (backwards_and_forwards(integrator, cpu, steps) for steps in (300, 600))
    assert fine < 2e-5
    assert fine < coarse / 3.5


@pytest.mark.parametrize("integrator", ALL)
def test_the_time_reversed_field_returns(cpu, integrator):
    """Phase conjugation: A*(−z) obeys the equation with odd β of the other sign."""
    start = launch()
    mirrored = BETA.copy()
    mirrored[:, [0, 2]] *= -1
    there = run(start, lossless(), 20e3, DT, integrator, 1000, cpu)
    back = run(there.conj(), make_fibre(KAPPA, beta=mirrored), 20e3, DT, integrator, 1000, cpu).conj()
    assert distance(there, start) > 0.3
    assert distance(back, start) < (1e-9 if integrator in ("strang", "blanes_moan") else 1e-5)


def soliton_error(integrator, steps, device):
    """Error against the closed form of the second-order soliton at half its period."""
    beta2, gamma, width = -20e-27, 1.3e-3, 10e-12
    t = (np.arange(960) - 480) * 0.5e-12
    length = math.pi / 4 * width**2 / abs(beta2)
    tau, xi = t / width, math.pi / 4
    peak = math.sqrt(abs(beta2) / (gamma * width**2))
    above = np.cosh(3 * tau) + 3 * np.exp(4j * xi) * np.cosh(tau)
    below = np.cosh(4 * tau) + 4 * np.cosh(2 * tau) + 3 * math.cos(4 * xi)
    wanted = peak * 4 * np.exp(0.5j * xi) * above / below
    start = np.array([2 * peak / np.cosh(tau), np.zeros(t.size)])
    fibre = make_fibre([[1.0]], beta=[0, beta2, 0, 0], gamma=gamma)
    return distance(run(start, fibre, length, 0.5e-12, integrator, steps, device)[0], wanted)


#: Steps over the soliton by order.
STEPS = {4: 320, 2: 400}


@pytest.mark.parametrize("integrator", ALL)
def test_order_against_the_soliton(cpu, integrator):
    steps = STEPS[INTEGRATORS[integrator].order]
    coarse, fine = (soliton_error(integrator, n, cpu) for n in (steps, 2 * steps))
    assert fine > 1e-10
    assert math.log2(coarse / fine) == pytest.approx(INTEGRATORS[integrator].order, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ALL)
def test_order_with_many_modes_and_loss(cpu, integrator):
    fibre, start = lossless(alpha=[0.04e-3, 0.06e-3, 0.05e-3]), launch(192)
    # Differences of three step sizes: the error of the finest does not enter the ratio.
    n = 160 if integrator in FOURTH else 300
    out = [run(start, fibre, 20e3, DT, integrator, k * n, cpu) for k in (1, 2, 4)]
    ratio = np.linalg.norm(out[1] - out[0]) / np.linalg.norm(out[2] - out[1])
    assert math.log2(ratio) == pytest.approx(INTEGRATORS[integrator].order, abs=0.05)


@pytest.mark.slow
def test_all_integrators_solve_the_same_equation(cpu):
    fibre, start = lossless(alpha=0.05e-3), launch(192)
    reference = run(start, fibre, 20e3, DT, "blanes_moan", 800, cpu)
    for integrator in ALL:
        steps = 400 if integrator in FOURTH else 4000
        assert distance(run(start, fibre, 20e3, DT, integrator, steps, cpu), reference) < 2e-5


CONTROLS = {
    "fixed": {"step": 250.0},
    "phase": {"max_phase": 0.05},
}


@pytest.mark.parametrize("precision", ["double", pytest.param("single", marks=pytest.mark.slow)])
@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("integrator", ALL)
def test_threads_do_not_change_a_bit(integrator, control, precision):
    start = launch(5 * 401)
    out = []
    for threads in (1, 2):
        cpu = opened(f"cpu {threads}")
        options = CONTROLS[control] | {"integrator": integrator, "precision": precision, "device": cpu}
        out.append(propagate(start, lossless(0.05e-3), 1e3, sample_rate=1 / DT, **options)[0])
    assert (out[0] == out[1]).all()


def test_threads_do_not_change_the_steps_of_error_control():
    start = launch(5 * 401)
    fibre = lossless(0.05e-3)
    options = {"integrator": "erk43ip", "tolerance": 1e-6}
    (one, _), (two, _) = (
        propagate(start, fibre, 1e3, sample_rate=1 / DT, device=get_device("cpu", n), **options)
        for n in (1, 2)
    )
    assert (one == two).all()


@pytest.mark.gpu
@pytest.mark.parametrize("kerr", ["dense", "factored", "svd"])
@pytest.mark.parametrize("integrator", ALL)
def test_the_device_does_not_change_the_answer(cpu, integrator, kerr):
    start, fibre = launch(1037), lossless(0.05e-3)
    options = {"sample_rate": 1 / DT, "step": 500.0, "integrator": integrator, "kerr": kerr}
    here, on_cpu = propagate(start, fibre, 30e3, device=cpu, **options)
    there, on_gpu = propagate(start, fibre, 30e3, device=get_device("cuda"), **options)
    assert distance(there, here) < 1e-10
    for key in ("steps", "ffts", "exchanges"):
        assert getattr(on_cpu, key) == getattr(on_gpu, key)
    assert on_gpu.local_error == pytest.approx(on_cpu.local_error, rel=1e-5)


@pytest.mark.gpu
def test_adaptive_steps_on_the_gpu(cpu):
    start, fibre = launch(1037), lossless(0.05e-3)
    for control in ({"tolerance": 1e-6}, {"max_phase": 0.02}):
        options = {"sample_rate": 1 / DT, "integrator": "erk43ip", **control}
        here, on_cpu = propagate(start, fibre, 10e3, device=cpu, **options)
        there, on_gpu = propagate(start, fibre, 10e3, device=get_device("cuda"), **options)
        assert distance(there, here) < 1e-10
        assert (on_gpu.steps, on_gpu.rejected) == (on_cpu.steps, on_cpu.rejected)
