"""Prepared simulations: one source after another, to the bit what `simulate` gives for each alone."""

import h5py
import numpy as np
import pytest
from emulated_device import CapturingDevice

from wavefabric.acoustics import (
    ContinuousWave,
    Grid,
    Medium,
    Sensor,
    Source,
    linearize,
    prepare,
    simulate,
    simulate_and_gradient,
)
from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.acoustics.gradients.run import AdjointRun
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.stability import stable_time_step
from wavefabric.base.errors import FieldLost, InputError
from wavefabric.runtime.device import get_device
from wavefabric.runtime.device.user_arrays import host_array

pytestmark = pytest.mark.filterwarnings(
    "ignore:source:UserWarning", "ignore:sensor.frequencies:UserWarning", "ignore:medium:UserWarning"
)

GRIDS = [Grid((20, 16), 1e-4, pml_size=3), Grid((16, 14, 12), 1e-4, pml_size=3, pml_inside=False)]


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param, threads=1)


def uneven(grid, **more):
    rng = np.random.default_rng(1)
    speed, density = (rng.uniform(low, 1.05 * low, grid.shape) for low in (1500.0, 1000.0))
    return Medium(speed, density, **more)


LOSSY = {"alpha_coeff": 2.0, "alpha_power": 1.5, "nonlinearity": 6.0}


def shots(grid):
    """A source of each kind, with what is recorded of it."""
    rng, point = np.random.default_rng(2), np.zeros(grid.shape, bool)
    point[(5,) * len(grid.shape)] = True
    some, series = point.copy(), np.sin(np.arange(30.0) / 5)[None] * np.hanning(30)
    some[3:6, 4:8] = True
    return [
        (Source(p_mask=point, p=1e4 * series), Sensor(some, ("p", "u_max", "p_final")), 40),
        (Source(p0=1e4 * rng.random(grid.shape)), None, 25),
        (Source(p_mask=some, p=ContinuousWave(1e4, 1e6), p_mode="dirichlet"), Sensor(point, "p_max"), 30),
        (Source(u_mask=some, ux=1e-3 * series, uy=2e-3 * series), Sensor(some, ("p", "I_avg")), 35),
        (Source(p_mask=point, p=1e4 * series), Sensor(some, ("p", "u_max", "p_final")), 40),
    ]


def same(one, other):
    assert one.keys() == other.keys()
    return all((one[name] == other[name]).all() for name in one)


@pytest.mark.parametrize("more", [{}, LOSSY], ids=["lossless", "lossy"])
@pytest.mark.parametrize("grid", GRIDS, ids=["2-D", "3-D"])
def test_each_source_gives_the_bits_of_simulate(device, grid, more):
    medium, how = uneven(grid, **more), {"device": device, "cfl": 0.25}
    prepared = prepare(grid, medium, **how)
    results = [prepared.simulate(source, sensor, steps=steps) for source, sensor, steps in shots(grid)]
    for result, (source, sensor, steps) in zip(results, shots(grid), strict=True):
        assert same(result, simulate(grid, medium, source, sensor, steps=steps, **how))
    assert prepared.dt == grid.time_step(medium, 0.25)
    prepared.close()
    source, sensor, steps = shots(grid)[0]
    assert same(prepared.simulate(source, sensor, steps=steps), results[0])


@pytest.mark.slow
@pytest.mark.parallel(2)
@pytest.mark.parametrize("kind", ["global", pytest.param("local", marks=pytest.mark.slow)])
def test_over_ranks(comm, kind):
    grid, how = GRIDS[1], {"comm": comm, "decomposition": Decomposition(kind, overlap=3)}
    medium = uneven(grid, **LOSSY)
    prepared = prepare(grid, medium, **how)
    for source, sensor, steps in shots(grid):
        alone = simulate(grid, medium, source, sensor, steps=steps, **how)
        assert same(prepared.simulate(source, sensor, steps=steps), alone)


