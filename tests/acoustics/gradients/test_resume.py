"""Gradients from few states, and after interruptions: the bits of one that was left alone."""

import os
import signal

import numpy as np
import pytest
from emulated_device import opened
from gradient_cases import STEPS
from test_gradient import gradient_of
from test_transpose import GRIDS, made

from wavefabric.acoustics.gradients import run as gradient_run
from wavefabric.base.errors import InputError
from wavefabric.base.system.progress import Progress
from wavefabric.runtime.lifecycle import reversal
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints
from wavefabric.runtime.lifecycle.reversal import advances

pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")


def of(dimensions, names=None, **options):
    case = made(dimensions, "nonlinear power law", "additive")
    return gradient_of(case, names or tuple(case.values), **options)


def bits(gradient):
    every = {**gradient, "value": gradient.value, **gradient.results}
    return {name: np.asarray(value).tobytes() for name, value in every.items()}


@pytest.mark.parametrize("dimensions", GRIDS)
@pytest.mark.parametrize("states", [1, 7, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 10**6))])
@pytest.mark.parametrize(
    "fits",
    [(1, 0, 3), *(pytest.param(f, marks=pytest.mark.slow) for f in ((99, 0, 0), (0, 2, 9), (0, 0, 0)))],
)
def test_any_states_give_the_same_bits(dimensions, states, fits, tmp_path, monkeypatch):
    wanted = bits(of(dimensions))
    monkeypatch.setattr(reversal, "_capacities", lambda *_: fits)
    gradient = of(dimensions, states=states, scratch=tmp_path)
    assert bits(gradient) == wanted
    *tiers, scratch = gradient.states
    assert (tiers[0], scratch) == (min(states, STEPS - 1, fits[0]), tmp_path)
    assert np.all(np.sign(fits[1:]) >= np.sign(tiers[1:]))
    assert gradient.steps_again + STEPS == advances(STEPS, sum(tiers) + 1)
    assert list(tmp_path.iterdir()) == []


def test_two_threads():
    device = opened("cpu 2")
    assert bits(of("3-D", device=device, states=9)) == bits(of("3-D"))


class CtrlC(Progress):
    """Is pressed when so many steps of the forward run, or ``back``, are done."""

    def __init__(self, back, at):
        self.wanted, self.at = back, at

    def start(self, total_steps, label):
        self.back = label.startswith("adjoint")

    def update(self, done, message=""):
        if (self.back, done) == (self.wanted, self.at):
            os.kill(os.getpid(), signal.SIGINT)


def interrupted(dimensions, back, at, **options):
    with pytest.raises(KeyboardInterrupt):
        of(dimensions, progress=CtrlC(back, at), **options)


@pytest.mark.parametrize("dimensions", GRIDS)
@pytest.mark.parametrize(
    ("states", "stops"),
    [
        pytest.param(1, (1, 10, 30, 12), marks=pytest.mark.slow),
        (4, (5, 14)),
        pytest.param(None, (1, 12), marks=pytest.mark.slow),
    ],
)
def test_interrupted_and_resumed(dimensions, states, stops, tmp_path, monkeypatch):
    """In the forward run, in the steps back, and in steps that are taken again."""
    monkeypatch.setattr(gradient_run, "_STATUS_STEPS", 1)
    wanted, options = bits(of(dimensions)), dict(states=states, checkpoint=tmp_path / "run")
    for back, at in [(False, 1), (False, 9), *((True, stop) for stop in stops)]:
        interrupted(dimensions, back, at, **options)
        assert (tmp_path / ("run.adjoint" if back else "run")).exists()
    kept = (tmp_path / "run.adjoint").read_bytes()
    for other in (dict(names=("p",)), dict(precision="single")):
        with pytest.raises(InputError, match="another run"):
            of(dimensions, **options, **other)
    with pytest.raises(InputError, match=r"objective: is another one.*run\.adjoint"):
        of(dimensions, function=lambda results: (0.0, {}), **options)
    assert (tmp_path / "run.adjoint").read_bytes() == kept
    assert bits(of(dimensions, **options)) == wanted
    assert list(tmp_path.iterdir()) == []


def test_started_anew(tmp_path, monkeypatch):
    """With a checkpoint of each step, forward and back, after one that is not to be resumed."""
    monkeypatch.setattr(gradient_run, "_STATUS_STEPS", 1)
    interrupted("2-D", True, 5, checkpoint=tmp_path / "run")
    again = of("2-D", states=9, checkpoint=Checkpoints(tmp_path / "run", interval=0.0, resume=False))
    assert bits(again) == bits(of("2-D"))
    assert list(tmp_path.iterdir()) == []
