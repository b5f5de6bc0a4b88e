"""What `wavefabric run` says of a run that is allowed, and less accurate than it seems."""

import json
import math

import pytest

from wavefabric.base.results import read_result
from wavefabric.optics.link.build import build_fibre, build_transmitter
from wavefabric.optics.link.expected import warnings_before
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.optics.run_file.load import RunFile


def settle(text: str, **changes: str) -> str:
    """The run file on one thread, without figures, keys replaced."""
    lines = []
    for line in text.splitlines():
        key = line.partition("=")[0].strip()
        lines.append(f"{key} = {changes.pop(key)}" if key in changes else line)
    lines += ['device = "cpu"', "threads = 1", *(f"{k} = {v}" for k, v in changes.items())]
    return "\n".join([*lines, "", "[output]", "figures = false", ""])


@pytest.mark.slow
def test_a_step_above_resonance_is_said_and_kept(command, run_text, tmp_path):
    (tmp_path / "a.toml").write_text(settle(run_text, groups="1", step='"80 km"'))
    code, out, err = command("run", "a.toml")
    assert code == 0
    # 3 channels 50 GHz apart, 35.2 GHz wide, β2 of group 1: 2π/(|β2|(2πB)²)
    limit = 2 * math.pi / (23.1e-27 * (math.pi * 135.2e9) ** 2)
    words = f"solver.step: 80 km is above the resonance limit of {limit / 1e3:.4g} km (dispersion of LP01"
    (line,) = err.splitlines()
    assert line.startswith(f"wavefabric: warning: {words}")
    assert f"step 80 km: above the resonance limit of {limit / 1e3:.4g} km for the channels" in out
    # The whole width in the same formula: what these channels create beside themselves.
    assert f"above that of {limit / 4:.3g} m for the whole field" in out
    result = read_result(tmp_path / "a.h5")
    assert result.attrs("solver")["resonance_step_m"] == pytest.approx(limit, rel=1e-6)
    assert result["solver/warnings"][0].startswith(words)
    code, out, err = command("run", "a.toml", "--force", "--json")
    assert json.loads(out)["warnings"][0].startswith(words)
    assert words in err


def test_a_step_below_resonance_is_shown_and_not_warned_of(command, run_text, tmp_path):
    (tmp_path / "a.toml").write_text(settle(run_text, groups="1", step='"1 km"'))
    code, out, err = command("run", "a.toml")
    assert (code, err) == (0, "")
    assert "step 1 km: below the resonance limit of 1.508 km for the channels" in out
    assert "above that of 377 m for the whole field" in out
    assert "solver/warnings" not in read_result(tmp_path / "a.h5")


@pytest.mark.slow
def test_steps_that_grow_above_resonance_are_said_after_the_run(command, run_text, tmp_path):
    text = settle(run_text, launch_power='"-30 dBm"').replace('step = "1 km"', 'max_phase = "0.1 rad"')
    (tmp_path / "a.toml").write_text(text)
    code, _, err = command("run", "a.toml")
    assert code == 0
    assert "warning: solver: the last step of 80 km is above the resonance limit" in err


@pytest.mark.parametrize(
    "step",
    [
        'step = "80 km"',
        pytest.param('max_phase = "0.1 rad"', marks=pytest.mark.slow),
        pytest.param('step = "auto"', marks=pytest.mark.slow),
    ],
)
def test_without_kerr_effect_no_four_wave_mixing_is_warned_of(command, run_text, tmp_path, step):
    text = settle(run_text, groups="1").replace('step = "1 km"', step)
    (tmp_path / "a.toml").write_text(text.replace("[fibre]", '[fibre]\nn2 = "0 m^2/W"'))
    code, out, err = command("run", "a.toml")
    assert (code, err) == (0, "")
    assert "resonance" not in out
    assert read_result(tmp_path / "a.h5").attrs("solver")["resonance_step_m"] == math.inf


@pytest.mark.parametrize("gamma", ["1.3 1/W/km", "0 1/W/km"])
def test_raman_scattering_left_out_is_said_with_and_without_kerr_effect(gamma):
    fibre = {"preset": "single-mode", "gamma": gamma}
    signal = {"symbol_rate": "32 GBaud", "symbols": 64, "samples_per_symbol": 256, "launch_power": "10 dBm"}
    signal |= {"first_frequency": "191.4 THz", "last_frequency": "195.4 THz", "spacing": "500 GHz"}
    tables = {"fibre": fibre, "link": {"length": "80 km"}, "signal": signal, "solver": {"step": "1 m"}}
    run = RunFile.model_validate(tables)
    fibre = build_fibre(run)
    path = LinkPath(run, fibre, build_transmitter(run, fibre.modes), RankModes((0, fibre.modes)))
    warnings = warnings_before(run, path, {})
    (text,) = (line for line in warnings if line.startswith("fibre.raman: left out"))
    # Nine channels, 4 THz, 90 mW: half of 0.028 /(W km THz) · 4 THz · P · Leff in dB, within a tenth or so.
    assert 0.4 < float(text.split("by ")[1].split(" dB")[0]) < 0.6


@pytest.mark.slow
def test_a_delay_beyond_the_window_is_said(command, run_text, tmp_path):
    # Group 2 comes 7.32 ps/km before group 1: 1.17 ns over 160 km, more than 32 symbols.
    (tmp_path / "a.toml").write_text(settle(run_text, symbols="32"))
    code, _, err = command("run", "a.toml")
    assert code == 0
    assert (
        "warning: signal.symbols: LP11a and LP01 are 1.17 ns apart after 160 km, the time window is 1 ns"
        in err
    )
    assert "38 symbols would hold the delay" in err
