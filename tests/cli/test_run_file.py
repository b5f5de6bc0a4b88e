"""What a sound run file becomes."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from wavefabric.base.errors import InputError
from wavefabric.optics.link.build import build_transmitter
from wavefabric.optics.run_file.elements import LinkTable
from wavefabric.optics.run_file.load import RunFile, load
from wavefabric.optics.run_file.tables import FibreTable, SignalTable, SolverTable

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def read(tmp_path, run_text):
    def read(old="", new=""):
        (tmp_path / "run.toml").write_text(run_text.replace(old, new) if old else run_text)
        return load(tmp_path / "run.toml")

    return read


def test_si_floats(read, run_text, tmp_path):
    run = read()
    assert run.link.length == 80e3
    assert run.signal.launch_power == pytest.approx(10**-3.1)
    assert run.fibre.attenuation == pytest.approx(0.23e-4 * np.log(10))
    assert run.signal.wdm_grid.samples == 1024
    np.testing.assert_allclose(run.signal.grid, [193.35e12, 193.4e12, 193.45e12], rtol=1e-15)
    assert run.signal.centre == 193.4e12
    assert (run.text, run.path) == (run_text, tmp_path / "run.toml")
    assert run.output_path() == Path("run.h5")
    assert read("[receiver]", '[output]\nfile = "a/b.h5"\n[receiver]').output_path() == Path("a/b.h5")


def test_examples():
    small, full = load(EXAMPLES / "mdm-15-modes.toml"), load(EXAMPLES / "mdm-120-modes.toml")
    assert (small.fibre.groups, len(small.signal.grid)) == (5, 5)
    assert (full.fibre.groups, len(full.signal.grid)) == (15, 60)
    assert full.signal.wdm_grid.samples == 2**21
    assert full.signal.wdm_grid.sample_rate == 4.096e12
    np.testing.assert_allclose(full.signal.grid, 191.95e12 + 50e9 * np.arange(60), rtol=1e-15)


def test_the_three_grids_agree(read):
    form = 'channels = 3\nspacing = "50 GHz"\ncentre_frequency = "193.4 THz"'
    ends = 'first_frequency = "193.35 THz"\nlast_frequency = "193.45 THz"\nspacing = "50 GHz"'
    each = 'frequencies = ["193.45 THz", "193.35 THz", "193.4 THz"]'
    for other in (ends, each):
        np.testing.assert_allclose(read(form, other).signal.grid, read().signal.grid, rtol=1e-15)
    assert read(form, 'channels = 1\ncentre_frequency = "193.4 THz"').signal.grid == (193.4e12,)


@pytest.mark.parametrize(
    ("powers", "wanted"),
    [
        ('"0 dBm"', 1.0),
        ('["0 dBm", "1 mW", "3 mW"]', [1, 1, 3]),
        ('[["0 dBm"], ["2 mW"], ["3 mW"]]', [[1, 1, 1], [2, 2, 2], [3, 3, 3]]),
        ('[["1 mW", "2 mW", "3 mW"], ["4 mW"], ["5 mW"]]', [[1, 2, 3], [4, 4, 4], [5, 5, 5]]),
    ],
)
def test_launch_power_of_channels_and_modes(read, powers, wanted):
    run = read('launch_power = "-1 dBm"', f"launch_power = {powers}")
    np.testing.assert_allclose(run.signal.powers, np.array(wanted) * 1e-3)
    sender = build_transmitter(run, modes=3)
    np.testing.assert_allclose(sender.powers(3), np.broadcast_to(np.array(wanted) * 1e-3, (3, 3)))
    assert run.identity() != read().identity()


def test_powers_belong_to_the_frequencies_as_given(read):
    form = 'launch_power = "-1 dBm"\nchannels = 3\nspacing = "50 GHz"\ncentre_frequency = "193.4 THz"'
    each = 'frequencies = ["193.45 THz", "193.35 THz", "193.4 THz"]\nlaunch_power = '
    run = read(form, each + '["3 mW", "1 mW", "2 mW"]')
    np.testing.assert_allclose(run.signal.powers, [1e-3, 2e-3, 3e-3])
    run = read(form, each + '[["3 mW", "1 mW", "2 mW"], ["4 mW"], ["4 mW"]]')
    np.testing.assert_allclose(run.signal.powers, [[1e-3, 2e-3, 3e-3], [4e-3] * 3, [4e-3] * 3])


def test_places(read):
    assert read().receiver.spans(3) == (1, 2, 3)
    assert read('osnr = "20 dB"', 'at = "end"').receiver.spans(3) == (3,)
    assert read('osnr = "20 dB"', "at = [2, 1, 2]").receiver.spans(3) == (1, 2)


def test_fibre_sources(read, tmp_path):
    for name in ("m.csv", "g.csv", "k.csv"):
        (tmp_path / name).write_text("1\n")
    whole = 'preset = "graded-index-62.5"\ngroups = 2\nattenuation = "0.23 dB/km"'
    profile = 'profile = { core_diameter = "50 um", numerical_aperture = 0.2, exponent = inf }'
    assert read(whole, profile).fibre.dispersion == "solver"
    assert read(whole, profile).fibre.profile.exponent == np.inf
    tables = 'modes_csv = "m.csv"\ngroups_csv = "g.csv"\n'
    assert read(whole, tables + 'kappa_csv = "k.csv"').fibre.kappa_csv == tmp_path / "k.csv"
    assert read(whole, tables + profile).fibre.dispersion == "paper"
    single = read(whole, 'preset = "single-mode"\nbeta2 = "-21.7 ps^2/km"\ngamma = "1.3 1/W/km"').fibre
    assert (single.beta2, single.gamma) == (pytest.approx(-21.7e-27), pytest.approx(1.3e-3))


def test_identity_is_what_changes_the_answer(read, tmp_path):
    (tmp_path / "m.csv").write_text("1\n")
    base = read().identity()
    assert read('"test"', '"other"').identity() == base
    assert read("[receiver]", "# remark\n[receiver]").identity() == base
    assert read("seed = 1", "seed = 2").identity() != base
    assert read('"80 km"', '"81 km"').identity() != base
    tables = 'modes_csv = "m.csv"\ngroups_csv = "m.csv"\nkappa_csv = "m.csv"'
    first = read('preset = "graded-index-62.5"', tables).identity()
    (tmp_path / "m.csv").write_text("2\n")
    assert read('preset = "graded-index-62.5"', tables).identity() != first


def test_solver_may_be_changed(read, run_text):
    run = read().with_solver(device="cuda:1", threads=3)
    assert (run.solver.device, run.solver.threads, run.solver.step) == ("cuda:1", 3, 1e3)
    assert run.text == run_text
    with pytest.raises(InputError, match=r"solver\.device"):
        run.with_solver(device="abacus")
    with pytest.raises(InputError, match=r"solver\.tolerance"):
        run.with_solver(step=None, tolerance=1e-6)


def test_python_takes_si_floats():
    signal = SignalTable(
        symbol_rate=32e9,
        symbols=64,
        samples_per_symbol=4,
        launch_power=1e-3,
        channels=1,
        centre_frequency=193.4e12,
    )
    run = RunFile(
        fibre=FibreTable(preset="single-mode"),
        link=LinkTable(length=80e3),
        signal=signal,
        solver=SolverTable(step=1e3),
    )
    assert (run.text, run.path, run.output_path()) == ("", None, Path("wavefabric.h5"))
    with pytest.raises(ValidationError):
        run.link.length = 1.0
    with pytest.raises(ValidationError, match="above 0 m"):
        LinkTable(length=-1.0)


def test_every_key_is_documented():
    from wavefabric.optics.run_file import elements, tables
    from wavefabric.optics.run_file.tables import OutputTable, ProfileTable, ReceiverTable

    text = (EXAMPLES.parent / "docs" / "run-files.md").read_text(encoding="utf-8")
    for table in (
        elements.PumpTable,
        elements.FibreElement,
        elements.AmplifierElement,
        elements.LossElement,
        elements.FilterElement,
        elements.MixingElement,
        tables.RandomCouplingTable,
        tables.RamanTable,
        tables.BackPropagationTable,
        RunFile,
        FibreTable,
        ProfileTable,
        LinkTable,
        SignalTable,
        ReceiverTable,
        SolverTable,
        OutputTable,
    ):
        for key in table.model_fields:
            assert f"`{key}`" in text or f"`[{key}]`" in text, f"{table.__name__}.{key}"
