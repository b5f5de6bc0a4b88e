"""k-wave-python's objects, read by attributes: what they become, and what is refused."""

from enum import Enum
from types import SimpleNamespace

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, bowl, from_kwave, simulate, simulate_kwave
from wavefabric.acoustics.kwave.objects import _record
from wavefabric.acoustics.problem import Cuboids, Interpolation
from wavefabric.base.errors import InputError

SHAPE = (8, 6, 5)
DT = 2e-8


class Mode(str, Enum):  # noqa: UP042 (this is k-wave-python's way)
    STOKES = "stokes"


def kgrid(shape=SHAPE, **more):
    return SimpleNamespace(
        **{"N": np.array(shape), "spacing": np.full(len(shape), 1e-4), "dt": DT, "Nt": 9, **more}
    )


def medium(**more):
    return SimpleNamespace(**{"sound_speed": np.array([1500.0]), "density": 1000.0, **more})


def source(**more):
    return SimpleNamespace(**({"p0": np.ones(SHAPE)} | more))


def sensor(**more):
    return SimpleNamespace(**{"mask": np.ones(SHAPE), "record": None, "record_start_index": 1, **more})


def problem_of(kgrid=None, medium=None, source=None, sensor=None, **options):
    parts = (
        globals()[name]() if part is None else part for name, part in _named(kgrid, medium, source, sensor)
    )
    return from_kwave(*parts, **{"pml_size": 1, **options})


def _named(*parts):
    return zip(("kgrid", "medium", "source", "sensor"), parts, strict=True)


def test_grid_and_medium():
    c = np.random.default_rng(1).random(SHAPE) * 100 + 1500
    problem, recording = problem_of(
        medium=medium(sound_speed=c, density=None, alpha_coeff=c / 1000, alpha_power=np.array(1.5), BonA=6.0),
        pml_alpha=1.5,
    )
    assert problem.shape == SHAPE
    assert problem.dt == DT
    assert problem.steps == 9
    assert problem.pml_size == (1, 1, 1)
    assert problem.pml_alpha == (1.5, 1.5, 1.5)
    assert problem.density == 1000.0
    assert problem.nonlinearity == 6.0
    assert problem.absorption == "power_law"
    assert problem.alpha_power == 1.5
    assert problem.dispersion
    np.testing.assert_array_equal(problem.sound_speed, c.transpose())
    assert recording.quantities == ("p_raw", "p_final")
    np.testing.assert_array_equal(recording.where, np.arange(240))


def test_absorption_modes():
    lossy = {"alpha_coeff": 0.5, "alpha_power": 1.5}
    assert not problem_of(medium=medium(**lossy, alpha_mode="no_dispersion"))[0].dispersion
    for mode in ("stokes", Mode.STOKES):
        assert problem_of(medium=medium(**lossy, alpha_mode=mode))[0].absorption == "stokes"
    # A power of 2 is Stokes absorption, and costs less as such.
    assert problem_of(medium=medium(alpha_coeff=0.5, alpha_power=2.0))[0].absorption == "stokes"
    one = problem_of(medium=medium(alpha_coeff=0.5, alpha_power=1.0, alpha_mode="no_dispersion"))[0]
    assert (one.alpha_power, one.dispersion) == (1.0, False)
    assert problem_of(medium=medium(alpha_coeff=0.0, alpha_power=1.5))[0].absorption == "none"
    assert problem_of(medium=medium(BonA=0))[0].nonlinearity is None


@pytest.mark.parametrize(
    ("inputs", "speed"), [("min", 1500), ("max", 1700), ("mean", 1600), (1650, 1650), (None, 1700)]
)
def test_reference_speed(inputs, speed):
    c = np.full(SHAPE, 1500.0)
    c[4:] = 1700.0
    assert problem_of(medium=medium(sound_speed=c, sound_speed_ref=inputs))[0].reference_speed == speed


