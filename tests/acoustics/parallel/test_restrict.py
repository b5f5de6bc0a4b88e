"""A rank's problem: put together again, the parts' are the whole."""

from dataclasses import replace

import numpy as np
import pytest
from random_problems import pressure_source, problem, transducer, velocity_source

from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.parallel.restrict import restrict_array, restrict_problem
from wavefabric.acoustics.problem import PressureSource, VelocitySource
from wavefabric.acoustics.solver.coefficients import Coefficients
from wavefabric.acoustics.solver.formulas import unstaggering

SHAPE = (24, 20, 18)
VARIANTS = [
    Decomposition("global", (1, 1, 4)),
    Decomposition("global", (1, 2, 2)),
    Decomposition("local", (1, 2, 2), 3),
    Decomposition("local", (2, 1, 2), 5),
]


def all_parts(options, shape=SHAPE):
    return decompose(shape, 4, options).subdomains


@pytest.mark.parametrize("options", VARIANTS)
def test_arrays_are_cut_at_the_parts_points(options):
    inputs = problem(SHAPE, mixed="crba", nonlinearity=True, absorption="power_law")
    for part in all_parts(options):
        local = restrict_problem(inputs, part)
        assert local.shape == part.size
        at = np.ix_(*(part.indices(axis) for axis in (2, 1, 0)))
        pairs = [
            (local.sound_speed, inputs.sound_speed),
            (local.density, inputs.density),
            *zip(local.density_staggered, inputs.density_staggered, strict=True),
            (local.nonlinearity, inputs.nonlinearity),
            (local.alpha_coeff, inputs.alpha_coeff),
            (local.initial_pressure, inputs.initial_pressure),
        ]
        for cut, value in pairs:
            assert cut.flags.c_contiguous
            assert (cut == value[at]).all()
        assert restrict_array(3.0, part) == 3.0
        assert restrict_array(None, part) is None


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("mode", ["dirichlet", "additive"])
@pytest.mark.parametrize("columns", [None, 1])
def test_every_source_point_is_on_one_rank(options, mode, columns):
    inputs = problem(
        SHAPE,
        pressure_source=pressure_source(SHAPE, mode, columns),
        velocity_source=velocity_source(SHAPE, mode, (columns, 0, columns)),
        transducer=transducer(SHAPE),
    )
    result = [{}, {}, {}]
    for part in all_parts(options):
        local = restrict_problem(inputs, part)
        numbers = restrict_array(np.arange(inputs.points).reshape(inputs.array_shape), part).reshape(-1)
        p, u, t = local.pressure_source, local.velocity_source, local.transducer
        for positions, source in zip(result, (p, u, t), strict=True):
            for i, index in enumerate(source.index if source is not None else ()):
                point = int(numbers[index])
                assert point not in positions
                if source is t:
                    positions[point] = t.delay[i]
                    continue
                signal = p.signal if source is p else u.signals[2]
                assert signal.shape[1] == (columns or len(source.index))
                positions[point] = signal[:, i if signal.shape[1] > 1 else 0].tolist()
    p, u, t = inputs.pressure_source, inputs.velocity_source, inputs.transducer
    for positions, source, values in zip(
        result, (p, u, t), (p.signal.T, u.signals[2].T, t.delay), strict=True
    ):
        rows = np.broadcast_to(values, (len(source.index), *values.shape[1:])) if columns else values
        assert positions == {
            int(i): v.tolist() if np.ndim(v) else v for i, v in zip(source.index, rows, strict=True)
        }


def test_a_source_elsewhere():
    """It is left out, unless all ranks must transform it together."""
    one = np.array([5])
    for mode, stays in [("dirichlet", False), ("additive_no_correction", False), ("additive", True)]:
        inputs = problem(
            SHAPE,
            pressure_source=PressureSource(one, np.ones((3, 1)), mode),
            velocity_source=VelocitySource(one, (np.ones((3, 1)), None, np.ones((3, 1))), mode),
            transducer=replace(transducer(SHAPE), index=one, delay=np.array([0])),
        )
        first, *_, last = (restrict_problem(inputs, part) for part in all_parts(VARIANTS[0]))
        assert first.pressure_source.index.tolist() == [5]
        assert (last.pressure_source is not None) == stays
        assert (last.velocity_source is not None) == stays
        assert first.transducer is not None
        assert last.transducer is None
        if stays:
            assert last.pressure_source.index.size == 0
            assert last.velocity_source.signals[1] is None
            assert last.pressure_source.forms[0].name == "pattern"


def test_the_form_is_that_of_the_whole_source():
    """Points of one rank may share a signal that all do not share."""
    index = np.array([0, 1, 24 * 20 * 17])
    wave = np.array([1.0, 2.0, 3.0])
    signal = np.stack([wave, 2 * wave, wave[::-1]], 1)
    inputs = problem(SHAPE, pressure_source=PressureSource(index, signal, "additive"))
    first, *_, last = (restrict_problem(inputs, part) for part in all_parts(VARIANTS[0]))
    assert first.pressure_source.forms[0].name == last.pressure_source.forms[0].name == "field"
    assert first.pressure_source.signal.shape == (3, 2)


@pytest.mark.parametrize("shape", [(24, 20, 18), (31, 45, 1)])
@pytest.mark.parametrize(("kind", "grid"), [("global", (1, 4, 1)), ("local", (2, 2, 1))])
def test_constants_are_cut_from_those_of_the_whole(cpu, shape, kind, grid):
    inputs = problem(shape, absorption="power_law", mixed="c")
    parts = all_parts(Decomposition(kind, grid, 4), shape)
    all_of = Coefficients(cpu, inputs, np.float64)
    for part in parts:
        local = restrict_problem(inputs, part)
        result = Coefficients(cpu, local, np.float64, subdomain=part)
        for axis in range(inputs.dimensions):
            assert (result.pml[axis] == all_of.pml[axis][part.indices(axis)]).all()
            assert (result.pml_staggered[axis] == all_of.pml_staggered[axis][part.indices(axis)]).all()
        # The whole basis cut at this rank's wavenumbers, or the basis of a block.
        basis = all_of if kind == "global" else Coefficients(cpu, local, np.float64)
        at = tuple(slice(*span) for span in part.spectral[::-1]) if kind == "global" else ...
        for name in ("kappa", "nabla1", "nabla2"):
            assert (getattr(result, name) == getattr(basis, name)[at]).all()
        assert (result.source_kappa() == basis.source_kappa()[at]).all()
        for axis in range(inputs.dimensions):
            span = slice(*part.spectral[axis])
            assert (result.up[axis] == basis.up[axis][span]).all()
            assert (result.down[axis] == basis.down[axis][span]).all()
        moved, basic = (
            unstaggering(local, part),
            unstaggering(inputs if kind == "global" else local),
        )
        for axis, (one, other) in enumerate(zip(moved, basic, strict=True)):
            assert (one == other[slice(*part.spectral[axis])]).all()


def test_the_whole_part_changes_nothing(cpu):
    inputs = problem(SHAPE, mixed="crba", nonlinearity=True, absorption="power_law")
    one, other = (
        Coefficients(cpu, inputs, np.float32),
        Coefficients(cpu, inputs, np.float32, subdomain=Subdomain.whole(SHAPE)),
    )
    for name in ("kappa", "nabla1", "nabla2", "speed", "tau"):
        assert (getattr(one, name) == getattr(other, name)).all()
    assert one.half_shape == other.half_shape == (18, 20, 13)