def test_the_medium_is_looked_at_once(device, monkeypatch):
    """Its extremes, its staggered densities, and whether the time step is stable."""
    grid, counts = GRIDS[0], {"silent": 0, "extremes": 0, "stable": 0}

    def counting(owner, name, key):
        call = getattr(owner, name)

        def counted(*words, **more):
            counts[key] += 1
            return call(*words, **more)

        monkeypatch.setattr(owner, name, counted)

    counting(Grid, "silent_problem", "silent")
    counting(Problem, "_find_extremes", "extremes")
    counting(stable_time_step, "stability", "stable")
    prepared = prepare(grid, uneven(grid, **LOSSY), dt=1e-8, device=device, steps=5)
    for source, sensor, _ in shots(grid):
        prepared.simulate(source, sensor)
    assert counts == {"silent": 1, "extremes": 1, "stable": 1}


def test_what_is_wrong_leaves_the_next_source_alone(device, tmp_path):
    grid, medium = GRIDS[0], uneven(GRIDS[0])
    prepared = prepare(grid, medium, device=device, steps=30)
    source, sensor, _ = shots(grid)[0]
    first = prepared.simulate(source, sensor)
    with pytest.raises(FieldLost):
        prepared.simulate(Source(p_mask=source.p_mask, p=np.full((1, 30), 1e38)), sensor)
    with pytest.raises(InputError, match="sensor"):
        prepared.simulate(source, medium)
    assert same(prepared.simulate(source, sensor, output=tmp_path / "shot.h5"), first)
    assert (tmp_path / "shot.h5").exists()
    for name in ("device", "dt", "colour"):
        with pytest.raises(
            InputError, match=f'prepared.simulate: "{name}" given; allowed: record, steps, t_end'
        ):
            prepared.simulate(source, sensor, **{name: 1})


def test_a_time_step_that_is_not_stable_is_refused(device):
    prepared = prepare(GRIDS[0], uneven(GRIDS[0]), dt=1e-6, device=device)
    for _ in range(2):
        with pytest.raises(InputError, match=r"dt: .* is not stable"):
            prepared.simulate(*shots(GRIDS[0])[0][:2], steps=3)
    with pytest.raises(InputError, match="medium"):
        prepare(GRIDS[0], GRIDS[0])


def test_gradients_of_shots(device):
    """Simulations and gradients in turn, with the stages that each needs."""
    grid, how = GRIDS[0], {"device": device, "steps": 30, "precision": "double"}
    medium = uneven(grid, **LOSSY)
    prepared = prepare(grid, medium, **how)

    def objective(results):
        return float(np.sum(results["p"] ** 2)), {"p": 2 * results["p"]}

    for number, (source, sensor, _) in enumerate((shots(grid)[0], shots(grid)[0], shots(grid)[4])):
        words = grid, medium, source, Sensor(sensor.mask, "p"), objective
        if number == 1:
            simulate_and_gradient(*words, prepared=prepared)
        wanted = simulate_and_gradient(*words, **how)
        result = simulate_and_gradient(*words, prepared=prepared)
        assert result.value == wanted.value
        assert (result["sound_speed"] == wanted["sound_speed"]).all()
        assert same(prepared.simulate(source, sensor), simulate(grid, medium, source, sensor, **how))
    with pytest.raises(InputError, match="device: is given along with prepared"):
        simulate_and_gradient(*words, prepared=prepared, device="cpu")
    with pytest.raises(InputError, match="prepared: is of another grid or medium"):
        simulate_and_gradient(grid, uneven(grid), *words[2:], prepared=prepared)
    with pytest.raises(InputError, match="prepared: "):
        linearize(*words[:4], "sound_speed", prepared=prepared)


@pytest.mark.slow
def test_kernels_of_a_gpu_find_the_sources_of_each_simulation():
    """Captured steps hold addresses: those of the sources before are gone."""
    grid, device = Grid((12, 10, 8), 1e-4, pml_size=2), CapturingDevice()
    medium, how = uneven(grid, **LOSSY), {"device": device, "dt": 1e-8, "precision": "double"}
    prepared = prepare(grid, medium, **how)
    for source, sensor, _ in (shots(grid)[number] for number in (0, 1, 3, 0)):
        if sensor is not None:
            sensor = Sensor(sensor.mask, ("p", "p_max"))
        result = prepared.simulate(source, sensor, steps=8)
        assert same(result, simulate(grid, medium, source, sensor, steps=8, **how))
    assert device.graphs == 8  # one for each simulation


