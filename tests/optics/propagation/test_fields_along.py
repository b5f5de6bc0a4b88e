"""Fields at distances along a fibre: against closed forms, exactly there, the same for all ranks."""

import numpy as np
import pytest
from fibre_cases import RATE, distance, make_fibre, smooth_field, times

from wavefabric.base.errors import FieldLost, InputError
from wavefabric.optics.fibre.presets import single_mode
from wavefabric.optics.propagation.propagate import propagate

BETA2, GAMMA, T0 = -20e-27, 1.3e-3, 10e-12
DISPERSION_LENGTH = T0**2 / abs(BETA2)
DT = 25 * T0 / 256
T = times(512, DT)
CONTROLS = {
    "step": {"step": "25 m"},
    "phase": {"max_phase": 0.01},
    "tolerance": {"tolerance": 1e-8, "integrator": "erk43ip"},
    "strang": {"step": "4 m", "integrator": "strang"},
}


def second_soliton(xi: float) -> np.ndarray:
    """The soliton of order 2 of Satsuma and Yajima 1974, doi 10.1143/PTPS.55.284, in √W; xi = z/L_D."""
    tau = T / T0
    above = np.cosh(3 * tau) + 3 * np.exp(4j * xi) * np.cosh(tau)
    field = 4 * np.exp(0.5j * xi) * above / (np.cosh(4 * tau) + 4 * np.cosh(2 * tau) + 3 * np.cos(4 * xi))
    return np.sqrt(abs(BETA2) / (GAMMA * T0**2)) * np.array([field, 0 * T])


@pytest.mark.parametrize("control", CONTROLS)
def test_a_soliton_within_its_period(cpu, control):
    """Distances inside steps, and half a period, where the peak is 4 times that of the launched pulse."""
    xi = np.array([0.0, 0.101, 0.4321, np.pi / 4, 1.2])
    fibre, options = single_mode(BETA2, GAMMA, kappa=1.0), {"sample_rate": 1 / DT, "device": cpu}
    inputs = second_soliton(0), fibre, np.pi / 2 * DISPERSION_LENGTH
    out, report, fields = propagate(*inputs, at=xi * DISPERSION_LENGTH, **options, **CONTROLS[control])
    assert fields.shape == (5, 2, 512)
    assert (fields[0] == inputs[0]).all()
    for field, each in zip(fields, xi, strict=True):
        assert distance(field, second_soliton(each)) < 5e-4
    assert (abs(fields[3]) ** 2).max() == pytest.approx(4 * (abs(inputs[0]) ** 2).max(), rel=1e-3)
    whole, alone = propagate(*inputs, **options, **CONTROLS[control])
    assert distance(out, whole) < 2e-4
    assert alone.steps <= report.steps <= alone.steps + 10


def test_a_gaussian_pulse_broadens(cpu):
    """T0 √(1 + (z/L_D)²) and loss, also backwards; the report has the loss of the whole way."""
    fibre = single_mode(BETA2, 0.0, "0.2 dB/km", kappa=1.0)
    z = np.linspace(0, 1.5, 7) * DISPERSION_LENGTH
    start = np.array([np.exp(-(T**2) / (2 * T0**2)), 0 * T])
    options = {"sample_rate": 1 / DT, "device": cpu, "step": "1 km"}
    out, report, fields = propagate(start, fibre, z[-1], at=z, **options)
    assert (fields[-1] == out).all()
    power = (abs(fields) ** 2).sum(axis=1)
    width = np.sqrt(2 * (power * T**2).sum(axis=1) / power.sum(axis=1))
    np.testing.assert_allclose(width, T0 * np.sqrt(1 + (z / DISPERSION_LENGTH) ** 2), rtol=1e-6)
    loss = np.exp(-np.log(10) / 10 * 0.2e-3 * z)
    np.testing.assert_allclose(power.sum(axis=1) / power[0].sum(), loss, rtol=1e-9)
    assert report.energy_drift < 1e-12
    _, back_report, back = propagate(out, fibre, z[-1], at=z, backward=True, **options)
    np.testing.assert_allclose(back, fields[::-1], atol=1e-12)
    assert back_report.energy_drift < 1e-12


