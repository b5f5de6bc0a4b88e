"""Stages shared by ranks: global against one rank to round-off, local against global per overlap and bell."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from random_problems import full_fields, pressure_source, problem, transducer, velocity_source

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.decomposition.window import window
from wavefabric.acoustics.parallel.layouts import HaloExchange
from wavefabric.acoustics.parallel.restrict import restrict_array
from wavefabric.acoustics.problem import PressureSource, Problem, Recording, VelocitySource
from wavefabric.acoustics.solver.formulas import unstaggering
from wavefabric.acoustics.solver.step import Step
from wavefabric.base.errors import InputError

EVEN, ODD, FLAT, RING = (24, 20, 18), (35, 27, 21), (31, 45, 1), (31, 46, 1)
POWER, STOKES, BENT = dict(absorption="power_law"), dict(absorption="stokes"), dict(nonlinearity=True)


def _sources(shape, mode, **more):
    return dict(
        pressure_source=pressure_source(shape, mode, **more),
        velocity_source=velocity_source(shape, mode, **more),
    )


def _corner(shape, mode):
    """Sources of points that one rank holds, with forms that its own points would not show."""
    index = np.array([0, 1, 2])
    wave = np.random.default_rng(1).standard_normal((12, 1))
    columns = (wave * [1.0, 0.5, -0.25], None, wave * [1.0, 0.5, -0.25])
    return dict(
        pressure_source=PressureSource(
            np.array([0, 1, np.prod(shape) - 1]), wave * [1, 2, 3] + [0, 0, 1], mode
        ),
        velocity_source=VelocitySource(index, columns[: 2 + (shape[2] > 1)], mode),
    )


CASES = {
    "lossless": (EVEN, {}),
    "lossless odd": (ODD, dict(mixed="cr")),
    "lossless 2-D": (FLAT, dict(mixed="cr")),
    "axisymmetric Stokes": (RING, dict(mixed="cra", axisymmetric=True, **BENT, **STOKES)),
    "axisymmetric sources": (RING, dict(axisymmetric=True, **_sources(RING, "additive"))),
    "nonlinear": (EVEN, dict(mixed="b", **BENT)),
    "power law 2-D": (FLAT, dict(mixed="ca", **POWER)),
    "power law without dispersion": (EVEN, dict(mixed="a", dispersion=False, **POWER)),
    "Stokes": (ODD, dict(mixed="cra", **BENT, **STOKES)),
    "everything": (EVEN, dict(mixed="crba", **BENT, **POWER)),
    **{
        f"{mode} sources{name}": (shape, dict(initial=0, **_sources(shape, mode), **more))
        for mode in ("dirichlet", "additive_no_correction", "additive")
        for name, shape, more in [("", EVEN, POWER), (" 2-D", FLAT, dict(mixed="c"))]
    },
    "rank-one sources": (EVEN, dict(initial=0, **_sources(EVEN, "additive", rank_one=True))),
    "one signal for all": (EVEN, dict(initial=0, pressure_source=pressure_source(EVEN, "additive", 1))),
    "sources in a corner": (EVEN, dict(initial=0, **_corner(EVEN, "additive"))),
    "sources in a corner 2-D": (FLAT, dict(initial=0, **_corner(FLAT, "additive"))),
    "points in a corner": (EVEN, dict(initial=0, **_corner(EVEN, "dirichlet"))),
    "transducer and velocity": (
        ODD,
        dict(initial=0, transducer=transducer(ODD), velocity_source=velocity_source(ODD, "additive")),
    ),
}  # fmt: skip

#: One of each medium, source and grid; others combine these.
USUAL = (
    "axisymmetric Stokes",
    "power law 2-D",
    "everything",
    "additive sources",
    "dirichlet sources 2-D",
    "rank-one sources",
    "sources in a corner",
    "transducer and velocity",
)


def on_two(names):
    cases = [pytest.param(name, marks=[pytest.mark.slow] * (name not in USUAL)) for name in names]
    return pytest.mark.parametrize("name", cases)


def made_problem(name):
    shape, more = CASES[name]
    return problem(shape, **more)


def fields_of(stages, steps):
    step = Step(stages)
    for number in range(steps):
        step.take(number)
    fields = full_fields(stages)
    stages.layout.finish_exchanges()  # what comes later would land in memory of others
    return fields


@cache
def alone(name, device, dtype=np.float64):
    inputs = made_problem(name)
    return fields_of(make_stages(device, inputs, dtype, plain=True), inputs.steps)


def worst(got, wanted, part):
    """Largest difference in what a part owns, of the largest value of a vector's components."""
    result = 0.0
    for name, field in got.items():
        scale = max(abs(wanted[other]).max() for other in wanted if other.rstrip("xyz") == name.rstrip("xyz"))
        assert scale > 0
        result = max(
            result, abs(field[part.owned] - restrict_array(wanted[name], part)[part.owned]).max() / scale
        )
    return result


