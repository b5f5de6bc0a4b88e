"""A fibre at another centre frequency: the same polynomial, the same pulse, the same received signal."""

from dataclasses import replace

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import ResultWriter, read_result
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.fibre.fibre import at_frequency, shift_expansion
from wavefabric.optics.fibre.presets import graded_index_62_5, single_mode
from wavefabric.optics.fibre.profile import IndexProfile
from wavefabric.optics.fibre.sources import fibre_from_profile
from wavefabric.optics.link import run as links
from wavefabric.optics.link.build import build_fibre, fibre_digest
from wavefabric.optics.link.run import run_link
from wavefabric.optics.propagation.propagate import propagate
from wavefabric.optics.run_file.elements import LinkTable
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.run_file.tables import (
    FibreTable,
    OutputTable,
    ProfileTable,
    ReceiverTable,
    SignalTable,
    SolverTable,
)
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo

CPU = get_device("cpu", 1)
#: s/m … s⁴/m; β3 and β4 as strong as in real fibres, β1 as between modes.
BETA = np.array([[0.0, -21.7e-27, 0.12e-39, -3e-55], [7e-15, -24e-27, 0.10e-39, 2e-55]])
DESIGN = SPEED_OF_LIGHT / 1550e-9


def polynomial(beta, omega):
    return sum(b * omega**n / f for n, (b, f) in enumerate(zip(beta, (1, 2, 6, 24), strict=True), 1))


