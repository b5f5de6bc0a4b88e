"""What cannot be differentiated is refused in one line, before anything is allocated or written."""

import numpy as np
import pytest

from wavefabric.acoustics import ContinuousWave, Grid, Medium, Sensor, Source, simulate_and_gradient
from wavefabric.acoustics.gradients import gradient as module
from wavefabric.acoustics.solver.adjoint.step import AdjointStep
from wavefabric.base.errors import InputError
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

MASK, BOX = np.eye(12, 10) > 0, np.zeros((3, 3, 5))
TONES = Sensor(MASK, ("p", "p_amp"), frequencies="1 MHz")
BOXES = Sensor.boxes(((1, 1), (3, 3)), ((5, 5), (5, 7)), record="p")
WAVE = Source(p=ContinuousWave("1 MHz", 1.0), p_mask=MASK)
ROUND = Grid((12, 10), 1e-4, pml_size=2, axisymmetric=True)
ARGUMENTS = [
    (dict(record="p"), "record: .*allowed: a sensor"),
    (dict(output="x.h5"), "output: .*allowed: .*Gradient.save"),
    (dict(checkpoint=Checkpoints("x", stop=True)), "checkpoint: .*allowed: .*stop=False"),
    (dict(scratch=3), "scratch: 3; allowed: the name of a file"),
    (dict(states=0), "states: 0; allowed: a whole number from 1"),
    (dict(states="all"), "states: .all.; allowed: a whole number from 1"),
    (dict(objective=None), "objective: null; allowed: a function"),
    (dict(wrt=()), r"wrt: \[\]; allowed: one or more of p0"),
    (dict(wrt=3), "wrt: 3 given; allowed: p0, p, ux"),
    (dict(wrt="speed"), "wrt: .*speed.*allowed: p0, p, ux"),
    (dict(wrt="p0", grid=ROUND), "grid.axisymmetric: .*allowed: False"),
    (dict(wrt="p"), "wrt: .*source.p is not set"),
    (dict(wrt=["sound_speed", "alpha_coeff"]), "wrt: .*medium.alpha_coeff is not set"),
    (dict(wrt="p", source=WAVE), "wrt: .*ContinuousWave; allowed: signals"),
    (dict(sensor=Sensor(MASK, ("p", "p_max"))), "sensor.record: .*p_max.*allowed: p, u, p_final"),
    (dict(sensor=None), "sensor.record: .*p_max_all.*allowed: p, u"),
]
ANSWERS = [
    (1.0, "returns .*allowed: .value, {name: derivative}"),
    ((1.0, [2]), "returns .*allowed: .value, {name: derivative}"),
    ((np.ones(2), {}), "its value is a ndarray; allowed: a number"),
    (("a", {}), "its value is a str; allowed: a number"),
    ((np.nan, {}), "its value is nan; allowed: a finite number"),
    ((1.0, {"q": 1}), "a derivative of .*q.*allowed: p, p_amp, p_phase"),
    ((1.0, {"p_amp": 1.0}), "no list of derivatives of p_amp; allowed: 1"),
    ((1.0, {"p_amp": np.zeros((2, 10))}), "2 derivatives of p_amp; allowed: 1"),
    ((1.0, {"p": np.zeros(10)}), r"the derivative of p has the shape \(10,\); allowed: \(10, 5\), real"),
    ((1.0, {"p": np.zeros((10, 5), complex)}), "the derivative of p has .*allowed: .*real"),
    ((1.0, {"p": np.full((10, 5), np.inf)}), "the derivative of p is not finite"),
    ((1.0, {"p": [[1.0], [1.0, 2.0]]}), "the derivative of p: lists of different lengths"),
]
IN_BOXES = {"no list of": 1.0, "1": [1.0], "3": BOX}
IN_BOXES = [((1.0, {"p": each}), f"{count} derivatives of p; allowed: 2") for count, each in IN_BOXES.items()]
IN_BOXES += [((1.0, {"p": [BOX, BOX]}), "the derivative of p has the shape")]


def refused(folder, match, **changes):
    inputs = dict(grid=Grid((12, 10), 1e-4, pml_size=2), medium=Medium(1500.0, 1000.0))
    inputs |= dict(source=Source(p0=1.0 * MASK, smooth=False), sensor=Sensor(MASK, "p"), objective=print)
    inputs |= dict(device="cpu", steps=5, checkpoint=folder / "saved")
    with pytest.raises(InputError, match=match) as caught:
        simulate_and_gradient(**inputs | changes)
    assert "\n" not in str(caught.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("changes", "match"), ARGUMENTS)
def test_arguments(tmp_path, monkeypatch, changes, match):
    monkeypatch.setattr(module, "Linearization", None)
    refused(tmp_path, match, **changes)


@pytest.mark.parametrize(
    ("sensor", "answer", "match"), [(TONES, *a) for a in ANSWERS] + [(BOXES, *a) for a in IN_BOXES]
)
@pytest.mark.filterwarnings(r"ignore:sensor\.")
def test_answers_of_the_objective(tmp_path, sensor, answer, match):
    refused(tmp_path, "^objective: " + match, objective=lambda results: answer, sensor=sensor)


def test_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(AdjointStep, "nbytes", lambda *_: 1 << 50)
    refused(
        tmp_path, "memory: this run needs 1048576.00 GiB on cpu, .*; use a smaller grid, single precision"
    )
