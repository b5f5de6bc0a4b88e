"""The fused GPU stages of several ranks, against the plain ones on the same ranks and one rank's answer.

Run with ``mpirun -n K pytest -m multigpu`` and WAVEFABRIC_TEST_TRANSPORT set (see conftest.py); ``emulated``
takes minutes.
"""

from dataclasses import replace

import numpy as np
import pytest
import random_problems as random
from rank_steps import CASES, alone, noise_problem, run_steps

from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.acoustics.fused.fused_cuda import FusedCudaStages
from wavefabric.acoustics.materials import find
from wavefabric.acoustics.materials.indexed import Indexed
from wavefabric.acoustics.parallel.fused_layouts import FusedGlobalLayout, FusedLocalLayout

pytestmark = [pytest.mark.multigpu, pytest.mark.parallel([2, 4])]


def _grids(size):
    return [(1, 1, size), (1, size, 1), (size, 1, 1)] + (
        [(1, 2, 2), (2, 1, 2), (2, 2, 1)] if size == 4 else []
    )


@pytest.mark.parametrize(("absorption", "nonlinear", "seed"), CASES)
@pytest.mark.parametrize("number", range(6))
def test_local(comm, absorption, nonlinear, seed, number):
    grids = _grids(comm.size)
    if number >= len(grids):
        pytest.skip("no such cut of so few ranks")
    problem = noise_problem((40, 40, 40), absorption, nonlinear, seed)
    options = Decomposition("local", grids[number], overlap=5)
    fused, result = run_steps(comm, problem, np.float64, options, False)
    assert isinstance(fused.layout, FusedLocalLayout)
    _, wanted = run_steps(comm, problem, np.float64, options, True)
    for name, field in wanted.items():
        np.testing.assert_allclose(
            result[name], field, rtol=0, atol=1e-11 * np.abs(field).max(), err_msg=name
        )


@pytest.mark.parametrize("cut", ["y", "z"])
def test_local_rows_of_overlaps_in_odd_planes(comm, cut):
    """Planes of an odd number of rows, an odd overlap: rows listed one by one, at last part of a block."""
    shape, grid = {
        "y": ((18, 25 * comm.size, 27), (1, comm.size, 1)),
        "z": ((40, 35, 40), (1, 1, comm.size)),
    }[cut]
    problem, options = noise_problem(shape, "power_law", True, 0), Decomposition("local", grid, 5)
    fused, result = run_steps(comm, problem, np.float64, options, False)
    assert isinstance(fused.layout, FusedLocalLayout)
    rows = fused.layout._overlap_rows.tolist()
    nz, ny, _ = fused.coefficients.shape
    assert ny % 2 == 1
    assert len(rows) == {"y": 10 * nz, "z": 10 * ny}[cut]
    _, wanted = run_steps(comm, problem, np.float64, options, True)
    for name, field in wanted.items():
        np.testing.assert_allclose(
            result[name], field, rtol=0, atol=1e-11 * np.abs(field).max(), err_msg=name
        )


@pytest.mark.parametrize("kind", ["local", "global"])
def test_odd_rows(comm, kind):
    """A convolution of every row; locally of the rows of overlaps apart."""
    problem = noise_problem((35, 20, 40), "power_law", True, 3)
    options = Decomposition(kind, overlap=5) if kind == "local" else Decomposition(kind)
    fused, result = run_steps(comm, problem, np.float64, options, False)
    assert isinstance(fused.layout, {"local": FusedLocalLayout, "global": FusedGlobalLayout}[kind])
    _, wanted = run_steps(comm, problem, np.float64, options, True)
    for name, field in wanted.items():
        np.testing.assert_allclose(
            result[name], field, rtol=0, atol=1e-11 * np.abs(field).max(), err_msg=name
        )


@pytest.mark.parametrize(("absorption", "nonlinear", "seed"), CASES)
@pytest.mark.parametrize("shape", [(12, 10, 14), (10, 7, 5)])
def test_global(comm, absorption, nonlinear, seed, shape):
    problem = noise_problem(shape, absorption, nonlinear, seed)
    fused, result = run_steps(comm, problem, np.float64, Decomposition("global"), False)
    assert isinstance(fused.layout, FusedGlobalLayout)
    for name, field in alone(comm, problem, np.float64).items():
        if name in result:
            np.testing.assert_allclose(
                result[name], field, rtol=0, atol=1e-12 * np.abs(field).max(), err_msg=name
            )


@pytest.mark.parametrize("kind", ["local", "global"])
@pytest.mark.parametrize("everywhere", [True, False], ids=["all ranks", "first ranks"])
def test_a_medium_by_index_changes_no_bit(comm, kind, everywhere, monkeypatch):
    """Of few materials everywhere, or where the first ranks are, which hold an index, others full grids."""
    shape = (20, 12, 40)
    more = dict(
        nonlinearity=True, absorption="power_law", velocity_source=random.velocity_source(shape, "additive")
    )
    problem = random.problem(shape, mixed="crba", materials=3, **more)
    if not everywhere:
        noise = 1 + 0.01 * np.random.default_rng(1).uniform(-1, 1, problem.array_shape)
        noise[:25] = noise[35:] = 1  # what the first rank holds, overlaps included
        monkeypatch.setattr(find._Search.__init__, "__defaults__", (100,))  # materials that an index names
        names = ("sound_speed", "density", "nonlinearity", "alpha_coeff")
        problem = replace(
            problem,
            **{name: getattr(problem, name) * noise for name in names},
            density_staggered=tuple(density * noise for density in problem.density_staggered),
        )
    options = Decomposition(kind, (1, 1, comm.size), overlap=5) if kind == "local" else Decomposition(kind)
    result, forms = [], []
    for by_index in (True, False):
        monkeypatch.setattr(FusedCudaStages, "by_index", by_index)
        stages, fields = run_steps(comm, problem, np.float64, options, False)
        c = stages.coefficients
        indexed = [isinstance(parameter, Indexed) for parameter in (c.speed, c.density, c.tau, *c.staggered)]
        forms.append(comm.control.all_gather(set(indexed)))
        result.append(fields)
    assert forms[0][0] == {True}
    assert forms[0][-1] == ({True} if everywhere else {False})
    assert forms[1] == [{False}] * comm.size
    assert all(result[0][name].tobytes() == result[1][name].tobytes() for name in result[0])


@pytest.mark.parametrize("kind", ["local", "global"])
def test_translated_and_multiplied(comm, kind):
    from wavefabric.acoustics.solver.formulas import unstaggering

    problem = noise_problem((20, 24, 40), "none", False, 9)
    options = Decomposition(kind, overlap=5) if kind == "local" else Decomposition(kind)
    fused, _ = run_steps(comm, problem, np.float64, options, False)
    plain, _ = run_steps(comm, problem, np.float64, options, True)
    for axis in range(3):
        results = []
        for stages in (fused, plain):
            c = stages.coefficients
            factor = unstaggering(c.problem, c.subdomain)[axis]
            if axis == 0:
                factor = np.pad(factor, (0, c.half_shape[2] - factor.size))
            out = c.device.zeros(c.shape, c.dtype)
            stages.translate(stages.fields.u[axis], axis, c.device.asarray(factor, c.complex), out)
            results.append(c.device.to_host(out[c.subdomain.owned]))
        np.testing.assert_allclose(*results, rtol=0, atol=1e-11 * np.abs(results[1]).max())
