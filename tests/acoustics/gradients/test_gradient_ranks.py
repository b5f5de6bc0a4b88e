"""Gradients over ranks: those of one rank (global), and the transpose of what ranks compute (local)."""

import numpy as np
import pytest
from gradient_cases import noise, objective
from test_against_jax import slope
from test_gradient import RUN, gradient_of
from test_resume import bits, interrupted, of
from test_transpose import GRIDS, SOURCES, check, made, sources_of, weighted

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate_and_gradient
from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.acoustics.gradients import run as gradient_run
from wavefabric.acoustics.gradients.gradient import GradientSettings
from wavefabric.acoustics.simulation import solve
from wavefabric.runtime.exchange import solo

pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")
two = pytest.mark.parallel(2)
grids = pytest.mark.parametrize(
    "dimensions", [pytest.param(each, marks=[pytest.mark.slow] * (each != "3-D")) for each in GRIDS]
)


def sources(usual):
    cases = [pytest.param(each, marks=[pytest.mark.slow] * (each not in usual)) for each in SOURCES]
    return pytest.mark.parametrize("source", cases)


PENCILS = pytest.param("3-D", True, marks=pytest.mark.parallel([2, 4]))
LOCAL = Decomposition("local", overlap=2)


def everywhere(comm, *arguments, **options):
    """A gradient that all ranks have alike."""
    gradient = gradient_of(*arguments, comm=comm, **options)
    assert all(each == bits(gradient) for each in comm.control.all_gather(bits(gradient)))
    return gradient


def results(comm, case, **values):
    how = GradientSettings(**RUN | dict(comm=comm, decomposition=LOCAL))
    return solve(*case.problem(case.values | values), how, case.grid)


@two
@pytest.mark.parametrize(
    ("dimensions", "pencils"),
    [*(pytest.param(each, False, marks=pytest.mark.slow) for each in ("2-D", "3-D")), PENCILS],
)
@sources(SOURCES[::2])
def test_global_decompositions(comm, dimensions, source, pencils):
    case = made(dimensions, "nonlinear power law", source)
    how = Decomposition(grid=(1, 2, comm.size // 2) if pencils else None)
    gradient = everywhere(comm, case, tuple(case.values), decomposition=how, states=9)
    for name, value in gradient_of(case, tuple(case.values), comm=solo(comm.device)).items():
        assert np.abs(gradient[name] - value).max() <= 1e-12 * np.abs(value).max(), name


@two
@grids
@sources(SOURCES[1::2])
def test_sources_of_a_local_decomposition(comm, dimensions, source):
    case, other = (made(dimensions, "power law", source, seed) for seed in (0, 50))
    gradient = everywhere(comm, other, sources_of(case), function=weighted, decomposition=LOCAL)
    products = [gradient[name] * case.values[name] for name in sources_of(case)]
    check(products, weighted(results(comm, case))[0], 1e-12)


@two
@pytest.mark.slow
@grids
def test_medium_of_a_local_decomposition(comm, dimensions):
    case, scales = made(dimensions, "nonlinear power law", "additive"), dict(nonlinearity=100)
    names = "sound_speed", "density", "alpha_coeff", "nonlinearity"
    at = {name: case.values[name] for name in names}
    by = {name: scales.get(name, 1) * at[name].max() * noise(at[name].shape, 7) for name in names}
    gradient = everywhere(comm, case, names, decomposition=LOCAL)

    def moved(step):
        return objective(results(comm, case, **{name: at[name] + step * by[name] for name in names}))

    check([gradient[name] * by[name] for name in names], slope(moved), 1e-8)


@two
@pytest.mark.slow
@pytest.mark.parametrize("how", [None, LOCAL], ids=["global", "local"])
def test_interrupted_and_resumed_on_ranks(comm, tmp_path, monkeypatch, how):
    monkeypatch.setattr(gradient_run, "_STATUS_STEPS", 1)
    path = comm.control.bcast(tmp_path) / "run"
    options = dict(comm=comm, decomposition=how, states=2)
    wanted = bits(of("3-D", **options))
    for back, at in ((False, 9), (True, 1), (True, 30), (True, 3)):
        interrupted("3-D", back, at, checkpoint=path, **options)
    assert bits(of("3-D", checkpoint=path, **options)) == wanted
    comm.control.barrier()
    assert list(path.parent.iterdir()) == []


@two
def test_source_of_one_rank(comm):
    """What replaces the density there makes all ranks take the divergence anew."""
    shape, mask = (16, 14), np.zeros((16, 14), bool)
    mask[4, 3:6] = True
    medium = Medium(
        1500 + 50 * noise(shape, 1), 1000 + 50 * noise(shape, 2), np.maximum(4 * noise(shape, 3), 0), 1.5
    )
    source = Source(p_mask=mask, p=1e5 * noise((3, 12), 4), p_mode="dirichlet")
    names, how = ("density", "sound_speed", "alpha_coeff", "p"), dict(RUN, steps=12, dt=1.6e-8)
    grid, sensor = Grid(shape, 1e-4, pml_size=2), Sensor(np.arange(16)[:, None] * np.ones(14) == 12)

    def gradient(comm):
        inputs = grid, medium, source, sensor, lambda r: ((r["p"] ** 2).sum() / 2, {"p": r["p"]})
        return simulate_and_gradient(*inputs, names, comm=comm, **how)

    shared = gradient(comm)
    for name, value in gradient(solo(comm.device)).items():
        assert np.abs(shared[name] - value).max() <= 1e-12 * np.abs(value).max(), name