def check_global(comm, name, grid):
    inputs, wanted = made_problem(name), alone(name, comm.device)
    decomposition = decompose(inputs.shape, comm.size, Decomposition("global", grid))
    stages = make_stages(comm.device, inputs, np.float64, comm=comm, decomposition=decomposition)
    got = fields_of(stages, inputs.steps)
    assert worst(got, wanted, decomposition.subdomains[comm.rank]) < 1e-12


@pytest.mark.parallel(2)
@on_two(CASES)
def test_global_is_one_rank(comm, name):
    """Every medium and source, in slabs along y and along z."""
    check_global(comm, name, (1, 2, 1))
    if CASES[name][0] not in (FLAT, RING):
        check_global(comm, name, (1, 1, 2))


#: What cuts of other shapes touch: 45 columns of 4 or 3 ranks, sources that no, one and every rank holds.
CUT = [
    "power law 2-D",
    "axisymmetric sources",
    "everything",
    "sources in a corner",
    "transducer and velocity",
]


@pytest.mark.parallel([3, 4])
@pytest.mark.parametrize("name", CUT)
def test_uneven_slabs_and_pencils_are_one_rank(comm, name):
    flat = CASES[name][0] in (FLAT, RING)
    check_global(comm, name, (1, comm.size, 1) if flat or comm.size == 3 else (1, 2, 2))


@pytest.mark.parallel(2)
def test_global_in_single_precision(comm):
    inputs, wanted = made_problem("everything"), alone("everything", comm.device)
    stages = make_stages(comm.device, inputs, np.float32, comm=comm)
    assert stages.fields.p.dtype == np.float32
    assert worst(fields_of(stages, inputs.steps), wanted, stages.coefficients.subdomain) < 2e-6


@pytest.mark.parallel(2)
@pytest.mark.parametrize("options", [Decomposition("global"), Decomposition("local", overlap=4)])
def test_transforms_are_counted_alike(comm, options):
    for name, count in [("lossless", 10), ("everything", 14)]:
        inputs = made_problem(name)
        decomposition = decompose(inputs.shape, comm.size, options)
        stages = make_stages(comm.device, inputs, np.float64, comm=comm, decomposition=decomposition)
        step = Step(stages)
        step.take(0)
        before = stages.transforms
        step.take(1)
        step.take(2)
        assert stages.transforms - before == 2 * count
        stages.layout.finish_exchanges()


# --- Local -------------------------------------------------------------------------------------------------


