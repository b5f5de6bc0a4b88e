"""Checks of the fields of a GPU are read while it takes the next steps, and find what those of a CPU find."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from emulated_device import EmulatedDevice
from random_problems import points, problem

from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.solver.step import Step
from wavefabric.base.errors import FieldLost
from wavefabric.base.system.progress import Progress as NoProgress
from wavefabric.runtime.device import get_device
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

SHAPE, STEPS = (12, 8, 1), 60
RECORDING = Recording(("p_raw",), points(SHAPE, 4))


class Progress(NoProgress):
    """Records the steps that are known to be done."""

    def __init__(self):
        self.updates = []

    def update(self, done, message=""):
        self.updates.append(done)


def unstable(steps=STEPS):
    return replace(problem(SHAPE, steps=steps), dt=4e-8, reference_speed=10.0)


def simulated(device, inputs, **how):
    run(inputs, RECORDING, sink := MemorySink(), RunSettings(device=device, precision="double", **how))
    return sink.arrays


@pytest.fixture
def emulated():
    return EmulatedDevice()


@pytest.fixture
def order(emulated, monkeypatch):
    """Steps that were taken, as numbers, and results of looks that were read, as "look"."""
    events, take, export = [], Step.take, emulated.export

    def taken(self, number, most=1):
        count = take(self, number, most)
        events.append(number + count)
        return count

    def exported(array):
        fetch = export(array)
        # The energy has three columns: energy, largest and smallest pressure.
        return lambda: (events.append("look") if array.shape[1:] == (3,) else None, fetch())[1]

    monkeypatch.setattr(Step, "take", taken)
    monkeypatch.setattr(emulated, "export", exported)
    return events


@pytest.mark.slow
def test_a_look_is_read_after_the_next_steps(emulated, order):
    progress = Progress()
    result = simulated(emulated, problem(SHAPE, steps=STEPS), progress=progress)
    looks = [at for at, event in enumerate(order) if event == "look"]
    assert len(looks) > 5
    assert all(later - earlier > 1 for earlier, later in pairwise(looks[:-1]))  # steps stand between two
    assert order[-3:] == [STEPS, "look", "look"]  # the last is read at once
    assert progress.updates == sorted(progress.updates)
    assert progress.updates[-1] == STEPS
    assert order[looks[0] - 1] > progress.updates[1]
    expected = simulated(get_device("cpu", 1), problem(SHAPE, steps=STEPS))
    np.testing.assert_allclose(result["p"], expected["p"], rtol=0, atol=1e-11 * abs(expected["p"]).max())


@pytest.mark.slow
def test_a_lost_field_is_found_at_the_same_step(emulated):
    messages = []
    for device in (emulated, get_device("cpu", 1)):
        with pytest.raises(FieldLost, match=r"after time step \d+ of 60") as caught:
            simulated(device, unstable())
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.slow
def test_a_checkpoint_has_no_field_of_a_failed_check(emulated, tmp_path):
    """The look before a checkpoint is read first: what is saved has passed it."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(FieldLost, match="after time step"):
        simulated(emulated, unstable(), checkpoint=Checkpoints(path, every=STEPS - 1))
    assert not path.exists()
