"""Against the NumPy solver of k-wave-python, an independent implementation of the same scheme."""

import numpy as np
import pytest
from kwave_cases import answers, cases, objects

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate, simulate_kwave

#: k-wave-python brings u to the time of p by a transform over all time, Wavefabric by six points.
INTENSITY = 2e-4

#: The cases have signals of all frequencies.
pytestmark = pytest.mark.filterwarnings(r"ignore:source\..* of its energy lies above")


def compare(got, wanted, tolerance):
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("name", cases())
def test_double_precision(name, device):
    *things, options = objects(name)
    results = simulate_kwave(*things, **options, device=device.name, threads=1, precision="double")
    wanted = answers(name)
    assert set(results) == set(wanted)
    for key, array in wanted.items():
        compare(results[key], array, INTENSITY if key[0] == "I" else 1e-11)


@pytest.mark.parametrize("name", ["p0_absorbing_nonlinear_3d", "u_dirichlet_2d"])
def test_single_precision(name, device):
    *things, options = objects(name)
    results = simulate_kwave(*things, **options, device=device.name, threads=1)
    for key, array in answers(name).items():
        compare(results[key], array, 2e-5)


def test_own_objects_3d():
    """The same case without the bridge: rows come in the order of Fortran and names are MATLAB's."""
    name = "u_additive_many_3d"
    case, wanted = cases()[name], answers(name)
    shape, spacing = case["grid"]
    steps, dt = case["time"]
    inputs, mask = case["source"], case["source"]["u_mask"]
    rank = np.zeros(shape, int)
    rank[mask] = np.arange(mask.sum())
    rows = rank.ravel(order="F")[mask.ravel(order="F")]
    results = simulate(
        Grid(shape, spacing, **case["options"]),
        Medium(
            case["medium"]["sound_speed"],
            case["medium"]["density"],
            case["medium"]["alpha_coeff"],
            case["medium"]["alpha_power"],
        ),
        Source(u_mask=mask, ux=inputs["ux"][rows], uy=inputs["uy"][rows], uz=inputs["uz"][rows]),
        Sensor(case["sensor"]["mask"], ["p", "u_non_staggered"]),
        dt=dt,
        steps=steps,
        device="cpu",
        threads=1,
        precision="double",
    )
    sensor = case["sensor"]["mask"]
    rank[sensor] = np.arange(sensor.sum())
    rows = rank.ravel(order="F")[sensor.ravel(order="F")]
    compare(results["p"], wanted["p"][rows], 1e-11)
    for axis in "xyz":
        compare(results[f"u{axis}_non_staggered"], wanted[f"u{axis}"][rows], 1e-11)


def test_own_objects_2d():
    name = "p0_cartesian_pml_outside_2d"
    case, wanted = cases()[name], answers(name)
    results = simulate(
        Grid(*case["grid"], **case["options"]),
        Medium(case["medium"]["sound_speed"], case["medium"]["density"]),
        Source(p0=case["source"]["p0"]),
        Sensor.points(case["sensor"]["mask"], ["p", "p_final", "u"]),
        dt=case["time"][1],
        steps=case["time"][0],
        device="cpu",
        threads=1,
        precision="double",
    )
    compare(results["p"], wanted["p"], 1e-11)
    compare(results["ux"], wanted["ux_staggered"], 1e-11)
    compare(results["p_final"], wanted["p_final"], 1e-11)
