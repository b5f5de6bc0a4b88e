"""What of a medium is held by index, and that its tables give back the arrays."""

from dataclasses import replace

import hypothesis
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_problems import problem

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.materials.find import AT_POINTS, STAGGERED, _Search, find_materials
from wavefabric.acoustics.solver.coefficients import Coefficients

SHAPE = (24, 20, 18)
ALL = dict(nonlinearity=True, absorption="power_law")


def names(result):
    return [(group.names, group.bits) for group in result.groups]


def test_one_index_for_all():
    inputs = problem(SHAPE, mixed="crba", materials=3, **ALL)
    result = find_materials(inputs, np.float32)
    assert names(result) == [((*AT_POINTS, *STAGGERED), 8)]
    parameters = "sound speed, density, B/A, absorption, staggered densities"
    assert result.note() == f"{parameters} of 3 materials: held as an index of 8 bits"
    assert len(result.groups[0].combinations) == 81  # a material at the point and at each of its neighbours
    result = find_materials(problem(SHAPE, mixed="crba", materials=6, **ALL), np.float32)
    assert names(result) == [((*AT_POINTS, *STAGGERED), 16)]
    assert "of 6 materials: held as an index of 16 bits" in result.note()


def test_nothing_to_hold():
    for inputs in (problem(SHAPE), problem(SHAPE, mixed="crba", **ALL)):
        result = find_materials(inputs, np.float32)
        assert result.groups == ()
        assert result.note() == ""
        assert result.nbytes(1 << 20, 4) == 0


def test_parameters_that_are_read_alone():
    """Not B/A of a linear medium, absorption only if there is any, and no parameter that is a number."""
    inputs = problem(SHAPE, mixed="ca", materials=3, absorption="stokes")
    assert names(find_materials(inputs, np.float32)) == [(("speed", "tau"), 8)]
    assert names(find_materials(replace(inputs, absorption="none"), np.float32)) == [(("speed",), 8)]
    inputs = problem(SHAPE, mixed="a", materials=3, absorption="stokes")
    assert names(find_materials(inputs, np.float32)) == [(("tau",), 8)]


def noise(seed=5):
    rng = np.random.default_rng(seed)
    return 1000 + rng.uniform(0, 100, SHAPE[::-1])


def test_a_parameter_of_many_values_is_left_out():
    inputs = problem(SHAPE, mixed="crba", materials=3, **ALL)
    # τ follows from the sound speed.
    result = find_materials(replace(inputs, sound_speed=noise()), np.float64)
    assert names(result) == [(("density", "ratio", *STAGGERED), 8)]
    result = find_materials(replace(inputs, density=noise()), np.float64)
    assert names(result) == [(("speed", "ratio", "tau", *STAGGERED), 8)]
    result = find_materials(
        replace(inputs, density_staggered=(noise(), *inputs.density_staggered[1:])), np.float64
    )
    assert names(result) == [(AT_POINTS, 8)]


def limited(inputs, limit):
    return _Search(inputs, np.dtype(np.float32), limit).materials()


def test_staggered_densities_by_themselves():
    """One index for the three of them, or one each, of as many bits as most need."""
    inputs = problem(SHAPE, mixed="r", materials=6)
    assert names(limited(inputs, 1300)) == [(("density", *STAGGERED), 16)]
    result = limited(inputs, 300)
    assert names(result) == [(("density",), 8), (STAGGERED, 8)]
    assert result.note().endswith(
        "; density staggered along x, y, z of 216 values: held as an index of 8 bits"
    )
    assert names(limited(inputs, 100)) == [
        (("density",), 8),
        *(((name,), 8) for name in STAGGERED),
    ]
    many = np.arange(24 * 20 * 18).reshape(SHAPE[::-1]) % 300 + 1000.0
    result = limited(replace(inputs, density_staggered=(many, *inputs.density_staggered[1:])), 300)
    assert names(result)[1:] == [((name,), 16) for name in STAGGERED]


