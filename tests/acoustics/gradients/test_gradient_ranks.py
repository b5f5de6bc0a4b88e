"""Gradients over ranks: those of one rank (global), and the transpose of what ranks compute (local)."""

import numpy as np
import pytest
from gradient_cases import noise, objective
from test_against_jax import slope
from test_gradient import RUN, gradient_of
from test_resume import bits, interrupted, of
from test_transpose import SOURCES, check, made, sources_of, weighted

from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.acoustics.gradients import run as gradient_run
from wavefabric.acoustics.gradients.gradient import GradientSettings
from wavefabric.acoustics.simulation import solve
from wavefabric.exchange import solo

two = pytest.mark.parallel(2)
pytestmark = [pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")]
FOUR = pytest.param("3-D", True, marks=pytest.mark.parallel([2, 4]))
LOCAL = Decomposition("local", overlap=2)


def everywhere(comm, *arguments, **options):
    """A gradient that all ranks have alike."""
    gradient = gradient_of(*arguments, comm=comm, **options)
    mine = bits(gradient)
    for other in comm.control.all_gather(mine):
        assert [name for name in mine if other[name] != mine[name]] == []
    return gradient


@two
@pytest.mark.parametrize(("dimensions", "pencils"), [("2-D", False), ("3-D", False), FOUR])
@pytest.mark.parametrize("source", SOURCES)
def test_global_decompositions(comm, dimensions, source, pencils):
    case = made(dimensions, "nonlinear power law", source)
    wanted = gradient_of(case, tuple(case.values), comm=solo(comm.device))
    how = Decomposition(grid=(1, 2, comm.size // 2) if pencils else None)
    gradient = everywhere(comm, case, tuple(case.values), decomposition=how, states=9)
    for name, value in wanted.items():
        assert np.abs(gradient[name] - value).max() <= 1e-12 * np.abs(value).max(), name


def results(comm, case, values):
    options = RUN | dict(comm=comm, decomposition=LOCAL)
    return solve(*case.problem(values), case.grid, GradientSettings(**options))


@two
@pytest.mark.parametrize("dimensions", ["2-D", "3-D"])
@pytest.mark.parametrize("source", SOURCES)
def test_sources_of_a_local_decomposition(comm, dimensions, source):
    case, other = (made(dimensions, "power law", source, seed) for seed in (0, 50))
    gradient = everywhere(comm, other, sources_of(case), function=weighted, decomposition=LOCAL)
    products = [gradient[name] * case.values[name] for name in sources_of(case)]
    check(products, weighted(results(comm, case, case.values))[0], 1e-12)


@two
@pytest.mark.parametrize("dimensions", ["2-D", "3-D"])
@pytest.mark.parametrize("name", ["sound_speed", "density", "alpha_coeff", "nonlinearity"])
def test_medium_of_a_local_decomposition(comm, dimensions, name):
    case = made(dimensions, "nonlinear power law", "additive")
    gradient, value = everywhere(comm, case, (name,), decomposition=LOCAL), case.values[name]
    change = np.max(value) * noise(value.shape, 7) * (100 if name == "nonlinearity" else 1)

    def moved(step):
        return objective(results(comm, case, case.values | {name: value + step * change}))

    check([gradient[name] * change], slope(moved), 1e-8)


@two
@pytest.mark.slow
@pytest.mark.parametrize("how", [None, LOCAL], ids=["global", "local"])
def test_interrupted_and_resumed_on_ranks(comm, tmp_path, monkeypatch, how):
    monkeypatch.setattr(gradient_run, "_STATUS_STEPS", 1)
    folder = comm.control.bcast(tmp_path)
    options = dict(comm=comm, decomposition=how, states=2)
    wanted = bits(of("3-D", **options))
    for back, at in ((False, 9), (True, 1), (True, 30), (True, 3)):
        interrupted("3-D", back, at, checkpoint=folder / "run", **options)
    assert bits(of("3-D", function=None, checkpoint=folder / "run", **options)) == wanted
    comm.control.barrier()
    assert list(folder.iterdir()) == []