def test_rows_of_signals_go_from_the_order_of_c_to_that_of_fortran():
    mask = np.random.default_rng(2).random(SHAPE) < 0.2
    n = np.count_nonzero(mask)
    # Each signal tells which point it is for.
    p = np.ravel_multi_index(np.nonzero(mask), SHAPE, order="F")[:, None] + np.zeros((1, 4))
    driven = source(
        p0=None, p=p, p_mask=mask, ux=p, uy=p[:1], u_mask=mask, p_mode="dirichlet", u_mode="dirichlet"
    )
    problem, _ = problem_of(source=driven)
    assert problem.pressure_source.signal.shape == (4, n)
    np.testing.assert_allclose(problem.pressure_source.signal[2] * 3 * 1500**2, problem.pressure_source.index)
    ux, uy, uz = problem.velocity_source.signals
    np.testing.assert_array_equal(ux[1], problem.velocity_source.index)
    assert uy.shape == (4, 1)
    assert uz is None


def focused(order):
    """An arc with a signal a point, as kWaveArray distributes it: band-limited weights times one signal."""
    grid = Grid((72, 80), "0.25 mm", pml_size=8)
    t = np.arange(160) * 4e-8
    arc = bowl(grid, ("-5 mm", "-3 mm"), "10 mm", "9 mm", ("5 mm", "1 mm"))
    made = arc.source(np.sin(2e6 * np.pi * t) * np.clip(t / 2e-6, 0, 1))
    # Rows of a `Source` are in the order of Fortran.
    rank = np.zeros(grid.shape, int)
    rank.T[made.p_mask.T] = np.arange(np.count_nonzero(made.p_mask))
    inputs = (
        kgrid(grid.shape, spacing=np.full(2, 2.5e-4), dt=4e-8, Nt=260),
        medium(),
        SimpleNamespace(p_mask=made.p_mask, p=made.p if order == "F" else made.p[rank[made.p_mask]]),
        SimpleNamespace(mask=None, record=["p_max_all", "p_final"]),
    )
    return grid, made, inputs


def test_either_order_of_a_distributed_signal_gives_the_focus():
    """And the wrong one a field that is not focused: kWaveArray's default order, unless it is told."""
    run = {"pml_size": 8, "device": "cpu", "threads": 1}
    grid, made, fortran = focused("F")
    _, _, c = focused("C")
    options = {"dt": 4e-8, "steps": 260, "device": "cpu", "threads": 1}
    wanted = simulate(grid, Medium(1500.0, 1000.0), made, **options)["p_max_all"]
    right = simulate_kwave(*c, **run)
    np.testing.assert_array_equal(right["p_max_all"], wanted)
    assert right["p_final"].shape == tuple(fortran[0].N)
    np.testing.assert_array_equal(simulate_kwave(*fortran, signal_order="F", **run)["p_max_all"], wanted)
    wrong = simulate_kwave(*fortran, **run)["p_max_all"]
    focus = np.s_[48:60, 36:48]
    assert wanted[focus].max() > 2e0
    assert wrong[focus].max() < 0.5 * wanted[focus].max()


def test_order_of_signals_that_does_not_exist():
    with pytest.raises(InputError, match=r"signal_order: \"A\"; allowed: 'C' or 'F'"):
        problem_of(signal_order="A")


def test_modes_are_spelt_with_underscores():
    driven = source(p0=None, p=np.ones(4), p_mask=np.ones(SHAPE), p_mode="additive-no-correction")
    assert problem_of(source=driven)[0].pressure_source.mode == "additive_no_correction"
    assert problem_of(source=source(p0=None, p=[1.0], p_mask=1))[0].pressure_source.index.size == 240


def test_masks():
    mask = np.zeros(SHAPE)
    mask[1, 2, 3] = 1
    _, recording = problem_of(sensor=sensor(mask=mask, record=["p_max"], record_start_index=4))
    np.testing.assert_array_equal(recording.where, [1 + 8 * (2 + 6 * 3)])
    assert recording.start == 3
    cartesian = problem_of(sensor=sensor(mask=np.zeros((3, 4))))[1].where
    assert isinstance(cartesian, Interpolation)
    corners = problem_of(sensor=sensor(mask=np.array([[1, 2, 3, 4, 5, 5], [1, 1, 1, 8, 6, 5]]).T))[1].where
    assert isinstance(corners, Cuboids)
    np.testing.assert_array_equal(corners.first, [[0, 1, 2], [0, 0, 0]])
    np.testing.assert_array_equal(corners.last, [[3, 4, 4], [7, 5, 4]])
    assert from_kwave(kgrid(), medium(), source(), None, pml_size=1)[1].where.size == 240


