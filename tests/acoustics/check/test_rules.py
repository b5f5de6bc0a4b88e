"""Values that make no sense are refused in the caller's words."""

from dataclasses import replace

import numpy as np
import pytest

from wavefabric.acoustics.check.rules import PYTHON_NAMES, check, check_recording
from wavefabric.acoustics.problem import (
    Cuboids,
    Interpolation,
    PressureSource,
    Problem,
    Recording,
    TransducerSource,
    VelocitySource,
)
from wavefabric.acoustics.recording.quantities import QUANTITIES
from wavefabric.base.errors import InputError

GRID = (4, 5, 6)
INDEX = np.array([3, 50, 119])
GOOD = Problem(
    shape=(6, 5, 4),
    spacing=(1e-4, 1e-4, 2e-4),
    dt=1e-8,
    steps=20,
    reference_speed=1500.0,
    pml_size=(3, 2, 0),
    pml_alpha=(2.0, 2.0, 0.0),
    sound_speed=np.full(GRID, 1500.0),
    density=1000.0,
    density_staggered=(1000.0, np.full(GRID, 1000.0), 1000),
    nonlinearity=np.full(GRID, 6.0, np.float32),
    absorption="power_law",
    alpha_coeff=np.full(GRID, 0.5),
    alpha_power=1.5,
    initial_pressure=np.zeros(GRID),
    pressure_source=PressureSource(INDEX, np.ones((30, 3)), "dirichlet"),
    velocity_source=VelocitySource(INDEX, (np.ones((7, 1)), None, np.ones((9, 3), np.float32))),
    transducer=TransducerSource(INDEX, np.array([0, 4, 9]), np.ones(10), 30),
)
PLANE = replace(
    GOOD,
    shape=(6, 5, 1),
    sound_speed=1500.0,
    density_staggered=(1000.0, 1000.0),
    nonlinearity=None,
    absorption="none",
    initial_pressure=None,
    pressure_source=None,
    velocity_source=None,
    transducer=None,
)


def spoilt(value, shape=GRID, fill=1500.0):
    array = np.full(shape, fill)
    array[-1, -1, -1] = value
    return array


def pressure(**new):
    return {"pressure_source": replace(GOOD.pressure_source, **new)}


def velocity(**new):
    return {"velocity_source": replace(GOOD.velocity_source, **new)}


def transducer(**new):
    return {"transducer": replace(GOOD.transducer, **new)}


