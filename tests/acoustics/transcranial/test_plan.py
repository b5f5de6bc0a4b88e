"""From a CT to a dose: geometry, phases by reciprocity, the brain, what is kept of a run that was stopped."""

import os
import signal

import numpy as np
import pytest

from wavefabric.acoustics import CT, Medium, PreparedSimulation, Sonication, plan_sonication, synthetic_head
from wavefabric.acoustics.transcranial import plan as module
from wavefabric.acoustics.transcranial.page import draw_page
from wavefabric.acoustics.transcranial.sonication import WATER
from wavefabric.base.errors import InputError
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

HEAD = {"semi_axes": (0.03, 0.034, 0.032), "thickness": (3e-3, 1.5e-3, 2e-3, 1.5e-3), "variation": 0.5}
SETTING = {
    "position": (2e-3, -42e-3, 6e-3),
    "target": (0, -10e-3, 3e-3),
    "frequency": "180 kHz",
    "diameter": "32 mm",
    "behind": "12 mm",
    "points_per_wavelength": 3.5,
    "duty_cycle": 0.5,
    "on": 2.0,
    "off": 1.0,
}
CPU = {"device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def head():
    return synthetic_head("1.5 mm", **HEAD)


@pytest.fixture(scope="module")
def planned(head):
    return plan_sonication(head, Sonication(**SETTING, elements=12), **CPU)


def test_the_grid_lies_along_the_beam():
    it = Sonication(**SETTING)
    target = [it.grid.coordinates[i][at] for i, at in enumerate(it.focus)]
    np.testing.assert_allclose(it.frame.to_world(target), SETTING["target"], atol=1e-12)
    np.testing.assert_allclose(it.frame.to_world((it.apex, 0, 0)), SETTING["position"], atol=1e-12)
    assert it.grid.spacing[0] == pytest.approx(WATER / 180e3 / 3.5)
    # Behind the target and around the bowl there is as much space as was asked for.
    assert it.grid.coordinates[0][-1] - target[0] >= 12e-3
    assert it.grid.coordinates[0][0] < it.apex - 2e-3
    assert it.transducer.mask.any()


@pytest.mark.slow
def test_in_water_the_phases_by_time_reversal_are_those_of_the_distances():
    soft = CT.of(np.full((60, 60, 60), 40.0), 1.5e-3)
    it = Sonication(**SETTING, elements=9, radius="40 mm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "media_from_hounsfield", lambda h, **_: Medium(WATER, 1000.0, 0.001, 2.0))
        plan = plan_sonication(soft, it, **CPU)
    turn = np.exp(1j * (plan.phases - it.geometric_phases))
    assert np.abs(np.angle(turn / turn.mean())).max() < 0.15  # elements are not points
    assert plan.gain == pytest.approx(1, abs=0.005)


@pytest.mark.slow
def test_time_reversal_focuses_where_bone_has_spoilt_it():
    """The gain that reciprocity foretells is the ratio of two simulated fields at the target."""
    values = np.full((60, 60, 60), 40.0)
    values[30:, 16:23] = 1200.0  # before half of the elements
    it = {**SETTING, "position": (0, -36e-3, 0), "target": (0, 0, 0), "elements": 8}
    bone = CT.of(values, 1.5e-3)
    plan, without = (
        plan_sonication(bone, Sonication(**it, correction=each), **CPU) for each in ("time_reversal", "none")
    )
    at = plan.sonication.focus
    assert plan.gain > 1.3
    assert plan.amplitude[at] / without.amplitude[at] == pytest.approx(plan.gain, rel=0.02)
    assert without.gain == 1


@pytest.mark.slow
def test_the_brain_is_what_the_skull_encloses(planned):
    brain, hounsfield = planned.brain, planned.hounsfield
    assert brain[planned.sonication.focus]
    assert (hounsfield[brain] < 300).all()
    # The scalp, which is as soft, is not part of it.
    x = planned.sonication.grid.coordinates[0]
    first_bone = np.argmax((hounsfield >= 300).any(axis=(1, 2)))
    assert not brain[: first_bone + 1].any()
    assert brain.sum() * np.prod(planned.sonication.grid.spacing) > 5e-6
    assert x[first_bone] < x[planned.sonication.focus[0]]


@pytest.mark.slow
def test_figures_and_files(planned, tmp_path):
    import h5py

    from wavefabric.base.results.file import ResultWriter

    figures = {name: value for name, (value, _) in planned.figures().items()}
    assert figures["peak pressure in the brain"] == pytest.approx(
        planned.amplitude[planned.brain].max() / 1e6, rel=0.1
    )
    assert 37 < figures["highest temperature in the brain"] < 60
    # All is linear: bone absorbs most.
    assert figures["highest temperature in bone"] > figures["highest temperature in the brain"]
    path = planned.write(ResultWriter(tmp_path / "plan.h5"))
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["fields/p_amp"], planned.amplitude)
        assert file["fields/p_amp"].attrs["units"] == "Pa"
        assert len(file["elements/phases"]) == 12
        assert set(file["figures"]) == set(planned.figures())
    draw_page(planned, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 50_000


@pytest.mark.slow
def test_a_plan_that_was_stopped_goes_on(head, planned, tmp_path, monkeypatch):
    real, runs = PreparedSimulation.simulate, []

    def simulate_until(*arguments, **options):
        runs.append(options)
        if len(runs) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments, **options)

    monkeypatch.setattr(PreparedSimulation, "simulate", simulate_until)
    options = CPU | {"checkpoint": Checkpoints(tmp_path / "plan.checkpoint")}
    it = Sonication(**SETTING, elements=12)
    with pytest.raises(KeyboardInterrupt):
        plan_sonication(head, it, **options)
    result = plan_sonication(head, it, **options)
    assert len(runs) == 3  # the phases were kept
    np.testing.assert_array_equal(result.amplitude, planned.amplitude)
    np.testing.assert_array_equal(result.heated["dose"], planned.heated["dose"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"target": (2e-3, -42e-3, 6e-3)}, r"target: .*1 mm away from its position"),
        ({"target": (0, -27e-3, 3e-3), "radius": "40 mm"}, r"target: .*at \d+ HU.*soft tissue"),
        ({"frequency": "-1 Hz"}, "frequency: "),
        ({"elements": 0}, "elements: 0; allowed: from 1"),
        ({"correction": "magic"}, "correction: .*time_reversal, none"),
        ({"duty_cycle": 2}, "duty_cycle: 2.0; allowed: from 0 to 1"),
        ({"radius": "10 mm"}, "diameter: 0.032 m; allowed: up to 0.02 m"),
    ],
)
def test_bad_input_is_one_line(head, change, line):
    with pytest.raises(InputError, match=line):
        plan_sonication(head, Sonication(**(SETTING | change)), **CPU)