@pytest.mark.parallel([2, 4])
@pytest.mark.parametrize("bell_name", ["none", "nested-sine"])
@pytest.mark.parametrize("shape", [EVEN, FLAT])
def test_a_halo_holds_the_neighbours_times_the_bell(comm, bell_name, shape):
    grid = (2, comm.size // 2, 1)
    decomposition = decompose(shape, comm.size, Decomposition("local", grid, 4, bell_name))
    part, device = decomposition.subdomains[comm.rank], comm.device
    components = SimpleNamespace(dimensions=3, absorption="none")
    coefficients = SimpleNamespace(shape=part.size[::-1], dtype=np.float64, problem=components)
    halo = HaloExchange(coefficients, comm, decomposition)
    whole_fields = [np.random.default_rng(i).standard_normal(shape[::-1]) for i in range(3)]
    bells = [
        window(bell_name, n, 4 if blocks > 1 else 0) for n, blocks in zip(part.owned_size, grid, strict=True)
    ]
    factor = bells[2][:, None, None] * bells[1][:, None] * bells[0]
    for count in (1, 3, 1):
        fields = [device.zeros(part.size[::-1], np.float64) for _ in range(count)]
        for field, inputs in zip(fields, whole_fields, strict=False):
            field[part.owned] = device.asarray(restrict_array(inputs, part)[part.owned])
        halo.fill(fields)
        for field, inputs in zip(fields, whole_fields, strict=False):
            np.testing.assert_allclose(
                device.to_host(field), restrict_array(inputs, part) * factor, rtol=1e-14
            )


@pytest.mark.parallel(2)
@pytest.mark.parametrize("name", ["everything", "power law without dispersion", "additive sources", "Stokes"])
def test_overlaps_are_filled_before_every_transform(comm, monkeypatch, name):
    inputs = made_problem(name)
    decomposition = decompose(inputs.shape, comm.size, Decomposition("local", overlap=4))
    stages = make_stages(comm.device, inputs, np.float64, plain=True, comm=comm, decomposition=decomposition)
    filled, fill, fft = [], stages.layout.fill_overlaps, stages.layout.fft

    def fill_overlaps(fields):
        filled.extend(map(id, fields))
        fill(fields)

    def transform(real, spectrum):
        filled.remove(id(real))  # once for each time
        fft.forward(real, spectrum)

    monkeypatch.setattr(stages.layout, "fill_overlaps", fill_overlaps)
    monkeypatch.setattr(stages.layout, "fft", SimpleNamespace(forward=transform, backward=fft.backward))
    fields_of(stages, 2)
    factor = comm.device.asarray(
        unstaggering(stages.coefficients.problem, stages.coefficients.subdomain)[1], complex
    )
    stages.translate(stages.fields.u[1], 1, factor, comm.device.empty(stages.coefficients.shape, np.float64))
    assert filled == []
    assert stages.transforms > 0


def smooth_problem(shape, steps, mixed=False, width=2.0, **more):
    """A Gaussian of ``width`` points in a periodic box, in a smooth nonlinear medium if ``mixed``."""
    along = [np.arange(n) for n in shape]
    z, y, x = np.meshgrid(*along[::-1], indexing="ij")
    distance = sum(((a - n // 4) / width) ** 2 for a, n in zip((x, y, z), shape, strict=True) if n > 1)
    wave = sum(np.cos(2 * np.pi * a / n) for a, n in zip((x, y, z), shape, strict=True) if n > 1)
    c, rho, d = 1500.0, 1000.0, 3 if shape[2] > 1 else 2
    if mixed:
        more["nonlinearity"] = 6.0
    return Problem(
        shape=shape, spacing=(1e-4,) * 3, dt=0.3 * 1e-4 / c, steps=steps, reference_speed=c,
        pml_size=(0, 0, 0), pml_alpha=(0, 0, 0), sound_speed=c * (1 + 0.02 * wave) if mixed else c,
        density=rho * (1 - 0.02 * wave) if mixed else rho, density_staggered=(rho,) * d,
        initial_pressure=1e5 * np.exp(-distance / 2), **more,
    )  # fmt: skip


def pressure(comm, inputs, options):
    """The whole field after all steps, on all ranks."""
    decomposition = decompose(inputs.shape, comm.size, options)
    stages = make_stages(comm.device, inputs, np.float64, comm=comm, decomposition=decomposition)
    parts = decomposition.subdomains
    owned = fields_of(stages, inputs.steps)["p"][parts[comm.rank].owned]
    result = np.empty(inputs.array_shape)
    for part, block in zip(parts, comm.control.all_gather(owned), strict=True):
        at = zip(part.owned_first[::-1], block.shape, strict=True)
        result[tuple(slice(first, first + n) for first, n in at)] = block
    return result


def local_errors(comm, inputs, grid, cases):
    """Relative L2 error of each bell and overlap; the same ranks, with the global basis, know the answer."""
    wanted = pressure(comm, inputs, Decomposition("global"))
    return [
        np.linalg.norm(pressure(comm, inputs, Decomposition("local", grid, overlap, name)) - wanted)
        / np.linalg.norm(wanted)
        for name, overlap in cases
    ]


#: Relative L2 error by bell and overlap: 96², 2×2 blocks, 120 steps, a Gaussian of σ = 2Δx. Those of 256² and
#: 400 steps, which take 30 times as long, are within a tenth of these.
PLANE = {
    ("none", 8): 2.55e-3,
    ("cosine", 8): 6.78e-3,
    ("nested-sine", 8): 4.22e-4,
    ("nested-sine", 16): 1.41e-6,
    ("erf", 8): 3.99e-4,
}


@pytest.mark.parallel(4)
def test_error_of_the_local_basis_in_a_plane(comm):
    inputs = smooth_problem((96, 96, 1), 120)
    for (name, overlap), result in zip(PLANE, local_errors(comm, inputs, (2, 2, 1), PLANE), strict=True):
        wanted = PLANE[name, overlap]
        assert result == pytest.approx(wanted, rel=0.05), f"{name} {overlap}: {result:.2e}"


#: What the error falls to at overlaps of 4, 8 and 16 points. A fractional Laplacian reaches further than any.
SPACE = {
    "mixed": (dict(mixed=True), (1e-2, 5e-4, 2e-6)),
    "Stokes": (dict(absorption="stokes", alpha_coeff=2.0, alpha_power=2.0), (1e-2, 5e-4, 2e-6)),
    "power law": (
        dict(mixed=True, absorption="power_law", alpha_coeff=2.0, alpha_power=1.4), (1e-2, 3e-3, 1e-3),
    ),
}  # fmt: skip


@pytest.mark.parallel(2)
@pytest.mark.slow
@pytest.mark.parametrize("medium", SPACE)
def test_error_of_the_local_basis_in_space(comm, medium):
    more, limits = SPACE[medium]
    inputs = smooth_problem((24, 24, 48), 40, width=3.0, **more)
    cases = [("nested-sine", overlap) for overlap in (4, 8, 16)]
    for result, limit in zip(local_errors(comm, inputs, (1, 1, 2), cases), limits, strict=True):
        assert limit / 100 < result < limit, f"{limit}: {result:.1e}"


def check_local(comm, name):
    shape = CASES[name][0]
    inputs = made_problem(name)
    grid = (1, comm.size // 2, 2) if shape[2] > 1 else (1, comm.size, 1)
    wide = shape[1] // comm.size if shape[2] == 1 else min(shape[2], shape[1]) // 2
    decomposition = decompose(shape, comm.size, Decomposition("local", grid, min(8, wide)))
    if inputs.initial_pressure is not None:
        inputs = replace(inputs, initial_pressure=smooth_problem(shape, 1, width=2.5).initial_pressure)
    reference = fields_of(make_stages(comm.device, inputs, np.float64, plain=True), inputs.steps)
    stages = make_stages(comm.device, inputs, np.float64, comm=comm, decomposition=decomposition)
    got = fields_of(stages, inputs.steps)
    error = comm.control.max(worst(got, reference, decomposition.subdomains[comm.rank]))
    # Points that make noise make waves as short as the grid holds, which no overlap fits.
    assert error < (0.1 if inputs.initial_pressure is None else 1e-2)


@pytest.mark.parallel(2)
@on_two([name for name in CASES if CASES[name][0] != RING])
def test_local_comes_close(comm, name):
    """Every medium and source against one rank: what each overlap's exchange is worth."""
    check_local(comm, name)


@pytest.mark.parallel(4)
@pytest.mark.parametrize("name", [name for name in CUT if CASES[name][0] != RING])
def test_local_blocks_cut_twice_come_close(comm, name):
    check_local(comm, name)


@pytest.mark.parallel(2)
def test_local_blocks_of_an_axisymmetric_grid_are_refused(comm):
    inputs = made_problem("axisymmetric Stokes")
    decomposition = decompose(inputs.shape, comm.size, Decomposition("local", overlap=4))
    with pytest.raises(InputError, match="decomposition: local with an axisymmetric grid; allowed: global"):
        make_stages(comm.device, inputs, np.float64, comm=comm, decomposition=decomposition)


@pytest.mark.parallel(2)
@pytest.mark.parametrize("options", [Decomposition("global"), Decomposition("local", overlap=8)])
@pytest.mark.parametrize("shape", [EVEN, FLAT])
def test_velocity_at_the_points_of_the_pressure(comm, options, shape):
    """`translate`, as the recorder calls it, against one rank."""
    inputs = smooth_problem(shape, 6, width=3.0)
    decomposition = decompose(shape, comm.size, options)
    stages = make_stages(comm.device, inputs, np.float64, comm=comm, decomposition=decomposition)
    one = make_stages(comm.device, inputs, np.float64, plain=True)
    fields_of(stages, 6)
    fields_of(one, 6)
    part, device = stages.coefficients.subdomain, comm.device
    for axis, (factor, basis) in enumerate(
        zip(unstaggering(stages.coefficients.problem, part), unstaggering(inputs), strict=True)
    ):
        out = device.empty(stages.coefficients.shape, np.float64)
        if axis == 0:  # rows of spectra may be padded
            factor = np.pad(factor, (0, stages.coefficients.half_shape[2] - factor.size))
        stages.translate(stages.fields.u[axis], axis, device.asarray(factor, complex), out)
        wanted = device.empty(inputs.array_shape, np.float64)
        one.translate(one.fields.u[axis], axis, device.asarray(basis, complex), wanted)
        error = abs(
            device.to_host(out)[part.owned] - restrict_array(device.to_host(wanted), part)[part.owned]
        ).max()
        assert error < (1e-12 if options.kind == "global" else 2e-2) * abs(wanted).max()


@pytest.mark.parallel(4)
@pytest.mark.parametrize("options", [Decomposition("global"), Decomposition("local", overlap=4)])
def test_a_repeated_run_gives_the_same_bits(comm, options):
    inputs = made_problem("everything")
    decomposition = decompose(inputs.shape, comm.size, options)
    runs = [
        fields_of(make_stages(comm.device, inputs, np.float32, comm=comm, decomposition=decomposition), 6)
        for _ in range(2)
    ]
    part = decomposition.subdomains[comm.rank]
    for name, field in runs[0].items():
        assert (field[part.owned] == runs[1][name][part.owned]).all()


@pytest.mark.parallel(2)
@pytest.mark.parametrize("options", [Decomposition("global"), Decomposition("local", overlap=6)])
@pytest.mark.parametrize(
    "name",
    [
        "lossless",
        pytest.param("everything", marks=pytest.mark.slow),
        pytest.param("additive sources", marks=pytest.mark.slow),
        "power law 2-D",
    ],
)
def test_needed_bytes_of_ranks(comm, monkeypatch, name, options):
    """Within 15 % of what the rank with most allocates."""
    if comm.device.name != "cpu":
        pytest.skip("counts NumPy's arrays")
    shape = (64, 48, 40) if CASES[name][0][2] > 1 else (200, 160, 1)
    more = dict(CASES[name][1])
    for key, make in (("pressure_source", pressure_source), ("velocity_source", velocity_source)):
        if key in more:
            more[key] = make(shape, "additive")
    inputs, held = problem(shape, **more), []
    decomposition = decompose(shape, comm.size, options)
    empty, zeros, asarray = comm.device.empty, comm.device.zeros, comm.device.asarray

    def count(array):
        held.append(array)
        return array

    monkeypatch.setattr(comm.device, "empty", lambda *a: count(empty(*a)))
    monkeypatch.setattr(comm.device, "zeros", lambda *a: count(zeros(*a)))
    monkeypatch.setattr(comm.device, "asarray", lambda *a: count(asarray(*a)))
    stages = make_stages(comm.device, inputs, np.float64, comm=comm, decomposition=decomposition)
    fields_of(stages, 2)
    monkeypatch.undo()
    most = comm.control.max(float(sum({a.ctypes.data: a.nbytes for a in held}.values())))
    needed = needed_bytes(
        inputs, Recording(("p_rms",), np.zeros(0, np.int64)), np.float64, comm.device, decomposition
    )
    assert needed == pytest.approx(most, rel=0.15)