@pytest.mark.slow
@pytest.mark.parametrize("states", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_gradients_one_after_another_on_a_gpu(states, monkeypatch):
    """Each has adjoint fields of its own, at other places in memory than those before.

    States are stored by the steps themselves if the GPU can store all of them.
    """
    begun, begin = [], AdjointRun.begin
    monkeypatch.setattr(
        AdjointRun, "begin", lambda self, *words: begun.append(begin(self, *words)) or begun[-1]
    )
    grid, device, rng = Grid((16, 16), 1e-4, pml_size=3), CapturingDevice(), np.random.default_rng(1)
    medium = Medium(1500 + 50 * rng.random((16, 16)), 1000 + 30 * rng.random((16, 16)), 0.5, 1.5)
    mask = np.zeros((16, 16), bool)
    mask[3] = True
    how, wrt = {"precision": "double", "steps": 8, "dt": 1e-8}, ("sound_speed", "density")
    prepared = prepare(grid, medium, device=device, **how)

    def objective(results):
        return 0.5 * float((results["p"] ** 2).sum()), {"p": results["p"]}

    for _ in range(3):
        words = grid, medium, Source(p0=rng.random((16, 16)), smooth=False), Sensor(mask), objective
        gradient = simulate_and_gradient(*words, wrt=wrt, prepared=prepared, states=states)
        wanted = simulate_and_gradient(*words, wrt=wrt, device="cpu", **how)
        for name in wrt:
            assert abs(gradient[name] - wanted[name]).max() < 1e-12 * abs(wanted[name]).max()
    assert [each is None for each in begun] == [
        states is not None,
        True,
    ] * 3  # the CPU stores after each step


def test_recorded_arrays_stay_on_the_device(device, tmp_path):
    """With the values of a run that copies them to the host, and in memory of their own."""
    grid = GRIDS[0]
    medium, how = uneven(grid, **LOSSY), {"device": device, "cfl": 0.2, "dt": 2e-9}
    tones = Sensor.boxes(((2, 3), (5, 6)), record=("p", "p_amp"), frequencies=(1e6,))
    cases = [*shots(grid), (shots(grid)[0][0], tones, 40)]
    prepared = prepare(grid, medium, on_gpu=True, **how)
    there = [prepared.simulate(source, sensor, steps=steps) for source, sensor, steps in cases]
    for (source, sensor, steps), results in zip(cases, there, strict=True):
        wanted = simulate(grid, medium, source, sensor, steps=steps, **how)
        assert results.keys() == wanted.keys()
        for name, values in wanted.items():
            pairs = zip(parts_of(results[name]), parts_of(values), strict=True)
            for part, other in pairs:
                assert (device.name == "cpu") == isinstance(part, np.ndarray)
                # Amplitudes and phases are rounded by the GPU's library there, by NumPy here.
                rounding = 3e-7 if name in ("p_amp", "p_phase") and device.name != "cpu" else 0
                np.testing.assert_allclose(host_array(part), other, rounding, err_msg=name)
    files = [results.save(tmp_path / f"{number}.h5") for number, results in enumerate(there)]
    with h5py.File(files[0]) as file:
        np.testing.assert_array_equal(file["recorded/p"][()], host_array(there[0]["p"]))
    stacked = prepared.simulate_all([shots(grid)[k][0] for k in (0, 4)], tones, steps=40)
    np.testing.assert_allclose(host_array(stacked[1]["p"][0]), host_array(there[-1]["p"][0]), atol=1e-2)


def parts_of(values):
    """An array, or those of boxes and frequencies in lists, as one list."""
    return [part for each in values for part in parts_of(each)] if isinstance(values, list) else [values]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"on_gpu": 1}, "on_gpu: 1; allowed: True or False"),
        ({"on_gpu": True, "checkpoint": "x.h5"}, "on_gpu: is given with a checkpoint, whose rows"),
    ],
)
def test_results_on_a_device_that_cannot_be(more, text):
    with pytest.raises(InputError) as caught:
        prepare(GRIDS[0], Medium(1500.0, 1000.0), **more)
    assert str(caught.value).startswith(text)
