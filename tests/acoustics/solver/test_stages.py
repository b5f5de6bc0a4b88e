"""Time steps, fused and plain, against `plain_solver` in double precision: every medium, source and grid."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from emulated_device import EmulatedDevice, opened
from plain_solver import PlainSolver
from random_problems import C, pressure_source, problem, transducer, velocity_source

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.fused.axis_kernels_cuda import medium_forms
from wavefabric.acoustics.fused.fused_cuda import FusedCudaStages
from wavefabric.acoustics.fused.fused_layout import scaled_squares
from wavefabric.acoustics.materials.find import AT_POINTS
from wavefabric.acoustics.solver.axisymmetric import AxisymmetricStages
from wavefabric.acoustics.solver.formulas import unstaggering
from wavefabric.acoustics.solver.stages import PlainStages
from wavefabric.acoustics.solver.step import Step
from wavefabric.acoustics.stability.energy import Energy
from wavefabric.runtime.device import get_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SLOW = pytest.mark.slow
#: Largest error of any field after all steps, of its largest value.
TOLERANCE = {np.float64: 1e-12, np.float32: 2e-6}
STEPS = 12

EVEN, ODD, PRIME, FLAT, LINE = (24, 20, 18), (30, 27, 21), (13, 17, 11), (31, 45, 1), (90, 1, 1)
PLANE = (30, 45, 1)
CHIRPED, CHIRPED_PLANE = (26, 11, 17), (22, 23, 1)
RADIAL = (31, 24, 1)
MODES = "dirichlet", "additive_no_correction", "additive"
POWER = dict(absorption="power_law")
NO_DISPERSION = dict(absorption="power_law", dispersion=False)
STOKES = dict(absorption="stokes")
BENT = dict(nonlinearity=True)


def _both(shape, mode, rank_one=False):
    return dict(
        pressure_source=pressure_source(shape, mode, rank_one=rank_one),
        velocity_source=velocity_source(shape, mode, rank_one=rank_one),
    )


def with_noise(inputs, *names):
    """A problem with other values at each point; of ``"staggered"`` densities, that of ``"y"`` uniform."""
    rng = np.random.default_rng(11)

    def changed(value):
        return (value * (1 + 0.01 * rng.uniform(-1, 1, inputs.array_shape))).astype(np.float32)

    more = {name: changed(getattr(inputs, name)) for name in names if name not in ("staggered", "y")}
    staggered = list(inputs.density_staggered)
    if "staggered" in names:
        staggered = [*map(changed, staggered)]
    if "y" in names:
        staggered[1] = 1000.0
    return replace(inputs, **more, density_staggered=tuple(staggered))


SINGLE = "everything", "power law 2-D", "additive sources, 2-D", "axisymmetric Stokes", "everything 1-D"
#: Name to (grid, what it has).
CASES = {
    # Media
    "lossless": (EVEN, {}),
    "lossless odd": (ODD, dict(mixed="cr")),
    "lossless primes": (PRIME, dict(mixed="c")),
    "lossless 2-D": (FLAT, dict(mixed="cr")),
    "lossless 1-D": (LINE, dict(mixed="cr")),
    "no layer 1-D": (LINE, dict(pml=False)),
    "everything 1-D": (LINE, dict(mixed="crba", **BENT, **POWER, **_both(LINE, "additive"))),
    "Stokes 1-D": (LINE, dict(mixed="a", **STOKES, **_both(LINE, "dirichlet"))),
    "transducer 1-D": (LINE, dict(initial=0, transducer=transducer(LINE))),
    **{
        f"{names} {shape}": (shape, dict(mixed="cr", **dict.fromkeys(names.split(), False), **more))
        for names in ("k_space", "staggered", "k_space staggered")
        for shape, more in ((EVEN, POWER), (ODD, {}), (FLAT, STOKES), (LINE, _both(LINE, "additive")))
    },
    **{
        f"axisymmetric {name}": (RADIAL, dict(axisymmetric=True, **more))
        for name, more in [
            ("lossless", dict(mixed="cr")),
            ("without layers", dict(pml=False)),
            ("nonlinear", dict(mixed="crb", **BENT)),
            ("Stokes", dict(mixed="cra", **STOKES, **BENT)),
            ("without κ", dict(k_space=False)),
            ("transducer", dict(initial=0, transducer=transducer(RADIAL))),
            ("rank-one sources", dict(initial=0, **_both(RADIAL, "additive", True))),
            *((f"{mode} sources", dict(mixed="c", initial=0, **_both(RADIAL, mode))) for mode in MODES),
        ]
    },
    "no layer": (EVEN, dict(pml=False)),
    "layers along x alone": (EVEN, dict(pml=(4, 0, 0), mixed="r", **BENT, **_both(EVEN, "additive"))),
    "layers along z alone, from end to end": (EVEN, dict(pml=(0, 0, 9), **_both(EVEN, "dirichlet"))),
    "layers along x and y": (ODD, dict(pml=(3, 5, 0), **POWER, **_both(ODD, "additive_no_correction"))),
    "layers along y 2-D": (FLAT, dict(pml=(0, 6, 0), **_both(FLAT, "additive"))),
    "nonlinear": (EVEN, BENT),
    "nonlinear heterogeneous": (ODD, dict(mixed="crb", **BENT)),
    "nonlinear 2-D": (FLAT, dict(mixed="b", **BENT)),
    "power law": (EVEN, POWER),
    "power law in a mixed density": (EVEN, dict(mixed="r", **POWER)),
    "power law of mixed strength": (ODD, dict(mixed="a", **POWER)),
    "power law in a mixed speed": (EVEN, dict(mixed="c", **POWER)),
    "power law without dispersion": (EVEN, dict(mixed="a", **NO_DISPERSION)),
    "power law without dispersion, odd": (ODD, NO_DISPERSION),
    "power law above one": (EVEN, dict(alpha_power=1.9, **POWER)),
    "power law below one": (EVEN, dict(alpha_power=0.7, **POWER)),
    "power law 2-D": (FLAT, dict(mixed="ca", **POWER)),
    "power law primes": (PRIME, dict(mixed="crba", **BENT, **POWER)),
    "Stokes": (EVEN, STOKES),
    "Stokes heterogeneous": (ODD, dict(mixed="cra", **STOKES)),
    "Stokes 2-D": (FLAT, dict(mixed="a", **STOKES)),
    "Stokes nonlinear": (EVEN, dict(mixed="rb", **BENT, **STOKES)),
    "everything": (EVEN, dict(mixed="crba", **BENT, **POWER)),
    "everything without dispersion": (ODD, dict(mixed="crba", **BENT, **NO_DISPERSION)),
    # Sources, without and with an initial pressure
    **{
        f"{mode} sources{', ' + name if name else ''}": (shape, dict(initial=0, **_both(shape, mode), **more))
        for mode in ("dirichlet", "additive_no_correction", "additive")
        for name, shape, more in [
            ("", EVEN, {}),
            ("odd", ODD, dict(mixed="c")),
            ("primes", PRIME, {}),
            ("2-D", FLAT, dict(mixed="c")),
            ("power law", EVEN, dict(mixed="r", **POWER)),
            ("no dispersion", EVEN, NO_DISPERSION),
            ("Stokes", EVEN, dict(mixed="a", **STOKES)),
            ("nonlinear", EVEN, BENT),
        ]
    },
    "rank-one sources": (EVEN, dict(initial=0, **_both(EVEN, "additive", True))),
    "rank-one sources 2-D": (FLAT, dict(initial=0, **_both(FLAT, "additive", True))),
    "rank-one sources with all loss": (
        ODD,
        dict(mixed="crba", **BENT, **POWER, **_both(ODD, "additive", True)),
    ),
    "initial pressure and sources": (EVEN, _both(EVEN, "dirichlet")),
    **{
        f"one signal for all points, {mode}": (
            EVEN,
            dict(
                initial=0,
                pressure_source=pressure_source(EVEN, mode, 1),
                velocity_source=velocity_source(EVEN, mode, (1, 1, 1)),
            ),
        )
        for mode in ("dirichlet", "additive_no_correction", "additive")
    },
    **{
        f"some velocity components, {mode}": (
            EVEN,
            dict(initial=0, velocity_source=velocity_source(EVEN, mode, columns)),
        )
        for mode, columns in [
            ("dirichlet", (0, None, 1)),
            ("additive_no_correction", (None, 0, 0)),
            ("additive", (1, 0, None)),
        ]
    },
    # Planes that fused kernels of a GPU take
    "plane": (PLANE, dict(mixed="cr")),
    "plane without layers": (PLANE, dict(pml=False, **NO_DISPERSION)),
    "plane, everything": (PLANE, dict(mixed="crba", **BENT, **POWER, **_both(PLANE, "additive"))),
    "plane, Stokes": (PLANE, dict(mixed="a", **BENT, **STOKES, **_both(PLANE, "dirichlet"))),
    "plane, rank-one sources": (PLANE, dict(initial=0, **POWER, **_both(PLANE, "additive", True))),
    "plane, transducer": (PLANE, dict(initial=0, mixed="r", transducer=transducer(PLANE))),
    "plane without κ": (PLANE, dict(k_space=False, staggered=False, pml=(0, 6, 0))),
    # Convolutions along every axis
    "chirps, everything": (CHIRPED, dict(mixed="crba", **BENT, **POWER, **_both(CHIRPED, "additive"))),
    "chirps, transducer": (CHIRPED, dict(initial=0, mixed="r", transducer=transducer(CHIRPED))),
    "chirps in a plane": (CHIRPED_PLANE, dict(mixed="c", **POWER, **_both(CHIRPED_PLANE, "dirichlet"))),
    "velocity 2-D, y only": (
        FLAT,
        dict(initial=0, velocity_source=velocity_source(FLAT, "additive", (0, None))),
    ),
    "sources that end": (
        EVEN,
        dict(
            initial=0,
            pressure_source=pressure_source(EVEN, "additive", steps=5),
            velocity_source=velocity_source(EVEN, "additive_no_correction", steps=8),
        ),
    ),
    "sources that end, points": (
        ODD,
        dict(
            initial=0,
            pressure_source=pressure_source(ODD, "dirichlet", steps=8),
            velocity_source=velocity_source(ODD, "additive", steps=5),
            **STOKES,
        ),
    ),
    "pressure only": (EVEN, dict(initial=0, pressure_source=pressure_source(EVEN, "additive"))),
    "transducer": (EVEN, dict(initial=0, transducer=transducer(EVEN))),
    "transducer 2-D": (FLAT, dict(initial=0, transducer=transducer(FLAT))),
    "transducer to the end": (ODD, dict(initial=0, transducer=transducer(ODD, STEPS + 3, samples=40))),
    **{
        f"transducer and {mode} velocity": (
            EVEN,
            dict(initial=0, transducer=transducer(EVEN), velocity_source=velocity_source(EVEN, mode)),
        )
        for mode in ("dirichlet", "additive_no_correction", "additive")
    },
}


def made(name):
    shape, more = CASES[name]
    return problem(shape, steps=STEPS, **more)


@cache
def expected(name):
    solver = PlainSolver(made(name))
    for _ in range(STEPS):
        solver.step()
    return solver.fields()


def taken(device, name, dtype, plain=False):
    """Fields on the host after all steps, and the stages."""
    stages = make_stages(device, made(name), dtype, plain=plain)
    step = Step(stages)
    for number in range(STEPS):
        step.take(number)
    device.synchronize()
    return {key: np.array(device.to_host(field)) for key, field in stages.fields.named().items()}, stages


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    return get_device(request.param, threads=1)


@pytest.fixture(params=[np.float64, np.float32], ids=["double", "single"])
def dtype(request):
    return request.param


def check(got, wanted, dtype):
    assert got.keys() == wanted.keys()
    for name, field in got.items():
        assert field.dtype == dtype
        # Components of one vector share a scale: a component may be all round-off.
        scale = max(abs(wanted[other]).max() for other in wanted if other.rstrip("xyz") == name.rstrip("xyz"))
        assert scale > 0, name
        error = abs(field - wanted[name]).max() / scale
        assert error < TOLERANCE[dtype], f"{name}: {error:.2e}"


#: One for each way through the passes.
VARIANTS = [
    "additive sources, odd",
    "dirichlet sources, power law",
    "rank-one sources with all loss",
    "Stokes nonlinear",
    "everything without dispersion",
    "transducer and additive velocity",
]
FUSED = [
    pytest.param(name, real, marks=[SLOW] * (real is np.float32 and name not in (*VARIANTS, *SINGLE)))
    for name in CASES
    for real in (np.float64, np.float32)
]


@pytest.mark.parametrize(("name", "dtype"), FUSED)
def test_fused_stages(device, name, dtype):
    got, stages = taken(device, name, dtype)
    assert int(device.to_host(stages.fields.clock)[0]) == STEPS
    check(got, expected(name), dtype)


#: These show much of what the others show.
USUAL = ["plane, everything", "chirps, everything"]
#: Rows of an odd number of points.
ODD_ROWS = [
    "power law primes",
    "additive sources, primes",
    "dirichlet sources, 2-D",
    "transducer 2-D",
    "Stokes 2-D",
    "layers along y 2-D",
]
PLANES = [name for name in CASES if name.startswith(("plane", "chirps"))]
EMULATED = [
    pytest.param(name, real, marks=[pytest.mark.slow] * (name not in USUAL or real is np.float32))
    for name in [*VARIANTS, *PLANES, *ODD_ROWS]
    for real in (np.float64, np.float32)
]
EMULATED += [pytest.param("layers along x and y", np.float64, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("name", "real"), EMULATED)
def test_fused_gpu_stages_emulated(name, real):
    """The passes of a GPU, their kernels run by the CPU."""
    got, stages = taken(EmulatedDevice(), name, real)
    assert type(stages) is FusedCudaStages
    assert "kappa" not in vars(stages.coefficients)  # computed in each step
    check(got, expected(name), real)


#: Name to (how each parameter is held at the points of the pressure, and the staggered densities; problem).
BY_INDEX = {
    "everything, 8 bits": (
        {"index8"},
        "index8",
        problem(EVEN, mixed="crba", materials=3, **BENT, **POWER, **_both(EVEN, "additive")),
    ),
    "everything, 16 bits": (
        {"index16"},
        "index16",
        problem(EVEN, mixed="crba", materials=6, **BENT, **POWER),
    ),
    "Stokes, 16 bits": (
        {"index16"},
        "index16",
        problem(EVEN, mixed="crba", materials=6, **BENT, **STOKES, **_both(EVEN, "dirichlet")),
    ),
    "lossless, rows of two bytes": (
        {"index8", "uniform"},
        "index8",
        problem((30, 12, 9), mixed="cr", materials=3, transducer=transducer((30, 12, 9))),
    ),
    "odd rows, 8 bits": (
        {"index8"},
        "index8",
        problem(PRIME, mixed="crba", materials=3, **BENT, **POWER, **_both(PRIME, "additive")),
    ),
    "odd rows, 16 bits": (
        {"index16"},
        "index16",
        problem((33, 12, 9), mixed="crba", materials=6, **BENT, **STOKES),
    ),
    "density alone, linear, no dispersion": (
        {"index8", "uniform"},
        "index8",
        problem(EVEN, mixed="r", materials=3, **NO_DISPERSION),
    ),
    "sound speed and absorption full": (
        {"index8", "full"},
        "index8",
        with_noise(problem(EVEN, mixed="crba", materials=3, **BENT, **POWER), "sound_speed"),
    ),
    "density full": (
        {"index8", "full"},
        "full",
        with_noise(problem(EVEN, mixed="crba", materials=3, **BENT, **STOKES), "density", "staggered"),
    ),
    "staggered densities alone, one uniform": (
        {"full"},
        "index16",
        with_noise(
            problem(EVEN, mixed="crba", materials=20, **BENT, **POWER),
            "sound_speed",
            "density",
            "nonlinearity",
            "y",
        ),
    ),
}
#: Much of what these show others show too.
RARELY = [*BY_INDEX][1:]


def held(stages):
    """Forms of the parameters at the points of the pressure, and of the staggered densities."""
    c = stages.coefficients
    forms = medium_forms({name: getattr(c, name) for name in AT_POINTS}, c.staggered)
    return {forms[name] for name in AT_POINTS}, forms["staggered"]


def steps_by_index(device, name, dtype, monkeypatch):
    """Fields after some steps, of a medium by index and of the same as full grids; energies besides."""
    *forms, inputs = BY_INDEX[name]
    result = []
    for by_index in (True, False):
        monkeypatch.setattr(FusedCudaStages, "by_index", by_index)
        stages = make_stages(device, inputs, dtype)
        assert type(stages) is FusedCudaStages
        assert not by_index or [*held(stages)] == forms
        assert by_index or held(stages)[1] == "full"
        step, energy = Step(stages), Energy(stages)
        for number in range(4):
            step.take(number)
        device.synchronize()
        fields = {key: np.array(device.to_host(field)) for key, field in stages.fields.named().items()}
        result.append(fields | {"energy": np.array(energy())})
    return result


@pytest.mark.slow
@pytest.mark.parametrize("real", [pytest.param(np.float64, marks=pytest.mark.slow), np.float32])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in RARELY)) for n in BY_INDEX]
)
def test_a_medium_by_index_changes_no_bit_emulated(name, real, monkeypatch):
    one, other = steps_by_index(EmulatedDevice(), name, real, monkeypatch)
    assert same_bits(one, other)
    assert np.isfinite(one["p"]).all()
    assert one["p"].any()


@pytest.mark.gpu
@pytest.mark.parametrize("name", BY_INDEX)
def test_a_medium_by_index_changes_round_off_alone(name, dtype, monkeypatch):
    """On a GPU: which products and sums become one operation is for the compiler to say, kernel by kernel."""
    one, other = steps_by_index(get_device("cuda"), name, dtype, monkeypatch)
    for key, wanted in other.items():
        np.testing.assert_allclose(
            one[key], wanted, rtol=0, atol=20 * np.finfo(dtype).eps * np.abs(wanted).max(), err_msg=key
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "mode", "more"),
    [
        ((72, 9, 5), "additive", dict(mixed="crb", **BENT)),
        ((72, 9, 5), "dirichlet", dict(mixed="ra", **STOKES)),
        ((640, 4, 5), "additive_no_correction", dict(mixed="crba", **BENT, **POWER)),
        ((4, 5, 640), "additive", dict(mixed="a", **NO_DISPERSION)),
        ((6, 640, 4), "dirichlet", dict(mixed="c")),
    ],
    ids=["nonlinear", "Stokes", "long rows", "long along z", "long along y"],
)
def test_threads_that_share_a_transform_on_an_emulated_gpu(shape, mode, more):
    """Rows of some threads and of several warps, not all of them with values; long columns."""
    options: dict = dict(steps=4, pml=(2, 1, 2), **more, **_both(shape, mode))
    inputs = problem(shape, **options)
    stages, solver = make_stages(EmulatedDevice(), inputs, np.float64), PlainSolver(inputs)
    assert type(stages) is FusedCudaStages
    step = Step(stages)
    for number in range(inputs.steps):
        step.take(number)
        solver.step()
    check({key: np.array(field) for key, field in stages.fields.named().items()}, solver.fields(), np.float64)


@pytest.mark.slow
def test_long_time_steps_on_an_emulated_gpu():
    """(c_ref Δt/2)² k² beyond π²: κ by sin itself, no series."""
    inputs = replace(problem(EVEN, steps=STEPS), dt=1.5e-4 / C)
    stages, solver = make_stages(EmulatedDevice(), inputs, np.float64), PlainSolver(inputs)
    assert type(stages) is FusedCudaStages
    assert sum(float(k2.max()) for k2 in scaled_squares(stages.coefficients)) > np.pi**2
    step = Step(stages)
    for number in range(STEPS):
        step.take(number)
        solver.step()
    check({key: np.array(field) for key, field in stages.fields.named().items()}, solver.fields(), np.float64)


#: Every third, and each way through the passes: fused stages, above, have all.
USUAL_PLAIN = [name for number, name in enumerate(CASES) if number % 3 == 0 or name in VARIANTS]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[SLOW] * (name not in USUAL_PLAIN)) for name in CASES]
)
def test_plain_stages(device, name):
    check_plain(device, name, np.float64)


@pytest.mark.parametrize("name", [*VARIANTS, *SINGLE])
def test_plain_stages_in_single_precision(device, name):
    check_plain(device, name, np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param("axisymmetric Stokes", marks=pytest.mark.slow), "axisymmetric additive sources"]
)
def test_axisymmetric_stages_on_an_emulated_gpu(name):
    check_plain(EmulatedDevice(), name, np.float64)


def check_plain(device, name, dtype):
    got, stages = taken(device, name, dtype, plain=True)
    assert type(stages) is (AxisymmetricStages if made(name).axisymmetric else PlainStages)
    check(got, expected(name), dtype)


def same_bits(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_repeated_run_gives_the_same_bits(device, name, dtype):
    assert same_bits(taken(device, name, dtype)[0], taken(device, name, dtype)[0])


@pytest.mark.parametrize("name", [*VARIANTS, "power law primes"])
def test_threads_change_no_bit(cpu, name, dtype):
    more = opened("cpu 2")
    assert same_bits(taken(cpu, name, dtype)[0], taken(more, name, dtype)[0])


@pytest.mark.parametrize("name", ["everything", "additive sources, 2-D"])
def test_plain_stages_with_two_threads(name, dtype):
    device = opened("cpu 2")
    check(taken(device, name, dtype, plain=True)[0], expected(name), dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("name", VARIANTS)
def test_the_gpu_agrees_with_the_cpu(cpu, name, dtype):
    check(taken(get_device("cuda"), name, dtype)[0], taken(cpu, name, dtype)[0], dtype)


@pytest.mark.parametrize(
    ("name", "wanted"), [("lossless", 10), ("power law", 14), ("Stokes", 10), ("rank-one sources", 10)]
)
def test_transforms_of_a_step(device, name, wanted):
    """The counts of the literature, however the work is arranged."""
    for plain in (False, True):
        stages = make_stages(device, made(name), np.float64, plain=plain)
        stages.velocity(active := stages.sources.active(0))
        stages.density(active)
        stages.pressure()
        before = stages.transforms
        stages.velocity(active)
        stages.density(active)
        stages.pressure()
        assert stages.transforms - before == wanted


@pytest.mark.parametrize("name", ["lossless", "power law", "Stokes", "power law 2-D", "power law primes"])
def test_fields_set_from_outside(device, name, dtype):
    """After `ready`, a step goes on from fields put there, to the bit: what a resumed run does."""
    whole = make_stages(device, made(name), dtype)
    step = Step(whole)
    for number in range(5):
        step.take(number)
    other = make_stages(device, made(name), dtype)
    for key, field in other.fields.named().items():
        field[...] = whole.fields.named()[key]
    other.fields.clock[...] = 5
    other.transform_pressure()
    resumed = Step(other)
    for number in range(5, 9):
        step.take(number)
        resumed.take(number)
    device.synchronize()
    one, two = (
        {key: np.array(device.to_host(field)) for key, field in stages.fields.named().items()}
        for stages in (whole, other)
    )
    assert same_bits(one, two)


def test_velocity_at_the_points_of_the_pressure(device, dtype):
    for name in ("lossless", "lossless odd", "lossless 2-D"):
        got, stages = taken(device, name, dtype)
        solver, c = PlainSolver(made(name)), stages.coefficients
        for axis, factor in enumerate(unstaggering(c.problem)):
            component = stages.fields.u[axis]
            solver.u[axis] = got["u" + "xyz"[axis]].astype(float)
            out = device.empty(c.shape, dtype)
            stages.translate(component, axis, device.asarray(factor, c.complex), out)
            wanted = solver.shifted(axis)
            assert abs(device.to_host(out) - wanted).max() < TOLERANCE[dtype] * abs(wanted).max()
            # What is kept between steps is still there.
            assert (device.to_host(component) == got["u" + "xyz"[axis]]).all()
        kept = device.to_host(stages.fields.p).copy()
        Step(stages).take(STEPS)
        again = make_stages(device, made(name), dtype)
        for key, field in again.fields.named().items():
            field[...] = device.asarray(got[key])
        again.fields.clock[...] = STEPS
        again.transform_pressure()
        Step(again).take(STEPS)
        assert (device.to_host(again.fields.p) == device.to_host(stages.fields.p)).all()
        assert not (device.to_host(stages.fields.p) == kept).all()
