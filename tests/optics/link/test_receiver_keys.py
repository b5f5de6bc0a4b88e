"""Every key of [receiver] reaches theory and trial steps, or is named here as having no effect on them."""

import dataclasses

import numpy as np
import pytest

from wavefabric.fabric.planner.plan_runs import file_problem
from wavefabric.optics.link.build import build_fibre
from wavefabric.optics.link.expected import expected_of
from wavefabric.optics.link.step_choice import verify_step
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.run_file.tables import ReceiverTable
from wavefabric.runtime.exchange import solo

SINGLE = {"fibre": {"preset": "single-mode"}, "link": {"length": "80 km", "spans": 2}}
GROUPS = {"fibre": {"preset": "graded-index-62.5", "groups": 2}, "link": {"length": "80 km"}}
TABLES = {
    "signal": {
        "symbol_rate": "32 GBaud",
        "symbols": 512,
        "samples_per_symbol": 4,
        "launch_power": "8 dBm",
        "channels": 1,
        "centre_frequency": "193.4 THz",
    },
    "solver": {"step": "20 km", "integrator": "strang"},
}
IDEAL = {"osnr": "12 dB", "phase": "blind-search", "phase_window": 16}
MIMO = {"equaliser": "mimo", "taps": 4, "training": 256, "osnr": "12 dB"}
#: Of each key, what is set in place of what.
CHANGES = {
    "osnr": (IDEAL, "9 dB"),
    "noise_seed": (IDEAL, 7),
    "linewidth": (IDEAL, "5 MHz"),
    "frequency_offset": (IDEAL, "3 GHz"),
    "phase": (IDEAL, "none"),
    "phase_window": (IDEAL, 4),
    "equaliser": (IDEAL, "mimo"),
    "joint": (MIMO, "all"),
    "taps": (MIMO, 8),
    "training": (MIMO, 128),
    "decision_directed": (MIMO, False),
    "memory": (MIMO, 64),
    "back_to_back": (IDEAL, False),
    "at": (IDEAL, [2]),
    "back_propagation": (IDEAL, {"step": "10 km"}),
    "constellations": (IDEAL, "all"),
}
#: One draw of the noise; the symbols that a result file keeps; and theory says what it leaves out.
NOT_IN_THEORY = {"frequency_offset", "noise_seed", "constellations", "back_propagation"}
#: Trial steps ask for a change of Q² behind the last span by the fibre's steps.
NOT_IN_TRIALS = {"frequency_offset", "noise_seed", "constellations", "back_to_back", "at"}


def runs(key):
    base, value = CHANGES[key]
    changed = base | {key: value} | ({"taps": 4, "training": 256} if key == "equaliser" else {})
    link = TABLES | (GROUPS if base is MIMO else SINGLE)
    return [RunFile.model_validate(link | {"receiver": receiver}) for receiver in (base, changed)]


def test_all_keys_are_tried():
    assert set(CHANGES) == set(ReceiverTable.model_fields)


@pytest.mark.parametrize("key", CHANGES)
def test_theory_takes_the_key(key):
    said = []
    before, after = (
        {name: one.q_squared_db.tolist() for name, one in expected_of(run, warn=said.append).items()}
        for run in runs(key)
    )
    assert (before == after) == (key in NOT_IN_THEORY)
    assert said == ["receiver.back_propagation: theory leaves it out; only a run has it"] * (
        key == "back_propagation"
    )


@pytest.mark.parametrize("key", CHANGES)
def test_trial_steps_take_the_key(key, cpu):
    before, after = (verify_step(run, solo(cpu)).change_db for run in runs(key))
    assert np.isfinite([before, after]).all()
    assert (before == after) == (key in NOT_IN_TRIALS)


def test_theory_of_a_linear_fibre_has_no_interference():
    run = runs("osnr")[0]
    fibre = dataclasses.replace(build_fibre(run), gamma=0.0)
    assert all((one.nli == 0).all() for one in expected_of(run, fibre).values())


def test_a_plan_counts_the_steps_of_a_run(tmp_path):
    """As many in each section: 3 sections of 26.7 km take two steps of 20 km each."""
    text = """
    [fibre]
    preset = "single-mode"
    [fibre.random_coupling]
    correlation_length = "30 km"
    pmd = "0.1 ps/sqrt(km)"
    within = "polarisations"
    [link]
    length = "80 km"
    spans = 2
    [signal]
    symbol_rate = "32 GBaud"
    symbols = 64
    samples_per_symbol = 4
    launch_power = "0 dBm"
    channels = 1
    centre_frequency = "193.4 THz"
    [solver]
    step = "20 km"
    """
    (tmp_path / "run.toml").write_text(text)
    _, steps = file_problem(tmp_path / "run.toml")
    assert steps == 2 * 3 * 2
