"""Every attribute and option that `simulate_kwave` reads, with values that it must refuse in one line."""

import re
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

from wavefabric.acoustics import from_kwave, simulate_kwave
from wavefabric.base.errors import InputError

SHAPE = (8, 6)
OPTIONS = dict(
    pml_size=1, pml_alpha=2.0, pml_inside=True, smooth_p0=True, signal_order="C", device="cpu", threads=1
)
#: Nothing takes any of these.
WRONG = [
    object(), len, {}, {1: 2}, set(), slice(1), b"x", 1 + 2j, [[1, 2], [3]], [None, 1], np.zeros(0),
    np.ones((3, 3, 3, 3)), np.full(SHAPE, "a"), np.full(SHAPE, 1j), np.array([1, None], object),
    np.datetime64("2020"), "", "nothing",
]  # fmt: skip
#: Some of these are wrong, depending on what they are for.
ODD = [
    None, True, -1, 0, 1.5, 1e12, 1e30, 10**400, float("nan"), float("inf"), -1e300, "auto", "x", [1, 2, 3],
    [8.5, 6], [1e9, 1e9], [2**40, 2**40], [10**30, 6], ["p", 3], range(3), np.ones(2), np.ones((2, 24)),
    np.ones((6, 8)), np.full(SHAPE, np.nan), np.full(SHAPE, -1.0), np.array("x"), np.ma.masked,
]  # fmt: skip


def parts():
    mask = np.zeros(SHAPE)
    mask[2, 3] = 1
    return {
        "kgrid": SimpleNamespace(
            N=np.array(SHAPE), spacing=np.full(2, 1e-4), dt=2e-8, Nt=4, nonuniform=False
        ),
        "medium": SimpleNamespace(
            sound_speed=1500.0, sound_speed_ref=None, density=1000.0, alpha_coeff=0.5, alpha_power=1.5,
            alpha_mode=None, BonA=6.0,
        ),
        "source": SimpleNamespace(
            p0=None, p=np.ones((1, 4)), p_mask=mask, p_mode=None,
            ux=np.ones((1, 4)), uy=None, u_mask=mask, u_mode=None,
        ),
        "sensor": SimpleNamespace(mask=np.ones(SHAPE), record=["p"], record_start_index=1),
    }  # fmt: skip


ATTRIBUTES = [f"{part}.{name}" for part, values in parts().items() for name in vars(values)]
RUN = ["precision", "progress", "output", "checkpoint", "force", "check_stability", "comm", "decomposition"]


def call(key, value):
    inputs, options, (part, _, name) = parts(), dict(OPTIONS), key.partition(".")
    if name:
        setattr(inputs[part], name, value)
    elif part in inputs:
        inputs[part] = value
    else:
        options[part] = value
    return simulate_kwave(*inputs.values(), **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", [*ATTRIBUTES, "kgrid", "medium", "source", *OPTIONS, *RUN])
def test_wrong_values_are_refused_in_one_line(key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = key in ("output", "checkpoint")
    for value in WRONG:
        if words and isinstance(value, str):
            continue
        with pytest.raises(InputError) as refused:
            call(key, value)
        line = str(refused.value)
        assert "\n" not in line, line
        assert re.match(r"[\w.\[\]]+: .*; allowed: ", line), line
    for value in ODD:
        if words and isinstance(value, str):
            continue
        with suppress(InputError):
            call(key, value)
    assert not any(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "key", ["sound_speed", "density", "alpha_coeff", "BonA", "p0", "p_mask", "u_mask", "mask"]
)
def test_arrays_have_the_shape_of_the_grid(key):
    """Transposed they have as many values, and the field was wrong; k-wave-python takes flattened ones."""
    part = {"p": "source", "u": "source", "m": "sensor"}.get(key[0], "medium")
    values = np.random.default_rng(2).uniform(1, 2, SHAPE) if "mask" not in key else parts()["source"].p_mask
    values = 1500 * values if key == "sound_speed" else values
    wanted = call(f"{part}.{key}", values)["p"]
    for same in (values.reshape(-1), values.reshape(-1, 1), values[..., None], values.tolist()):
        np.testing.assert_array_equal(call(f"{part}.{key}", same)["p"], wanted)
    for other in (values.T, values.reshape(3, 16), values[:7], values.reshape(-1)[:-1]):
        with pytest.raises(InputError, match=rf"^{part}.{key}: .*(shape|of) .*; allowed: .*\(8, 6\)"):
            call(f"{part}.{key}", other)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("kgrid.Nt", 1.5, "kgrid.Nt: 1.5; allowed: a whole number from 1"),
        ("kgrid.N", [32.5, 24], "kgrid.N: [32.5, 24]; allowed: 1 to 3 whole numbers from 2"),
        ("sensor.mask", "x", 'sensor.mask: "x"; allowed: real numbers'),
        ("pml_inside", "no", 'pml_inside: "no"; allowed: True or False'),
    ],
)
def test_lines(key, value, line):
    with pytest.raises(InputError, match=re.escape(line)):
        call(key, value)


@pytest.mark.parametrize("name", ["N", "spacing", "dt", "Nt"])
def test_what_is_missing_is_named(name):
    inputs = parts()
    delattr(inputs["kgrid"], name)
    with pytest.raises(InputError, match=rf"^kgrid.{name}: .*; allowed: that of a kWaveGrid"):
        from_kwave(*inputs.values())


def test_more_points_than_the_memory_holds_are_refused_in_one_line():
    inputs = parts()
    inputs["kgrid"].N = np.array([10**6, 10**7])
    inputs["sensor"].mask = inputs["medium"].BonA = None
    inputs["source"] = SimpleNamespace(p0=None)
    with pytest.raises(InputError, match=r"^kgrid\.N: .*; allowed: as many points as the memory holds$"):
        simulate_kwave(*inputs.values(), **OPTIONS)
