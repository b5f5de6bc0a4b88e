"""Many 2-D sources at once on a GPU, each to round-off what it gives by itself."""

import numpy as np
import pytest
from emulated_device import EmulatedDevice

from wavefabric.acoustics import (
    ContinuousWave,
    Grid,
    Medium,
    Sensor,
    Source,
    Transducer,
    linear_array,
    prepare,
    simulate,
)
from wavefabric.acoustics.materials.find import find_materials
from wavefabric.acoustics.stack import empty_stack, planes_together
from wavefabric.base.errors import FieldLost, InputError
from wavefabric.runtime.device import get_device

pytestmark = pytest.mark.filterwarnings(
    *(f"ignore:{what}:UserWarning" for what in ("source", "sensor", "medium"))
)

WATER = Medium(1500.0, 1000.0)
GRID, STEPS, SHOTS = Grid((20, 18), 1e-4, pml_size=3), 6, 3


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return EmulatedDevice() if request.param == "emulated" else get_device(request.param)


def media(kind):
    """A medium that is lossless, lossy, or made of few materials, which are stored by index."""
    rng = np.random.default_rng(1)
    speed, density = (low * (1 + 0.05 * rng.random(GRID.shape)) for low in (1500.0, 1000.0))
    if kind == "few":
        bone = rng.random(GRID.shape) < 0.3
        return Medium(np.where(bone, 1700.0, 1500.0), 1000.0, alpha_coeff=1.0 + bone, alpha_power=1.5)
    more = {"alpha_coeff": 2.0, "alpha_power": 1.5, "nonlinearity": 6.0} if kind == "lossy" else {}
    return Medium(speed, density, **more)


def points(number):
    mask = np.zeros(GRID.shape, bool)
    mask[4 + number, 5 + 2 * number] = mask[8, 8 + number] = True
    return mask


def shot(kind, number):
    """Source ``number`` of a kind: other points, another waveform, other weights."""
    rng, mask = np.random.default_rng(number), points(number)
    waves = 1e4 * np.sin((1 + np.arange(9)) / (2 + number)) * np.array([[1], [0.5 + number]])
    return {
        "p0": lambda: Source(p0=1e4 * rng.random(GRID.shape)),
        "pressure": lambda: Source(p_mask=mask, p=waves),
        "common": lambda: Source(p_mask=mask, p=waves[:1]),
        "dirichlet": lambda: Source(p_mask=mask, p=waves, p_mode="dirichlet"),
        "velocity": lambda: Source(u_mask=mask, ux=1e-6 * waves, uy=2e-6 * waves),
        "one component": lambda: Source(u_mask=mask, uy=1e-6 * waves, u_mode="additive_no_correction"),
        "transducer": lambda: Source(
            transducer=Transducer(points(0), 1e-3 * np.sin(np.arange(7.0)), [number // 2, 1])
        ),
        "tone": lambda: Source(p_mask=mask, p=ContinuousWave(1e4, 1e6, [0.1 * number, 0.2])),
        "tones": lambda: Source(p_mask=mask, p=ContinuousWave(1e4, 1e6 * (1 + number), [0.0, 0.2])),
    }[kind]()


EVERYTHING = ("p", "u_non_staggered", "I_avg", "u_max", "p_final", "p_max_all")
SENSORS = {
    "none": None,
    "mask": Sensor(points(0) | points(2), EVERYTHING, start=2),
    "boxes": Sensor.boxes(((2, 3), (5, 9)), ((8, 8), (9, 9)), record=("p", "p_max")),
    "points": Sensor.points([[1e-4, -2.5e-4], [0.3e-4, 1.2e-4]], record=("p", "p_rms")),
    "tones": Sensor(points(1), ("p_amp", "p_amp_all"), frequencies=(1e6, 2e6)),
    "elements": Sensor.elements(linear_array(GRID, (-5e-4, 0), 3, 2e-4, None, 3e-4, (1, 0))),
}


def difference(one, other):
    assert one.keys() == other.keys()
    worst = 0.0
    for name in one:
        got, expected = (np.concatenate([np.ravel(box) for box in each[name]]) for each in (one, other))
        assert got.shape == expected.shape
        worst = max(worst, float(np.max(np.abs(got - expected)) / np.max(np.abs(expected))))
    return worst


def check(device, medium, sources, sensor, precision="double", steps=STEPS):
    how = {"device": device, "cfl": 0.25, "steps": steps, "precision": precision}
    prepared = prepare(GRID, medium, **how)
    together = prepared.simulate_all(sources, sensor)
    alone = [prepared.simulate(source, sensor) for source in sources]
    limit = {"double": 2e-11, "single": 1e-4}[precision]
    assert max(map(difference, together, alone)) < limit
    return together


KINDS = "p0", "pressure", "common", "dirichlet", "velocity", "one component", "transducer", "tone", "tones"


@pytest.mark.parametrize(
    ("kind", "medium"),
    [
        ("pressure", "lossy"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                *((kind, "lossy") for kind in KINDS if kind != "pressure"),
                ("p0", "few"),
                ("velocity", "lossless"),
                ("pressure", "few"),
            )
        ),
    ],
)
def test_sources_of_each_kind(device, kind, medium):
    heard = Sensor(points(0) | points(2), ("p", "p_final"))
    together = check(device, media(medium), [shot(kind, number) for number in range(2)], heard)
    assert all(np.any(result["p"]) for result in together)
    assert "one of 2 sources that were simulated together" in together[1].report.notes


@pytest.mark.parametrize(
    "sensor",
    [
        "mask",
        *(pytest.param(s, marks=pytest.mark.slow) for s in ("none", "elements", "boxes", "points", "tones")),
    ],
)
def test_each_kind_of_sensor(device, sensor):
    check(device, media("lossless"), [shot("p0", number) for number in range(SHOTS)], SENSORS[sensor])


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"pml_inside": False}, id="outside", marks=pytest.mark.slow),
        pytest.param({"pml_size": (3, 0)}, id="periodic"),
    ],
)
def test_grids_with_other_layers(device, more):
    grid = Grid((20, 18), 1e-4, **{"pml_size": 3} | more)
    prepared = prepare(grid, WATER, device=device, steps=STEPS, precision="double")
    sources, heard = [shot("p0", number) for number in range(SHOTS)], Sensor(points(0), ("p", "p_final"))
    together = prepared.simulate_all(sources, heard)
    for result, source in zip(together, sources, strict=True):
        assert difference(result, prepared.simulate(source, heard)) < 1e-12


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("medium", ["lossless", "lossy", "few"])
def test_many_steps_on_a_gpu(medium, precision):
    sources = [shot(kind, number) for kind in ("pressure", "p0") for number in range(SHOTS)]
    check(get_device("cuda"), media(medium), sources, SENSORS["mask"], precision, 60)