def test_only_what_saves_memory():
    """A table as long as the grid saves nothing."""
    inputs = problem((8, 8, 8), mixed="c")
    assert find_materials(inputs, np.float32).groups == ()
    many = (np.arange(512) % 300 + 1500.0).reshape(8, 8, 8)
    # 512 points: an index of 2 bytes and 300 rows of four floats, or one float a point.
    assert find_materials(replace(inputs, sound_speed=many), np.float32).groups == ()


def test_values_are_those_of_the_precision():
    speed = np.full(SHAPE[::-1], 1500.0)
    speed += 1e-9 * np.arange(speed.size).reshape(speed.shape)
    inputs = problem(SHAPE)
    assert len(find_materials(replace(inputs, sound_speed=speed), np.float32).groups[0].combinations) < 10
    assert find_materials(replace(inputs, sound_speed=speed), np.float64).groups == ()


def test_a_problem_is_looked_through_once():
    """Not the arrays, which a script may change before it makes another problem of them."""
    inputs = problem(SHAPE, mixed="cr", materials=3)
    result = find_materials(inputs, np.float32)
    assert find_materials(inputs, np.float32) is result
    assert find_materials(inputs, np.float64) is not result
    inputs.sound_speed[0, 0, 0] = 1234.5
    other = find_materials(replace(inputs), np.float32)
    assert 1234.5 in other.groups[0].values("speed")
    assert 1234.5 not in result.groups[0].values("speed")
    assert find_materials(other_sources := inputs.with_medium(steps=3), np.float32) is result
    assert other_sources.steps == 3


@hypothesis.settings(max_examples=40)
@given(
    mixed=st.sets(st.sampled_from("crba"), min_size=1),
    materials=st.integers(1, 6),
    absorption=st.sampled_from(["none", "stokes", "power_law"]),
    nonlinear=st.booleans(),
    noisy=st.sampled_from(["", "sound_speed", "density", "alpha_coeff"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 1000),
)
def test_coefficients_by_index_are_those_of_arrays(
    cpu, mixed, materials, absorption, nonlinear, noisy, dtype, seed
):
    """The same bits at all points, and the bytes that are said."""
    more = dict(absorption=absorption) | (dict(nonlinearity=True) if nonlinear else {})
    inputs = problem((9, 8, 7), mixed="".join(mixed), materials=materials, seed=seed, **more)
    if noisy:
        inputs = replace(inputs, **{noisy: np.random.default_rng(seed).uniform(1, 2, (7, 8, 9))})
    arrays, result = Coefficients(cpu, inputs, dtype), Coefficients(cpu, inputs, dtype, by_index=True)
    held = find_materials(inputs, dtype)
    everywhere = (slice(None),) * 3
    for name in AT_POINTS:
        wanted = np.ascontiguousarray(arrays.part(getattr(arrays, name), everywhere))
        assert result.part(getattr(result, name), everywhere)[everywhere].tobytes() == wanted.tobytes(), name
        assert hasattr(getattr(result, name), "index") == (name in held)
    for name, one, other in zip(STAGGERED, arrays.staggered, result.staggered, strict=True):
        wanted = np.ascontiguousarray(arrays.part(one, everywhere))
        assert result.part(other, everywhere)[everywhere].tobytes() == wanted.tobytes(), name
    whole = Subdomain.whole(inputs.shape)
    device = type("Gpu", (), {"name": "cuda:0"})
    dtype = np.dtype(dtype)
    assert Coefficients.nbytes(inputs, whole, dtype, device, held) <= Coefficients.nbytes(
        inputs, whole, dtype, device
    )
    parameters = [result.speed, result.density, result.ratio, result.tau, *result.staggered]
    indexed = [p for p in parameters if hasattr(p, "index")]
    bytes_of = {id(a): a.nbytes for p in indexed for a in (p.index, p.values if p.table is None else p.table)}
    full = sum(p.nbytes for p in parameters if not hasattr(p, "index") and p.shape[0] > 1)
    spectra = sum(
        a.nbytes for a in {id(a): a for a in (result.nabla1, result.nabla2) if a is not None}.values()
    )
    needed = Coefficients.nbytes(inputs, whole, dtype, device, held)
    assert sum(bytes_of.values()) + full + spectra == needed
