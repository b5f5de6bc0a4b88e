"""A step against half of it, and the step that a penalty asks for."""

import math

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.optics.link import run as links
from wavefabric.optics.link.run import run_link
from wavefabric.optics.link.step_choice import choose_step, verify_step
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.run_file.tables import SolverTable
from wavefabric.runtime.exchange import solo

LINK = {
    "fibre": {"preset": "single-mode", "attenuation": "0.2 dB/km"},
    "link": {"length": "80 km", "spans": 2},
    "signal": {
        "symbol_rate": "32 GBaud",
        "symbols": 256,
        "samples_per_symbol": 16,
        "launch_power": "3 dBm",
        "channels": 5,
        "spacing": "50 GHz",
        "centre_frequency": "193.4 THz",
    },
    "receiver": {"osnr": "20 dB", "at": "end"},
    "output": {"figures": False},
}


def settings(**solver):
    return RunFile.model_validate(LINK | {"solver": solver})


def simulated(run, cpu, path):
    run_link(run, path, comm=solo(cpu), warn=lambda _: None, force=True)
    return read_result(path)


def test_what_half_a_step_changes(cpu, tmp_path):
    """Against the whole link, simulated at both steps with noise that is the same in both."""
    check = verify_step(settings(step="2 km", integrator="strang"), solo(cpu))
    assert check.distortion.shape == (1, 5)
    assert (check.distortion > check.distortion_half).all()
    q = []
    for step in ("2 km", "1 km"):
        result = simulated(settings(step=step, integrator="strang"), cpu, tmp_path / "out.h5")
        q.append(result["received/span_2/q_squared_db"])
    assert 0.6 < check.change_db / abs(q[0] - q[1]).mean() < 1.7
    assert "2 km against 1 km" in check.text


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.1, 0.01])
def test_the_step_of_a_penalty(cpu, tmp_path, penalty):
    """Against a fine step: the penalty is kept, and twice the step would not be far from it."""
    run = choose_step(settings(step=f"auto:{penalty} dB", integrator="strang"), solo(cpu))
    step = run.solver.step
    assert run.solver.step_penalty is None
    assert 80e3 / step == pytest.approx(round(80e3 / step))
    q = {}
    for each in (step, 4 * step, 100.0):
        result = simulated(settings(step=each, integrator="strang"), cpu, tmp_path / "out.h5")
        q[each] = result["received/span_2/q_squared_db"]
    assert abs(q[step] - q[100.0]).max() < 1.5 * penalty
    assert abs(q[4 * step] - q[100.0]).max() > penalty


@pytest.mark.slow
def test_a_run_with_an_automatic_step(cpu, tmp_path):
    run = settings(step="auto:0.1 dB")
    result = simulated(run, cpu, tmp_path / "out.h5")
    step = result.attrs("solver")["step"]
    assert step == pytest.approx(choose_step(run, solo(cpu)).solver.step)
    assert result.attrs("solver")["steps"] == math.ceil(2 * 80e3 / step - 1e-9)
    assert np.isfinite(result["received/span_2/q_squared_db"]).all()


def test_bad_steps():
    assert SolverTable.model_validate({"step": "auto"}, context={"text": True}).step_penalty == 0.01
    for text in ("auto:", "auto:1", "auto:0 dB", "auto:-1 dB", "automatic", "auto:1 m"):
        with pytest.raises(Exception, match="step"):
            SolverTable.model_validate({"step": text}, context={"text": True})
    with pytest.raises(InputError, match="no fixed step"):
        verify_step(settings(max_phase=0.1), solo())


def test_an_output_that_exists_is_refused_before_any_trial(cpu, tmp_path, monkeypatch):
    monkeypatch.setattr(links, "choose_step", lambda *_: pytest.fail("a trial was run"))
    (tmp_path / "out.h5").touch()
    with pytest.raises(InputError, match=r"out\.h5 exists"):
        run_link(settings(step="auto"), tmp_path / "out.h5", comm=solo(cpu))