@pytest.mark.slow
def test_sources_of_several_kinds_keep_their_order(device):
    kinds = ["p0", "pressure", "p0", "velocity", "pressure", "p0"]
    check(device, media("lossless"), [shot(kind, number % 3) for number, kind in enumerate(kinds)], None)


@pytest.mark.slow
def test_stacks_of_different_sizes(device):
    """The second time there are fewer sources than in the stack before."""
    prepared = prepare(GRID, media("lossless"), device=device, steps=STEPS, precision="double")
    prepared.simulate_all([shot("pressure", number) for number in range(3)])
    result = prepared.simulate_all([shot("p0", number) for number in range(2)])
    assert difference(result[1], prepared.simulate(shot("p0", 1))) < 1e-12
    prepared.close()
    assert difference(prepared.simulate_all([shot("p0", 1)] * 2)[0], result[1]) < 1e-12


def test_without_a_gpu_it_is_a_loop():
    sources = [shot("pressure", number) for number in range(SHOTS)]
    prepared = prepare(GRID, media("lossy"), device="cpu", steps=STEPS)
    for result, source in zip(prepared.simulate_all(iter(sources), record="p_final"), sources, strict=True):
        alone = simulate(GRID, media("lossy"), source, record="p_final", device="cpu", steps=STEPS)
        assert (result["p_final"] == alone["p_final"]).all()


@pytest.mark.parametrize(
    ("grid", "planes"),
    [
        (GRID, (1 << 22) // 360),
        (Grid((21, 18), 1e-4, pml_size=3), (1 << 22) // 378),  # odd
        (Grid((20, 18), 1e-4, pml_size=3, axisymmetric=True), 1),
        (Grid((20, 18, 16), 1e-4, pml_size=3), 1),
        (Grid((20,), 1e-4, pml_size=3), 1),
    ],
)
def test_which_grids_are_stacked(grid, planes):
    settings = prepare(grid, WATER, device=EmulatedDevice(), steps=1).settings
    assert planes_together(grid.silent_problem(WATER, 1e-8), settings) == planes


def test_a_stack_shares_the_medium():
    """On the host it is there once, and materials are searched for once."""
    problem = GRID.silent_problem(media("few"), 1e-8)
    stack = empty_stack(problem, 50)
    find_materials(problem, float)
    assert stack.sound_speed.shape == (50, 18, 20)
    assert stack.sound_speed.strides[0] == 0
    assert stack.extremes == problem.extremes
    assert stack.facts[("materials", "<f8")] is problem.facts[("materials", "<f8")]
    assert (stack.dimensions, stack.points) == (2, 50 * 360)


def test_a_field_that_is_lost(device):
    """In the second plane alone."""
    sources = [shot("pressure", 0), Source(p_mask=points(1), p=np.full((2, 9), 1e40))]
    prepared = prepare(GRID, media("lossless"), device=device, steps=STEPS, precision="double")
    with pytest.raises(FieldLost):
        prepared.simulate_all(sources)


def test_warnings_are_those_of_one_source(device):
    prepared = prepare(GRID, media("lossless"), device=device, steps=STEPS, precision="double")
    with pytest.warns(UserWarning, match="6 recorded time steps are"):
        prepared.simulate_all([shot("p0", 0)] * 2, Sensor(points(0), "p_amp", frequencies=(2e6,)))


@pytest.mark.parametrize("key", ["output", "checkpoint"])
def test_files_are_refused(key, tmp_path):
    prepared = prepare(GRID, media("lossless"), device="cpu", steps=STEPS, **{key: tmp_path / "a.h5"})
    with pytest.raises(InputError, match=f"^{key}: is given for many sources; allowed: simulate, one by one"):
        prepared.simulate_all([shot("p0", 0)] * 2)


def test_unknown_options_are_refused():
    prepared = prepare(GRID, media("lossless"), device="cpu", steps=STEPS)
    with pytest.raises(InputError, match=r"prepared\.simulate_all"):
        prepared.simulate_all([shot("p0", 0)], output="a.h5")
