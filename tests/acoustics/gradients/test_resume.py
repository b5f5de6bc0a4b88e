"""Gradients from few states, and after interruptions: the bits of one that was left alone."""

import os
import signal
from functools import cache

import numpy as np
import pytest
from gradient_cases import STEPS
from test_gradient import gradient_of
from test_transpose import made

from wavefabric.acoustics.gradients import run as gradient_run
from wavefabric.acoustics.gradients.run import AdjointRun
from wavefabric.device import get_device
from wavefabric.errors import InputError
from wavefabric.lifecycle.checkpoint.when import Checkpoints
from wavefabric.lifecycle.reversal import store
from wavefabric.lifecycle.reversal.binomial import advances
from wavefabric.system.progress import Progress

pytestmark = pytest.mark.filterwarnings(r"ignore:(source|sensor|medium)\.")


def of(dimensions, names=None, **options):
    case = made(dimensions, "nonlinear power law", "additive")
    return gradient_of(case, names or tuple(case.values), **options)


def bits(gradient):
    every = {**gradient, "value": gradient.value, **gradient.results}
    return {name: np.asarray(value).tobytes() for name, value in every.items()}


@cache
def whole(dimensions):
    return bits(of(dimensions))


@pytest.mark.parametrize("dimensions", ["2-D", "3-D"])
@pytest.mark.parametrize("states", [1, 2, 3, 7, 10**6])
def test_any_number_of_states_gives_the_same_bits(dimensions, states):
    gradient = of(dimensions, states=states)
    assert bits(gradient) == whole(dimensions)
    assert sum(gradient.states[:3]) == min(states, STEPS - 1)
    assert gradient.steps_again + STEPS == advances(STEPS, min(states, STEPS - 1) + 1)


@pytest.mark.parametrize(
    ("fits", "tiers"), [((1, 0, 3), (1, 0, 2)), ((0, 2, 9), (0, 2, 3)), ((0, 0, 0), (0, 0, 0))]
)
def test_states_in_host_memory_and_on_disk(fits, tiers, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_fits", lambda *_: fits)
    gradient = of("3-D", scratch=tmp_path)
    assert (gradient.states[:3], gradient.states.scratch) == (tiers, tmp_path)
    assert gradient.steps_again + STEPS == advances(STEPS, sum(tiers) + 1)
    assert bits(gradient) == whole("3-D")
    assert list(tmp_path.iterdir()) == []


def test_two_threads():
    try:
        device = get_device("cpu", threads=2)
    except ValueError:
        pytest.skip("this machine has one core")
    assert bits(of("3-D", device=device, states=9)) == whole("3-D")


# --- Interruptions -----------------------------------------------------------------------------------------


class CtrlC(Progress):
    """Presses Ctrl-C when so many steps of the forward run, or back, are done."""

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


@pytest.fixture
def saved(monkeypatch):
    """Step, and whether half of it is taken, of each checkpoint of the steps back."""
    monkeypatch.setattr(gradient_run, "_STATUS_STEPS", 1)
    states, save = [], AdjointRun._save
    monkeypatch.setattr(
        AdjointRun, "_save", lambda run, last: (states.append((run._number, run._half)), save(run, last))
    )
    return states


@pytest.mark.parametrize("dimensions", ["2-D", "3-D"])
@pytest.mark.parametrize(
    ("states", "ats", "steps"),
    [
        (1, (1, 10, 30, 12), [(21, True), (19, True), (13, False), (9, True)]),
        (4, (5, 14), [(21, True), (13, False)]),
        (None, (1, 12), [(21, True), (9, False)]),
    ],
)
def test_interrupted_and_resumed(dimensions, states, ats, steps, tmp_path, saved):
    """In the forward run, in the steps back, and in steps that are taken again."""
    options = dict(states=states, checkpoint=tmp_path / "run")
    for at in (1, 9, STEPS - 1):
        interrupted(dimensions, False, at, **options)
        assert (tmp_path / "run").exists()
    for at in ats:
        interrupted(dimensions, True, at, **options)
        assert (tmp_path / "run.adjoint").exists()
        assert not (tmp_path / "run").exists()
    gradient = of(dimensions, function=None, **options)  # which is not called again
    assert bits(gradient) == whole(dimensions)
    assert saved == [(21, False), *steps]
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_on_the_way_change_nothing(tmp_path, saved):
    """One of each step, forward and back."""
    gradient = of("2-D", states=3, checkpoint=Checkpoints(tmp_path / "run", interval=0.0))
    assert bits(gradient) == whole("2-D")
    assert len(saved) == 1 + STEPS + gradient.steps_again
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_objective(tmp_path):
    def press(results):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        of("2-D", function=press, checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    assert bits(of("2-D", checkpoint=tmp_path / "run")) == whole("2-D")


@pytest.mark.parametrize("other", [dict(names=("p",)), dict(precision="single"), dict(dimensions="3-D")])
def test_a_checkpoint_of_another_gradient_is_refused(other, tmp_path, saved):
    path = tmp_path / "run"
    interrupted("2-D", True, 5, checkpoint=path)
    (kept,) = tmp_path.iterdir()
    before = kept.read_bytes()
    with pytest.raises(InputError, match="another run") as caught:
        of(**(dict(dimensions="2-D", checkpoint=path, function=None) | other))
    assert "\n" not in str(caught.value)
    assert kept.read_bytes() == before
    anew = of("2-D", checkpoint=Checkpoints(path, resume=False))
    assert bits(anew) == whole("2-D")
    assert list(tmp_path.iterdir()) == []
