"""Tables of modes: dispersion by mode, and effective areas beside those of the profile."""

import math

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.fibre.profile import ConstantIndex, IndexProfile
from wavefabric.optics.fibre.sources import fibre_from_csv, fibre_from_profile
from wavefabric.optics.link.build import build_fibre
from wavefabric.optics.link.run import run_link
from wavefabric.optics.run_file.load import load

FEW = {"profile": IndexProfile(16e-6, 0.2, 2, cladding=ConstantIndex(1.444)), "step": 0.05e-6}
SOLVED = fibre_from_profile(FEW["profile"], 1550e-9, 3, coupling="modes", step=FEW["step"])
HEAD = "mode_group,l,m,a_eff_um2"
LINEAR = "dmgd_ps_per_km,beta2_ps2_per_km,beta3_ps3_per_km,attenuation_db_per_km"
NUMBERS = ["0,-20,0.1,0.2", "-7,-21,0.11,0.25", "-15,-22,0.12,0.3", "-12,-23,0.13,0.36"]


def mode_table(path, factor=1.0, extra=None):
    """LP01, LP11, LP02, LP21 with the solver's areas times ``factor``."""
    at = [SOLVED.labels.index(label) for label in ("LP01", "LP11a", "LP02", "LP21a")]
    lines = ["1,0,1", "2,1,1", "3,0,2", "3,2,1"]
    rows = [f"{line},{SOLVED.a_eff[i] * 1e12 * factor:.6f}" for line, i in zip(lines, at, strict=True)]
    head = HEAD
    if extra:
        rows = [f"{row},{more}" for row, more in zip(rows, extra, strict=True)]
        head = f"{HEAD},{LINEAR}"
    path.write_text("\n".join([head, *rows, ""]))
    return path


def test_dispersion_by_mode_is_used_by_mode(tmp_path):
    table = mode_table(tmp_path / "m.csv", extra=NUMBERS)
    fibre = fibre_from_csv(table, coupling="modes", **FEW)
    assert fibre.labels == ("LP01", "LP11a", "LP11b", "LP02", "LP21a", "LP21b")
    assert fibre.kappa_of == "mode"
    np.testing.assert_allclose(fibre.beta[:, 0], np.array([0, -7, -7, -15, -12, -12]) * 1e-15)
    np.testing.assert_allclose(fibre.beta[:, 1], np.array([-20, -21, -21, -22, -23, -23]) * 1e-27)
    np.testing.assert_allclose(fibre.beta[:, 2], np.array([0.1, 0.11, 0.11, 0.12, 0.13, 0.13]) * 1e-39)
    loss = np.array([0.2, 0.25, 0.25, 0.3, 0.36, 0.36])
    np.testing.assert_allclose(fibre.alpha * 1e4 / math.log(10), loss)
    # Strongly coupled: light of a group sees the mean of its spatial modes.
    grouped = fibre_from_csv(table, **FEW)
    assert grouped.kappa_of == "group"
    np.testing.assert_allclose(grouped.beta[3:, 1], (-22 - 23 - 23) / 3 * 1e-27)
    np.testing.assert_allclose(grouped.beta[3:, 0], (-15 - 12 - 12) / 3 * 1e-15)
    np.testing.assert_allclose(grouped.alpha[3:] * 1e4 / math.log(10), 0.34)
    assert (np.diff(grouped.beta[3:], axis=0) == 0).all()


def test_dispersion_by_mode_or_by_group_and_not_both(tmp_path):
    groups = tmp_path / "g.csv"
    groups.write_text("mode_group,dmgd_ps_per_km,beta2_ps2_per_km\n1,0,-20\n2,-7,-21\n3,-9,-22\n")
    own, plain = mode_table(tmp_path / "m.csv", extra=NUMBERS), mode_table(tmp_path / "n.csv")
    with pytest.raises(
        InputError, match=r"m\.csv: column .* by mode, and groups_csv given too; allowed: one"
    ):
        fibre_from_csv(own, groups, **FEW)
    with pytest.raises(InputError, match=r"groups_csv: missing, and .*n\.csv has no column dmgd_ps_per_km"):
        fibre_from_csv(plain, **FEW)
    by_group = fibre_from_csv(plain, groups, coupling="modes", **FEW)
    np.testing.assert_allclose(by_group.beta[3:, 1], -22e-27)


def test_areas_apart_are_said_with_numbers(tmp_path):
    # 3 % and less is the difference between two solvers: nothing to say.
    fibre_from_csv(mode_table(tmp_path / "a.csv", 0.975, NUMBERS), **FEW)
    graded_index_62_5(15)
    far = mode_table(tmp_path / "b.csv", 1.27, NUMBERS)
    with pytest.warns(UserWarning, match=r"b\.csv: A_eff of LP.* \(\+27\.0%\)"):
        fibre_from_csv(far, **FEW)
    said = []
    fibre = fibre_from_csv(far, warn=said.append, **FEW)
    ours, theirs = SOLVED.a_eff[0] * 1e12, SOLVED.a_eff[0] * 1.27e12
    (line,) = said
    assert f"kappa (with {ours:.4g} um^2 for LP01) comes from the profile" in line
    assert line.endswith(f"gamma from the table's {theirs:.4g} um^2, -21.3% off for kappa")
    # What is said is so: γκ is that much below the profile's own.
    own = fibre_from_profile(FEW["profile"], 1550e-9, 3, step=FEW["step"])
    np.testing.assert_allclose(fibre.gamma * fibre.kappa, own.gamma * own.kappa / 1.27, rtol=1e-6)
    fibre_from_csv(far, gamma=1e-3, warn=said.append, **FEW)
    assert said[1].endswith("; kappa comes from the profile")


def test_areas_in_square_metres_are_refused(tmp_path):
    table = mode_table(tmp_path / "m.csv", factor=1e-6, extra=NUMBERS)
    with pytest.raises(
        InputError, match=r"m\.csv: a_eff_um2: .* um\^2 \(the header says µm²\); allowed: 0\.1"
    ):
        fibre_from_csv(table, **FEW)


def test_in_a_run(tmp_path, capsys):
    mode_table(tmp_path / "m.csv", 1.27, NUMBERS)
    (tmp_path / "r.toml").write_text("""
[fibre]
modes_csv = "m.csv"
coupling = "modes"
[fibre.profile]
core_diameter = "16 um"
numerical_aperture = 0.2
[link]
length = "1 km"
[signal]
symbol_rate = "32 GBaud"
symbols = 16
samples_per_symbol = 4
launch_power = "0 dBm"
channels = 1
centre_frequency = "193.4144890 THz"
[solver]
step = "500 m"
device = "cpu"
threads = 1
""")
    run = load(tmp_path / "r.toml")
    done = run_link(run, tmp_path / "r.h5")
    (line,) = done.warnings
    assert capsys.readouterr().err == f"wavefabric: warning: {line}\n"
    assert "(+2" in line
    result = read_result(tmp_path / "r.h5")
    assert list(result["solver/warnings"]) == [line]
    fibre = build_fibre(run, lambda text: None)
    np.testing.assert_allclose(result["fibre/beta"], fibre.beta)
    np.testing.assert_allclose(fibre.beta[:, 1], np.array([-20, -21, -21, -22, -23, -23]) * 1e-27, rtol=1e-6)