def test_pml_outside():
    problem, recording = problem_of(pml_size=(2, 3, 4), pml_inside=False, smooth_p0=False)
    assert problem.shape == (12, 12, 13)
    assert problem.initial_pressure.sum() == 240
    assert recording.where.size == 240


def test_transducer():
    mask = np.zeros(SHAPE, np.uint8)
    mask[1, 2:4, 1:4] = 1
    delay = np.arange(240, dtype=np.uint16).reshape(SHAPE) % 7 * mask
    made = SimpleNamespace(
        active_elements_mask=mask,
        input_signal=np.arange(20.0)[:, None],
        delay_mask=lambda: delay,
        transmit_apodization="Rectangular",
    )
    transducer = problem_of(source=made)[0].transducer
    points = np.unravel_index(transducer.index, SHAPE, order="F")
    np.testing.assert_array_equal(transducer.delay, delay[points])
    np.testing.assert_allclose(transducer.signal, np.arange(20.0) * 2 * 1500 * DT / 1e-4)
    assert transducer.steps == 20 - delay.max()
    made.transmit_apodization = "Hanning"
    with pytest.raises(InputError, match=r"source\.transmit_apodization_mask: null"):
        problem_of(source=made)
    made.transmit_apodization_mask = np.arange(240).reshape(SHAPE) * mask
    velocity = problem_of(source=made)[0].velocity_source
    np.testing.assert_array_equal(velocity.index, transducer.index)
    assert velocity.mode == "additive_no_correction"
    for i, point in enumerate(zip(*points, strict=True)):
        pushed = transducer.signal[delay[point] : delay[point] + transducer.steps]
        np.testing.assert_allclose(velocity.signals[0][:, i], made.transmit_apodization_mask[point] * pushed)


def test_a_transducer_as_the_sensor_records_at_its_active_elements():
    active = np.zeros(SHAPE)
    active[2, 1:4, 3] = 1
    recording = problem_of(sensor=SimpleNamespace(active_elements_mask=active, mask=None))[1]
    np.testing.assert_array_equal(recording.where, np.flatnonzero(active.T))


def test_one_dimension():
    problem, recording = problem_of(
        kgrid((40,)),
        medium(sound_speed=np.linspace(1500, 1600, 40)),
        source(p0=np.eye(1, 40, 17)),
        sensor(mask=np.array([[-1e-3, 1.23e-3]])),
    )
    assert problem.shape == (40, 1, 1)
    assert problem.dimensions == 1
    assert recording.where.corners.shape == (2, 2)
    # Never smoothed, as by k-wave-python.
    np.testing.assert_array_equal(problem.initial_pressure.ravel(), np.eye(1, 40, 17)[0])


def test_without_staggered_grid_and_k_space_correction():
    made = problem_of(medium=medium(density=np.linspace(900, 1100, 240).reshape(SHAPE)), use_sg=False)[0]
    assert not made.staggered
    assert made.k_space
    for density in made.density_staggered:
        np.testing.assert_array_equal(density, made.density)
    assert not problem_of(use_kspace=False)[0].k_space


class Elastic(SimpleNamespace):
    """k-wave-python's media raise this for what they lack."""

    @property
    def sound_speed_shear(self):
        raise NotImplementedError


def test_densities_between_points_follow_kwave_without_a_pml():
    """The last point keeps its value, as `_stagger` of k-wave-python's solver has it."""
    rho = 1000 + 100 * np.random.default_rng(0).random(SHAPE)
    for axis, along in enumerate(problem_of(medium=medium(density=rho), pml_size=0)[0].density_staggered):
        np.testing.assert_array_equal(np.take(along.T, -1, axis), np.take(rho, -1, axis))


def test_properties_that_raise_are_not_set():
    assert problem_of(medium=Elastic(sound_speed=1500.0, density=1000.0))[0].sound_speed == 1500.0