@pytest.mark.parametrize("shift", [-9.7e12, 7.4e12, 1e9])
def test_the_polynomial_is_the_same_about_any_centre(shift):
    shift = 2 * np.pi * shift
    moved = shift_expansion(BETA, shift)
    omega = np.linspace(-2e13, 2e13, 41)
    for before, after in zip(BETA, moved, strict=True):
        there = polynomial(before, omega + shift) - polynomial(before, shift)
        np.testing.assert_allclose(polynomial(after, omega), there, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(shift_expansion(moved, -shift), BETA, rtol=1e-12, atol=1e-26)
    # β2 + β3 Δω + β4 Δω²/2, by hand
    assert moved[0, 1] == pytest.approx(-21.7e-27 + 0.12e-39 * shift - 3e-55 * shift**2 / 2, rel=1e-12)


def test_fibre_keeps_its_frame_and_scales_gamma():
    fibre = single_mode(beta2=-21.7e-27, beta3=0.12e-39, gamma=1.3e-3)
    there = at_frequency(fibre, "186 THz")
    assert there.wavelength == pytest.approx(SPEED_OF_LIGHT / 186e12, rel=1e-15)
    assert there.gamma == pytest.approx(1.3e-3 * 186e12 / DESIGN, rel=1e-14)
    assert there.beta[0, 0] == 0
    # At 186 THz |β2| is 26 % larger.
    assert there.beta[0, 1] / fibre.beta[0, 1] == pytest.approx(1.2577, abs=1e-3)
    for bad in (0.0, -1.0, np.nan, "1550 nm"):
        with pytest.raises(InputError, match="frequency"):
            at_frequency(fibre, bad)


@pytest.mark.slow
def test_a_channel_alone_is_the_one_of_a_wide_grid():
    # A pulse 4 THz above 1550 nm in a wide band about 1550 nm, and alone in a narrow band about itself.
    offset, n, duration = 4e12, 2**15, 1e-9
    fibre = single_mode(beta2=-21.7e-27, beta3=0.12e-39, beta4=-3e-55, gamma=0.0)
    t = (np.arange(n) - n / 2) * duration / n
    pulse = np.exp(-((t / 10e-12) ** 2))
    wide = np.zeros((2, n), complex)
    wide[0] = pulse * np.exp(-2j * np.pi * offset * t)  # the carrier is exp(−iω₀t)
    far, _ = propagate(wide, fibre, "50 km", sample_rate=n / duration, step="50 km", device=CPU)
    spectrum = np.fft.fft(far[0] * np.exp(2j * np.pi * offset * t))
    keep = 2**9
    narrow = np.fft.ifft(np.r_[spectrum[: keep // 2], spectrum[-keep // 2 :]]) * keep / n
    alone = np.zeros((2, keep), complex)
    alone[0] = pulse[:: n // keep]
    there = at_frequency(fibre, DESIGN + offset)
    got, _ = propagate(alone, there, "50 km", sample_rate=keep / duration, step="50 km", device=CPU)
    # The wide grid's frame stays with the light at 1550 nm, 2.6 ns away, and its phase is that of β(ω).
    shift = 2 * np.pi * offset
    delay = shift_expansion(fibre.beta, shift)[0, 0] * 50e3
    turn = np.exp(1j * polynomial(fibre.beta[0], shift) * 50e3)
    frequency = np.fft.fftfreq(keep, duration / keep)
    expected = np.fft.ifft(np.fft.fft(got[0]) * np.exp(-2j * np.pi * frequency * delay)) * turn
    assert abs(delay) > 2e-9
    np.testing.assert_allclose(narrow, expected, atol=1e-8)


def link(tmp_path, name, fibre, centre=186e12):
    signal = SignalTable(
        symbol_rate=32e9,
        symbols=64,
        samples_per_symbol=8,
        launch_power=4e-3,
        channels=3,
        spacing=50e9,
        centre_frequency=centre,
    )
    run = RunFile(
        fibre=fibre,
        link=LinkTable(length=80e3, spans=2),
        signal=signal,
        receiver=ReceiverTable(osnr=20.0),
        solver=SolverTable(integrator="strang", step=500.0, device="cpu", threads=1),
        output=OutputTable(save_field=True, figures=False),
    )
    return run, read_result(run_link(run, output=tmp_path / name).path)


@pytest.mark.slow
def test_a_link_described_at_1550_nm_is_the_one_described_at_its_own_centre(tmp_path):
    shift = 2 * np.pi * (186e12 - DESIGN)
    beta2, beta3, gamma = -21.7e-27, 0.12e-39, 1.3e-3
    far = FibreTable(preset="single-mode", beta2=beta2, beta3=beta3, gamma=gamma)
    near = FibreTable(
        preset="single-mode",
        beta2=beta2 + beta3 * shift,
        beta3=beta3,
        gamma=gamma * 186e12 / DESIGN,
        wavelength=SPEED_OF_LIGHT / 186e12,
    )
    (_, a), (_, b) = link(tmp_path, "a.h5", far), link(tmp_path, "b.h5", near)
    scale = abs(b["field"]).max()
    np.testing.assert_allclose(a["field"], b["field"], atol=1e-9 * scale)
    for position in ("span_1", "span_2"):
        key = f"received/{position}/q_squared_db"
        np.testing.assert_allclose(a[key], b[key], atol=1e-9)
    assert a.attrs("fibre")["wavelength_m"] == pytest.approx(SPEED_OF_LIGHT / 186e12)
    # Taken as they are, the coefficients of 1550 nm give another answer.
    as_is = near.model_copy(update={"beta2": beta2, "gamma": gamma})
    _, wrong = link(tmp_path, "c.h5", as_is)
    apart = abs(wrong["received/span_2/q_squared_db"] - b["received/span_2/q_squared_db"])
    assert apart.max() > 0.05


def test_a_profile_is_solved_at_the_centre(tmp_path):
    table = ProfileTable(core_diameter=16e-6, numerical_aperture=0.2)
    run, _ = link(tmp_path, "p.h5", FibreTable(profile=table, groups=2, dispersion="solver"))
    fibre = build_fibre(run)
    profile = IndexProfile(16e-6, 0.2, 2.0, design_wavelength=1550e-9)
    direct = fibre_from_profile(profile, SPEED_OF_LIGHT / 186e12, 2)
    np.testing.assert_array_equal(fibre.beta, direct.beta)
    np.testing.assert_array_equal(fibre.kappa, direct.kappa)
    assert fibre.gamma == direct.gamma
    # Two ways to the same β2: solved there, and re-expanded from 1550 nm.
    moved = at_frequency(fibre_from_profile(profile, 1550e-9, 2), 186e12)
    np.testing.assert_allclose(moved.beta[:, 1], direct.beta[:, 1], rtol=2e-2)


def test_tables_are_expanded_at_the_centre(tmp_path):
    (tmp_path / "m.csv").write_text("mode_group,l,m,a_eff_um2\n1,0,1,100\n2,1,1,130\n")
    (tmp_path / "g.csv").write_text(
        "mode_group,dmgd_ps_per_km,beta2_ps2_per_km,beta3_ps3_per_km\n1,0,-20,0.1\n2,-7,-21,0.12\n"
    )
    (tmp_path / "k.csv").write_text("1,0.5\n0.5,1\n")
    tables = {key + "_csv": tmp_path / f"{key[0]}.csv" for key in ("modes", "groups", "kappa")}
    run, _ = link(tmp_path, "t.h5", FibreTable(**tables))
    fibre, shift = build_fibre(run), 2 * np.pi * (186e12 - DESIGN)
    np.testing.assert_allclose(fibre.beta[:, 1], [-20e-27 + 1e-40 * shift] + [-21e-27 + 1.2e-40 * shift] * 2)
    # Relative to LP01, whose own delay changes too.
    delay = -7e-15 + (-1e-27) * shift + 0.02e-39 * shift**2 / 2
    np.testing.assert_allclose(fibre.beta[:, 0], [0, delay, delay], rtol=1e-9)


@pytest.mark.slow
def test_a_checkpoint_belongs_to_the_fibre_that_was_built(tmp_path, monkeypatch):
    run, _ = link(tmp_path, "r.h5", FibreTable(preset="single-mode"))
    built = build_fibre(run)
    prints = set()
    for fibre in (built, built, at_frequency(built, 186.001e12)):
        monkeypatch.setattr(links.build, "build_fibre", lambda *_, fibre=fibre: fibre)
        writer = ResultWriter(tmp_path / "o.h5")
        made = links._Link(run, writer, solo("cpu"), (links.Progress(), print), True, links.SharedParts())
        prints.add(made.checkpoint.fingerprint)
    assert len(prints) == 2
    # The last bits of a solver do not matter.
    almost = replace(built, beta=built.beta * (1 + 1e-14))
    assert fibre_digest(almost) == fibre_digest(built) != fibre_digest(replace(built, gamma=2e-3))


@pytest.mark.slow
@pytest.mark.parametrize("dispersion", ["paper", "solver"])
def test_the_preset_is_that_of_the_centre(dispersion):
    signal = SignalTable(
        symbol_rate=32e9,
        symbols=16,
        samples_per_symbol=4,
        launch_power=1e-3,
        channels=1,
        centre_frequency=195e12,
    )
    table = FibreTable(preset="graded-index-62.5", groups=3, dispersion=dispersion)
    run = RunFile(fibre=table, link=LinkTable(length=80e3), signal=signal, solver=SolverTable(step=1e3))
    fibre = build_fibre(run)
    at_1550 = graded_index_62_5(3, dispersion=dispersion)
    if dispersion == "solver":
        there = graded_index_62_5(3, dispersion="solver", wavelength=SPEED_OF_LIGHT / 195e12)
        np.testing.assert_allclose(fibre.beta, there.beta, rtol=1e-12)
        assert fibre.gamma == pytest.approx(there.gamma, rel=1e-12)
    else:
        # β3 = β4 = 0 in table 3: only the delays between groups move, by the difference of their β2.
        np.testing.assert_array_equal(fibre.beta[:, 1:], at_1550.beta[:, 1:])
        moved = (at_1550.beta[:, 1] + 23.1e-27) * 2 * np.pi * (195e12 - DESIGN)
        np.testing.assert_allclose(fibre.beta[:, 0], at_1550.beta[:, 0] + moved, rtol=1e-9, atol=1e-24)
        assert fibre.gamma == pytest.approx(at_1550.gamma * 195e12 / DESIGN, rel=1e-12)
    assert (fibre.beta[:, 0] != at_1550.beta[:, 0]).any()
