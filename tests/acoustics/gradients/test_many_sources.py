"""Gradients of many 2-D sources at once on a GPU, each to round-off what it gives by itself."""

import numpy as np
import pytest
from emulated_device import CapturingDevice, EmulatedDevice

from wavefabric.acoustics import (
    Grid,
    Medium,
    Sensor,
    Source,
    Transducer,
    prepare,
    simulate_and_gradient,
    simulate_and_gradients,
)
from wavefabric.base.errors import InputError
from wavefabric.runtime.device import get_device

pytestmark = pytest.mark.filterwarnings(
    *(f"ignore:{what}:UserWarning" for what in ("source", "medium", "sensor"))
)

GRID, STEPS, SHOTS = Grid((12, 10), 1e-4, pml_size=2), 5, 2
DEVICES = {"emulated": EmulatedDevice, "capturing": CapturingDevice, "cuda": lambda: get_device("cuda")}
SIGNALS = {
    "p0": ("p0",),
    "pressure": ("p",),
    "dirichlet": ("p",),
    "velocity": ("ux", "uy"),
    "transducer": ("transducer",),
}


CASES = [*((kind, True) for kind in SIGNALS), ("p0", False), ("velocity", False)]


def medium(lossy):
    rng = np.random.default_rng(1)
    speed, density, alpha, ratio = (
        low * (1 + 0.05 * rng.random(GRID.shape)) for low in (1500.0, 1000.0, 2.0, 6.0)
    )
    more = {"alpha_coeff": alpha, "alpha_power": 1.5, "nonlinearity": ratio} if lossy else {}
    return Medium(speed, density, **more)


def shot(kind, number):
    mask, rng = np.zeros(GRID.shape, bool), np.random.default_rng(number)
    mask[4 + number, 5] = mask[8, 3 + number] = True
    array = np.zeros(GRID.shape, bool)
    array[5, 4:6] = True
    waves = 1e4 * np.sin((1 + np.arange(9)) / (4 + number)) * np.array([[1], [0.5 + number]])
    return {
        "p0": lambda: Source(p0=1e4 * rng.random(GRID.shape)),
        "pressure": lambda: Source(p_mask=mask, p=waves),
        "dirichlet": lambda: Source(p_mask=mask, p=waves, p_mode="dirichlet"),
        "transducer": lambda: Source(
            transducer=Transducer(array, 1e-3 * np.sin(np.arange(7.0)), [number // 2, 1])
        ),
        "velocity": lambda: Source(u_mask=mask, ux=1e-6 * waves, uy=2e-6 * waves),
    }[kind]()


def sensor(*record, **more):
    mask = np.zeros(GRID.shape, bool)
    mask[3, 4] = mask[7, 7] = True
    return Sensor(mask, record, **more)


def energy(results, number):
    """Another objective for each source."""
    weighted = {name: (1 + number) * values for name, values in results.items()}
    return sum(float(np.sum(weighted[name] * results[name])) for name in results), {
        name: 2 * values for name, values in weighted.items()
    }


def check(prepared, sources, heard, objective, wrt, **more):
    inputs = GRID, prepared.medium
    together = simulate_and_gradients(*inputs, sources, heard, objective, wrt, prepared=prepared, **more)
    for number, (result, source) in enumerate(zip(together, sources, strict=True)):

        def alone(results, number=number):
            return objective(results, number)

        expected = simulate_and_gradient(*inputs, source, heard, alone, wrt, prepared=prepared)
        assert result.value == pytest.approx(expected.value, rel=1e-11)
        assert result.keys() == expected.keys()
        for name in expected:
            got, right = np.asarray(result[name]), np.asarray(expected[name])
            assert got.shape == right.shape
            assert np.abs(right).max() > 0
            assert np.abs(got - right).max() < 1e-10 * np.abs(right).max()
    return together


@pytest.mark.parametrize(
    ("device", "kind", "lossy"),
    [
        ("emulated", "p0", True),
        pytest.param("emulated", "velocity", False, marks=pytest.mark.slow),
        *(pytest.param("emulated", *case, marks=pytest.mark.slow) for case in CASES[1:-1]),
        *(pytest.param("capturing", kind, True, marks=pytest.mark.slow) for kind in ("p0", "velocity")),
        *(pytest.param("cuda", *case, marks=pytest.mark.gpu) for case in CASES),
    ],
)
def test_every_parameter(device, kind, lossy):
    device = DEVICES[device]()
    wrt = "sound_speed", "density", *(("alpha_coeff", "nonlinearity") if lossy else ()), *SIGNALS[kind]
    prepared = prepare(GRID, medium(lossy), device=device, cfl=0.25, precision="double", steps=STEPS)
    sources = [shot(kind, number) for number in range(SHOTS)]
    together = check(prepared, sources, sensor("p", "u", "p_final"), energy, wrt)
    assert "one of 2 sources that were simulated together" in together[0].results.report.notes


@pytest.mark.slow
@pytest.mark.parametrize("device", ["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_amplitudes(device):
    """Also where the objective of one source uses fewer results than that of another."""

    def loud(results, number):
        used = ("p_amp", "p_amp_all")[: 1 + number]
        return sum(float(np.sum(results[n] ** 2)) for n in used), {n: 2 * results[n] for n in used}

    how = {"device": DEVICES[device](), "precision": "double", "steps": STEPS}
    prepared = prepare(GRID, medium(False), **how)
    heard = sensor("p_amp", "p_amp_all", frequencies=(2e6,))
    check(prepared, [shot("pressure", number) for number in range(2)], heard, loud, "sound_speed")


@pytest.mark.slow
def test_several_kinds_and_states_that_do_not_fit():
    prepared = prepare(GRID, medium(False), device=EmulatedDevice(), precision="double", steps=STEPS)
    sources = [shot(kind, 0) for kind in ("p0", "pressure", "p0", "velocity")]
    check(prepared, sources, sensor("p"), energy, "sound_speed", states=2)


def test_without_a_gpu_it_is_a_loop():
    sources = [shot("pressure", number) for number in range(2)]
    how = {"device": "cpu", "steps": STEPS, "precision": "double"}
    together = simulate_and_gradients(GRID, medium(True), sources, sensor("p"), energy, **how)
    for number, result in enumerate(together):
        alone = simulate_and_gradient(
            GRID, medium(True), sources[number], sensor("p"), lambda each, n=number: energy(each, n), **how
        )
        assert (result["sound_speed"] == alone["sound_speed"]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": None}, "objective: null; allowed: a function of results and the number"),
        ({"checkpoint": "a"}, "checkpoint: is given for many sources; allowed: simulate_and_gradient"),
        ({"wrt": "colour"}, 'wrt: "colour" given'),
        ({"sensor": sensor("p_max")}, "sensor.record: .*no derivative"),
        ({"objective": lambda results, number: 1.0}, "objective: returns something else"),
    ],
)
def test_what_is_wrong_is_refused(change, message):
    inputs = {"sensor": sensor("p"), "objective": energy, "device": EmulatedDevice(), "steps": 3} | change
    with pytest.raises(InputError, match=f"^{message}"):
        simulate_and_gradients(GRID, medium(False), [shot("p0", 0), shot("p0", 1)], **inputs)