# (key of the names, what is changed, words of the line)
BAD = [
    ("shape.x", {"shape": (0, 5, 4)}, "0; allowed: a whole number from 2"),
    ("shape.z", {"shape": (6, 5, 0)}, "0; allowed: a whole number from 1"),
    ("shape.y", {"shape": (6, 5.0, 4)}, "5.0"),
    ("spacing.z", {"spacing": (1e-4, 1e-4, 0.0)}, "above 0"),
    ("spacing.x", {"spacing": (np.nan, 1e-4, 1e-4)}, "nan"),
    ("dt", {"dt": -1e-8}, "-1e-08"),
    ("dt", {"dt": np.inf}, "inf"),
    ("dt", {"dt": "1 ns"}, "1 ns"),
    ("steps", {"steps": 0}, "from 1"),
    ("steps", {"steps": 2.5}, "2.5"),
    ("steps", {"steps": True}, "True"),
    ("reference_speed", {"reference_speed": 0.0}, "above 0"),
    ("pml_size.y", {"pml_size": (3, 3, 0)}, "3 points on both sides of a grid of 5 in y; allowed: 0 to 2"),
    ("pml_size.x", {"pml_size": (-1, 2, 0)}, "-1"),
    ("pml_alpha.x", {"pml_alpha": (-1.0, 2.0, 2.0)}, "-1"),
    ("sound_speed", {"sound_speed": spoilt(0.0)}, "0 at a grid point; allowed: above 0"),
    ("sound_speed", {"sound_speed": spoilt(np.nan)}, "not finite"),
    ("sound_speed", {"sound_speed": spoilt(-np.inf)}, "not finite"),
    (
        "sound_speed",
        {"sound_speed": np.full((6, 5, 4), 1500.0)},
        r"has the shape \(6, 5, 4\); allowed: \(4, 5, 6\)",
    ),
    ("sound_speed", {"sound_speed": np.full(GRID, 1500 + 0j)}, "complex"),
    ("density", {"density": -1000.0}, "-1000; allowed: above 0"),
    ("density_staggered.z", {"density_staggered": (1000.0, 1000.0, 0.0)}, "above 0"),
    ("nonlinearity", {"nonlinearity": np.nan}, "nan"),
    ("absorption", {"absorption": "water"}, "none, power_law, stokes"),
    ("alpha_coeff", {"alpha_coeff": spoilt(-0.1)}, "-0.1 at a grid point; allowed: from 0"),
    ("alpha_power", {"alpha_power": 1.0}, "other than 1"),
    ("alpha_power", {"alpha_power": np.inf}, "inf"),
    ("initial_pressure", {"initial_pressure": 3.0}, r"shape \(4, 5, 6\)"),
    ("initial_pressure", {"initial_pressure": spoilt(np.nan)}, "not finite"),
    ("pressure_source.index", pressure(index=np.array([0, 5, 120])), "grid point 120; allowed: 0 to 119"),
    ("pressure_source.index", pressure(index=np.array([-1, 5, 6])), "grid point -1"),
    ("pressure_source.index", pressure(index=np.array([7, 5, 7])), "grid point 7 twice"),
    ("pressure_source.index", pressure(index=np.zeros(0, np.int64)), "no point"),
    ("pressure_source.index", pressure(index=np.zeros((1, 3))), "whole numbers"),
    ("pressure_source.mode", pressure(mode="soft"), "'soft'; allowed: dirichlet"),
    ("pressure_source.signal", pressure(signal=np.ones((30, 2))), r"\(30, 2\); allowed: \(steps, 3\) or"),
    ("pressure_source.signal", pressure(signal=np.ones((0, 3))), r"\(0, 3\)"),
    ("pressure_source.signal", pressure(signal=np.full((3, 1), np.nan)), "not finite"),
    ("velocity_source.index", velocity(index=np.array([4, 4, 5])), "twice"),
    ("velocity_source.mode", velocity(mode=1), "1; allowed"),
    ("velocity_source.signals.z", velocity(signals=(None, None, np.ones(9))), r"\(9,\)"),
    ("velocity_source", velocity(signals=(None, None, None)), "no signal"),
    ("velocity_source", velocity(signals=(np.ones((4, 1)), None)), "3 axes"),
    ("transducer.index", transducer(index=np.array([4, 4, 5])), "twice"),
    ("transducer.delay", transducer(delay=np.array([0, 1, 10])), "10; allowed: 0 to 9"),
    ("transducer.delay", transducer(delay=np.array([0, -1, 1])), "-1; allowed"),
    ("transducer.delay", transducer(delay=np.array([0, 1])), r"\(2,\)"),
    ("transducer.delay", transducer(delay=np.array([0.0, 1, 2])), "float64"),
    ("transducer.signal", transducer(signal=np.ones((10, 1))), r"\(10, 1\)"),
    ("transducer.signal", transducer(signal=np.full(10, np.inf)), "not finite"),
    ("transducer.steps", transducer(steps=0), "from 1"),
]


def test_good_ones():
    check(GOOD)
    check(PLANE)
    # No PML, a PML that meets itself, and signals that outlast the run.
    check(replace(GOOD, pml_size=(0, 0, 0), steps=1))
    check(replace(PLANE, pml_size=(3, 2, 99)))
    check(replace(GOOD, absorption="none", alpha_power=1.0))
    check(replace(GOOD, absorption="power_law", alpha_coeff=0.5, alpha_power=1.0, dispersion=False))