def test_a_chain_of_propagations(cpu):
    """Fixed steps end at the distances, so each field is that of separate calls, to the last bit."""
    fibre = make_fibre([[0.9, 0.6], [0.6, 0.8]], beta=[0, -20e-27, 0.1e-39, 0], alpha=0.05e-3)
    field, seen = smooth_field(4, 128, 200e-3), []
    launched = (abs(field) ** 2).sum(axis=1)
    options = {"sample_rate": RATE, "device": cpu, "step": "100 m"}
    out, report, fields = propagate(
        field, fibre, "2 km", at=["0.25 km", "0.91 km"], progress=lambda *step: seen.append(step), **options
    )
    for length, expected in zip((250, 660), fields, strict=True):
        field, _ = propagate(field, fibre, length, **options)
        assert (field == expected).all()
    assert report.steps == 3 + 7 + 11
    assert [steps for _, steps in seen] == list(range(1, 22))
    lossless = [(abs(each) ** 2).sum(axis=1) for each in (*fields, out)]
    lossless = np.array(lossless) * np.exp(0.05e-3 * np.array([[250], [910], [2000]]))
    drift = abs(lossless / launched - 1).max()
    assert drift > 1e-7
    assert report.energy_drift == pytest.approx(drift, rel=1e-6)
    np.testing.assert_allclose([seen[k][0] for k in (0, 2, 9, 20)], [250 / 3, 250, 910, 2000])


def test_where_a_field_is_lost(cpu):
    """The distance of a message is that from the start of the fibre."""
    strong, fibre = np.full((2, 64), 1e100), single_mode(gamma=0, alpha=2 * np.log(1e30) / 1e3)
    options = {"sample_rate": RATE, "step": "1 km", "device": cpu, "backward": True}
    with pytest.raises(FieldLost, match="is not finite at z = 2 km"):
        propagate(strong, fibre, 4e3, at=["1 km", "2 km"], **options)


@pytest.mark.parallel([2, 3])
@pytest.mark.parametrize("control", ["step", "tolerance"])
def test_fields_of_all_ranks(comm, control):
    fibre = make_fibre(np.full((4, 4), 0.6), beta=[0, -20e-27, 0, 0], alpha=0.05e-3)
    field = smooth_field(8, 96, 20e-3)
    options = {"sample_rate": RATE, "device": comm.device, "at": [0, 310, 1500], **CONTROLS[control]}
    out, report, fields = propagate(field, fibre, 1.5e3, comm=comm, **options)
    alone, one, alone_fields = propagate(field, fibre, 1.5e3, **options)
    assert fields.shape == (3, 8, 96)
    assert distance(fields[1], alone_fields[1]) < 1e-12
    assert distance(fields[1], field) > 0.03
    assert (fields[2] == out).all()
    assert distance(out, alone) < 1e-12
    assert report.steps == one.steps


@pytest.mark.parametrize(
    ("at", "line"),
    [
        ([], r"at: \[\] m given; allowed: increasing distances from 0 to 1000 m, the length"),
        ([3, 2], r"at: \[3.0, 2.0\] m given"),
        ([2, 2], r"at: \[2.0, 2.0\] m given"),
        ([-1.0], r"at: \[-1.0\] m given"),
        (["2 km"], r"at: \[2000.0\] m given"),
        (["2 ps"], 'at: "2 ps" has the unit "ps"'),
        ([float("nan")], r"at: \[NaN\] m given"),
        ([[1, 2]], r"at: \[\[1.0, 2.0\]\] m given"),
        ("all", 'at: "all" cannot be read'),
    ],
)
def test_distances_that_do_not_fit(cpu, at, line):
    field = np.ones((2, 16))
    with pytest.raises(InputError, match=line):
        propagate(field, single_mode(), "1 km", sample_rate=RATE, step="100 m", device=cpu, at=at)


def test_fields_that_do_not_fit_into_memory(cpu):
    field = np.ones((2, 1 << 16))
    at = np.linspace(0, 1e3, 1 << 21)
    with pytest.raises(InputError, match="fields along the fibre"):
        propagate(field, single_mode(), "1 km", sample_rate=RATE, step="1 km", device=cpu, at=at)