def test_what_is_recorded_becomes_what_was_asked_for():
    names = ["u", "uy_staggered", "u_max", "uz_rms", "p", "ux_final", "Ix_avg"]
    mask = np.zeros(SHAPE, bool)
    mask[0, 1, 0] = mask[1, 0, 0] = True  # the last is the first in the order of Fortran
    made, adapt = _record(
        sensor(record=names, mask=mask, record_start_index=3), Grid(SHAPE, 1e-4, pml_size=1)
    )
    assert set(made.record) == {"u_non_staggered", "u", "p", "u_final", "I_avg"}
    assert made.start == 2
    rng = np.random.default_rng(4)
    names = ["p", "ux_non_staggered", "uy_non_staggered", "uz_non_staggered", "uy"]
    arrays = {name: rng.random((3, 2)) for name in names} | {
        "Ix_avg": rng.random(2),
        "ux_final": rng.random((5, 6, 8)),
    }
    out = adapt(arrays)
    assert set(out) == {
        "p",
        "ux",
        "uy",
        "uz",
        "uy_staggered",
        "ux_max",
        "uy_max",
        "uz_max",
        "uz_rms",
        "ux_final",
        "Ix_avg",
    }
    np.testing.assert_array_equal(out["ux"], arrays["ux_non_staggered"][:, ::-1])
    np.testing.assert_array_equal(out["uy_staggered"], arrays["uy"][:, ::-1])
    np.testing.assert_array_equal(out["uy_max"], arrays["uy_non_staggered"].max(axis=0)[::-1])
    np.testing.assert_allclose(out["uz_rms"] ** 2, (arrays["uz_non_staggered"] ** 2).mean(axis=0)[::-1])
    np.testing.assert_array_equal(out["ux_final"], arrays["ux_final"])
    np.testing.assert_array_equal(out["Ix_avg"], arrays["Ix_avg"][::-1])


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"kgrid": kgrid(dt="auto")}, "kgrid.dt"),
        ({"kgrid": kgrid((8, 8, 8, 8))}, "kgrid.N"),
        ({"kgrid": kgrid(nonuniform=True)}, "kgrid.nonuniform"),
        ({"medium": medium(alpha_mode="no_absorption")}, "medium.alpha_mode"),
        ({"medium": medium(alpha_filter=np.ones(SHAPE))}, "medium.alpha_filter"),
        ({"medium": medium(alpha_sign=[1, 1])}, "medium.alpha_sign"),
        ({"medium": medium(sound_speed_shear=800.0)}, "medium.sound_speed_shear"),
        ({"medium": medium(alpha_coeff=1.0, alpha_power=np.ones(SHAPE))}, "medium.alpha_power"),
        ({"medium": medium(sound_speed_ref="median")}, "medium.sound_speed_ref"),
        ({"source": source(p_frequency_ref=1e6)}, "source.p_frequency_ref"),
        ({"source": source(s_mask=np.ones(SHAPE))}, "source.s_mask"),
        ({"source": source(p=[1.0], p_mask=np.full(SHAPE, 2))}, "source.p_mask"),
        ({"sensor": sensor(directivity=1)}, "sensor.directivity"),
        ({"sensor": sensor(frequency_response=[1e6, 50])}, "sensor.frequency_response"),
        ({"sensor": sensor(time_reversal_boundary_data=1)}, "sensor.time_reversal_boundary_data"),
        ({"sensor": sensor(_time_reversal_boundary_data=1)}, "sensor.time_reversal_boundary_data"),
        ({"sensor": sensor(record=["u_split_field"])}, "sensor.record"),
        ({"sensor": sensor(record_start_index=0)}, "sensor.record_start_index"),
        ({"sensor": sensor(mask=np.full(SHAPE, 2))}, "sensor.mask"),
        ({"sensor": sensor(mask=np.ones((5, 5, 5)))}, "sensor.mask"),
    ],
)
def test_what_has_no_counterpart_is_refused(parts, text):
    with pytest.raises(InputError, match=text):
        problem_of(**parts)


def test_results_keep_the_order_of_c():
    mask = np.random.default_rng(3).random(SHAPE) < 0.3
    _, recording = problem_of(sensor=sensor(mask=mask))
    field = np.random.default_rng(4).random(SHAPE)
    recorded = Grid(SHAPE, 1e-4, pml_size=1).to_memory(field, "f").reshape(-1)[recording.where]
    from wavefabric.acoustics.kwave.objects import _sensor

    _, order = _sensor(mask, Grid(SHAPE, 1e-4, pml_size=1))
    np.testing.assert_array_equal(recorded[order], field[mask])
