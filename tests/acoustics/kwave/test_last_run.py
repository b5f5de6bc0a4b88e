"""Scripts that loop over sources: the stages of the last run serve the next one; answers are the same."""

from types import SimpleNamespace

import numpy as np
import pytest

from wavefabric.acoustics import choose_stages, simulate_kwave
from wavefabric.acoustics.kwave import objects
from wavefabric.base.errors import InputError

SHAPE = (18, 16)


@pytest.fixture
def count(monkeypatch):
    """How often stages were made."""
    make, counted = choose_stages.make_stages, []
    monkeypatch.setattr(choose_stages, "make_stages", lambda *a, **b: counted.append(1) or make(*a, **b))
    monkeypatch.setattr(objects, "_LAST", objects._LastRun())
    return counted


def things(at, speed):
    p0 = np.zeros(SHAPE)
    p0[at] = 1e4
    kgrid = SimpleNamespace(N=np.array(SHAPE), spacing=np.full(2, 1e-4), dt=1e-8, Nt=20 + at[0])
    sensor = SimpleNamespace(mask=p0 > 0, record=["p", "p_final"], record_start_index=1)
    return kgrid, SimpleNamespace(sound_speed=speed, density=1000.0), SimpleNamespace(p0=p0), sensor


def run(at, speed, **options):
    how = {"device": "cpu", "threads": 1, "pml_size": 2, "pml_inside": True, "smooth_p0": False}
    return simulate_kwave(*things(at, speed), **how | options)


def test_sources_one_after_another(count, monkeypatch):
    speed = np.random.default_rng(1).uniform(1500, 1600, SHAPE)
    kept = [run((5, x), speed) for x in (4, 6, 8)]
    assert len(count) == 1
    for x, result in zip((4, 6, 8), kept, strict=True):
        monkeypatch.setattr(objects, "_LAST", objects._LastRun())
        alone = run((5, x), speed)
        assert all((result[name] == alone[name]).all() for name in alone)
    assert len(count) == 4


def test_another_medium_makes_other_stages(count):
    speed = np.asfortranarray(np.random.default_rng(1).uniform(1500, 1600, SHAPE))
    first = run((5, 4), speed.copy("F"))["p_final"]
    speed[:9] *= 1.02
    other = run((5, 4), speed)["p_final"]
    assert (first != other).any()
    # In place: what the last run was given is no longer what it was.
    before = speed.copy("F")
    speed[9:] *= 1.02
    assert (run((5, 4), before)["p_final"] == other).all()
    assert (run((5, 4), before, precision="double")["p_final"] != other).any()
    assert len(count) == 4


def test_a_time_step_that_is_not_stable_is_refused_again(count):
    speed = np.random.default_rng(1).uniform(1500, 1600, SHAPE)
    for _ in range(2):
        kgrid, medium, *others = things((5, 4), speed)
        kgrid.dt, medium.density = 1e-6, speed
        with pytest.raises(InputError, match="not stable"):
            simulate_kwave(kgrid, medium, *others, device="cpu", pml_size=2, pml_inside=True)
    assert not count