@pytest.mark.parametrize(("key", "change", "words"), BAD, ids=[f"{i}-{b[0]}" for i, b in enumerate(BAD)])
def test_refused(key, change, words):
    with pytest.raises(InputError, match=words) as error:
        check(replace(GOOD, **change))
    assert str(error.value).startswith(PYTHON_NAMES[key] + ": ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("key", "change"), [b[:2] for b in BAD], ids=[f"{i}" for i in range(len(BAD))])
def test_refused_in_other_words(key, change):
    with pytest.raises(InputError, match=r"^the thing here: "):
        check(replace(GOOD, **change), {key: "the thing here"})


def test_counting_from_one():
    with pytest.raises(InputError, match="grid point 121; allowed: 1 to 120"):
        check(replace(GOOD, **pressure(index=np.array([120, 1, 2]))), first_index=1)
    with pytest.raises(InputError, match="grid point 0; allowed: 1 to 120"):
        check(replace(GOOD, **pressure(index=np.array([-1, 1, 2]))), first_index=1)
    with pytest.raises(InputError, match="delay: 11; allowed: 1 to 10"):
        check(replace(GOOD, **transducer(delay=np.array([0, 1, 10]))), first_index=1)
    with pytest.raises(InputError, match="start: 21; allowed: 1 to 20"):
        check_recording(GOOD, Recording(("p_final",), None, 20), first_index=1)


CORNERS = np.arange(16).reshape(2, 8)


def box(first, last):
    return Cuboids(np.array(first).reshape(-1, 3), np.array(last).reshape(-1, 3))


BAD_RECORDINGS = [
    ("recording.quantities", Recording((), INDEX), "nothing"),
    ("recording.quantities", Recording(("p_raw", "q"), INDEX), "'q'; allowed: any of p_raw"),
    ("recording.where", Recording(("p_final", "p_max"), None), "missing, and p_max"),
    ("recording.start", Recording(start=20, where=INDEX), "20; allowed: 0 to 19"),
    ("recording.start", Recording(start=-1, where=INDEX), "-1"),
    ("recording.start", Recording(start=1.5, where=INDEX), "1.5"),  # type: ignore[arg-type]
    ("recording.where", Recording(where=np.array([120])), "grid point 120"),
    ("recording.where", Recording(where=np.zeros(0, np.int64)), "no point"),
    ("recording.where", Recording(where=box([0, 0, 0], [6, 1, 1])), "0 to 6 in x"),
    ("recording.where", Recording(where=box([0, 2, 0], [1, 1, 1])), "2 to 1 in y"),
    ("recording.where", Recording(where=box([0, 0, -1], [1, 1, 1])), "-1 to 1 in z"),
    ("recording.where", Recording(where=box([], [])), "boxes"),
    ("recording.where", Recording(where=Interpolation(CORNERS[:, :4], CORNERS[:, :4])), r"\(points, 8\)"),
    ("recording.where", Recording(where=Interpolation(CORNERS, CORNERS[:1])), "weights"),
    ("recording.where", Recording(where=Interpolation(CORNERS + 119, CORNERS)), "grid point 134"),
    ("recording.where", Recording(where=Interpolation(CORNERS, CORNERS * np.nan)), "not finite"),
]


def test_good_recordings():
    for where in (INDEX, np.array([5, 5, 2]), Cuboids(np.zeros((1, 3), int), np.array([[5, 4, 3]]))):
        check_recording(GOOD, Recording(tuple(QUANTITIES), where, 19))
    check_recording(GOOD, Recording(("p_raw",), Interpolation(CORNERS, np.full((2, 8), 0.125))))
    check_recording(GOOD, Recording(("p_max_all", "u_final")))


@pytest.mark.parametrize(("key", "recording", "words"), BAD_RECORDINGS, ids=range(len(BAD_RECORDINGS)))
def test_refused_recording(key, recording, words):
    with pytest.raises(InputError, match=words) as error:
        check_recording(GOOD, recording)
    assert str(error.value).startswith(PYTHON_NAMES[key] + ": ")
