"""Bad input: one line on stderr that names the key, exit code 2, nothing written."""

import os
from pathlib import Path

import pytest

# (name, text to replace in the sound run file, its replacement, words that the line must hold)
BAD_FILES = [
    ("unknown key", 'length = "80 km"', 'lenght = "80 km"', ["link.lenght", "unknown key", "length"]),
    ("unknown top key", "seed = 1", "sed = 1", ["sed", "did you mean seed", "[fibre]"]),
    ("unknown table", "[link]", "[lnik]", ["lnik", "unknown table", "[link]"]),
    ("missing table", '[solver]\nintegrator = "rk4ip"\nstep = "1 km"', "", ["solver", "missing"]),
    ("missing key", 'length = "80 km"\n', "", ["link.length", "missing"]),
    ("key for table", "seed = 1", "seed = 1\noutput = 3", ["output", "3", "allowed: a table"]),
    ("wrong unit", '"80 km"', '"80 kg"', ["link.length", "80 kg", "km"]),
    ("unknown unit", '"80 km"', '"80 parsnips"', ["link.length", "parsnips"]),
    ("no unit", '"80 km"', '"80"', ["link.length", "no unit"]),
    ("bare number", '"80 km"', "80", ["link.length", "80", "no unit", "km"]),
    ("no number", '"80 km"', '"long"', ["link.length", "long"]),
    ("expression", '"80 km"', '"9**9**9 km"', ["link.length"]),
    ("negative length", '"80 km"', '"-80 km"', ["link.length", "-80 km", "above 0 m"]),
    ("zero length", '"80 km"', '"0 km"', ["link.length", "above 0 m"]),
    ("NaN", '"80 km"', '"nan km"', ["link.length", "not finite"]),
    ("infinite", '"80 km"', '"inf km"', ["link.length", "not finite"]),
    ("overflow", '"80 km"', '"1e400 km"', ["link.length", "not finite"]),
    ("zero spans", "spans = 2", "spans = 0", ["link.spans", "0", "from 1"]),
    ("half a span", "spans = 2", "spans = 1.5", ["link.spans", "1.5", "whole number"]),
    ("wrong type", "spans = 2", 'spans = "two"', ["link.spans", "two", "whole number"]),
    ("bool for count", "spans = 2", "spans = true", ["link.spans", "whole number"]),
    ("modulation", '"qpsk"', '"8psk"', ["signal.modulation", "8psk", "qpsk", "64qam"]),
    ("roll-off above 1", "rolloff = 0.1", "rolloff = 1.5", ["signal.rolloff", "1.5", "up to 1"]),
    ("roll-off below 0", "rolloff = 0.1", "rolloff = -0.1", ["signal.rolloff", "from 0"]),
    ("roll-off NaN", "rolloff = 0.1", "rolloff = nan", ["signal.rolloff", "finite"]),
    ("negative power", '"-1 dBm"', '"-1 mW"', ["signal.launch_power", "-1 mW", "above 0 W"]),
    ("level for power", '"-1 dBm"', '"-1 dB"', ["signal.launch_power", "dBm"]),
    ("powers of 2 of 3 channels", '"-1 dBm"', '["0 dBm", "1 dBm"]',
     ["signal.launch_power", "2 powers given, there are 3 channels", "a list for each mode"]),
    ("powers of a mode", '"-1 dBm"', '[["0 dBm"], ["1 dBm", "0 dBm"], ["0 dBm"]]',
     ["signal.launch_power", "2 powers for mode 2 given, there are 3 channels"]),
    ("powers of 2 of 3 modes", '"-1 dBm"', '[["0 dBm"], ["1 dBm"]]',
     ["signal.launch_power", "2 modes given, the fibre has 3"]),
    ("powers and lists", '"-1 dBm"', '["0 dBm", ["1 dBm"], "2 dBm"]', ["launch_power", "allowed: one"]),
    ("no powers", '"-1 dBm"', "[]", ["signal.launch_power", "allowed: one power"]),
    ("lists too deep", '"-1 dBm"', '[[["0 dBm"]]]', ["signal.launch_power", "allowed: one power"]),
    ("bad power in a list", '"-1 dBm"', '["0 dBm", "-1 mW", "0 dBm"]', ["signal.launch_power", "-1 mW"]),
    ("power for OSNR", '"20 dB"', '"20 dBm"', ["receiver.osnr", "dB"]),
    ("loss without length", '"0.23 dB/km"', '"0.23 dB"', ["fibre.attenuation", "dB/km"]),
    ("negative loss", '"0.23 dB/km"', '"-0.23 dB/km"', ["fibre.attenuation", "from 0"]),
    ("no symbols", "symbols = 64", "symbols = 1", ["signal.symbols", "from 16"]),
    ("band too wide", "samples_per_symbol = 16", "samples_per_symbol = 4",
     ["signal.samples_per_symbol", "128 GHz", "135.2 GHz", "at least 5"]),
    ("overlap", 'spacing = "50 GHz"', 'spacing = "30 GHz"', ["signal.spacing", "overlap", "35.2 GHz"]),
    ("two grids", "channels = 3", 'channels = 3\nfrequencies = ["193.4 THz"]', ["signal.", "two grids"]),
    ("half a grid", 'spacing = "50 GHz"\n', "", ["signal.spacing", "missing"]),
    ("no grid", 'channels = 3\nspacing = "50 GHz"\ncentre_frequency = "193.4 THz"', "",
     ["signal.channels", "missing", "first_frequency"]),
    ("grid uneven", 'channels = 3\nspacing = "50 GHz"\ncentre_frequency = "193.4 THz"',
     'first_frequency = "193.4 THz"\nlast_frequency = "193.52 THz"\nspacing = "50 GHz"',
     ["signal.spacing", "120 GHz"]),
    ("grid backwards", 'channels = 3\nspacing = "50 GHz"\ncentre_frequency = "193.4 THz"',
     'first_frequency = "193.5 THz"\nlast_frequency = "193.4 THz"\nspacing = "50 GHz"',
     ["signal.last_frequency", "193.4 THz"]),
    ("bad entry", 'channels = 3\nspacing = "50 GHz"\ncentre_frequency = "193.4 THz"',
     'frequencies = ["193.4 THz", "193.5 km"]', ["signal.frequencies[1]", "193.5 km"]),
    ("too much memory", "symbols = 64", "symbols = 1_000_000_000_000", ["memory", "GiB", "free"]),
    ("power out of range", '"-1 dBm"', '"1e308 W"', ["signal.launch_power", "1e308 W", "up to 1e+06 W"]),
    ("far wavelength", '"193.4 THz"', '"352 THz"', ["fibre.wavelength", "352", "within 5 %"]),
    ("step far too short", '"1 km"', '"1e-320 m"', ["step", "at least"]),
    ("gain out of range", "spans = 2", 'spans = 2\ngain = "1e4 dB"', ["link.gain", "up to 200"]),
    ("noise figure out of range", "spans = 2", 'spans = 2\nnoise_figure = "1e4 dB"', ["link.noise_figure"]),
    ("OSNR out of range", '"20 dB"', '"1e5 dB"', ["receiver.osnr", "up to 200"]),
    ("rate out of range", '"32 GBaud"', '"1e300 Hz"', ["signal.symbol_rate", "up to"]),
    ("loss out of range", '"0.23 dB/km"', '"100 dB/km"', ["link.length", "8000 dB", "200 dB"]),
    ("endless phase steps", 'step = "1 km"', 'max_phase = "1e-14 rad"', ["max_phase", "larger phase"]),
    ("two step controls", 'step = "1 km"', 'step = "1 km"\nmax_phase = "0.01 rad"',
     ["solver.max_phase", "step", "exactly one"]),
    ("no step control", 'step = "1 km"', "", ["solver.step", "missing", "exactly one"]),
    ("integrator", '"rk4ip"', '"euler"', ["solver.integrator", "euler", "strang"]),
    ("tolerance", 'step = "1 km"', "tolerance = 1e-6", ["solver.tolerance", "erk43ip"]),
    ("step over span", '"1 km"', '"81 km"', ["solver.step", "81000 m", "link.length"]),
    ("device", 'step = "1 km"', 'step = "1 km"\ndevice = "gpu"', ["solver.device", "gpu", "cuda"]),
    ("threads", 'step = "1 km"', 'step = "1 km"\nthreads = 0', ["solver.threads", "from 1"]),
    ("preset", '"graded-index-62.5"', '"graded"', ["fibre.preset", "graded-index-62.5", "single-mode"]),
    ("no fibre", 'preset = "graded-index-62.5"\n', "", ["fibre.preset", "missing", "modes_csv"]),
    ("groups above 15", "groups = 2", "groups = 16", ["fibre.groups", "16", "1 to 15"]),
    ("groups below 1", "groups = 2", "groups = 0", ["fibre.groups", "0"]),
    ("groups unordered", "groups = 2", "groups = [3, 1]", ["fibre.groups", "increasing"]),
    ("no such CSV", 'preset = "graded-index-62.5"', 'modes_csv = "modes.csv"',
     ["fibre.modes_csv", "modes.csv", "does not exist"]),
    ("CSV is a folder", 'preset = "graded-index-62.5"', 'modes_csv = "."', ["fibre.modes_csv", "folder"]),
    ("key without effect", "groups = 2", 'groups = 2\ngamma = "1.3 1/W/km"', ["fibre.gamma", "no effect"]),
    ("preset and profile", "groups = 2",
     'groups = 2\nprofile = { core_diameter = "50 um", numerical_aperture = 0.2 }',
     ["fibre.profile", "preset"]),
    ("half a profile", 'preset = "graded-index-62.5"', 'profile = { core_diameter = "50 um" }',
     ["fibre.profile.numerical_aperture", "missing"]),
    ("aperture", 'preset = "graded-index-62.5"',
     'profile = { core_diameter = "50 um", numerical_aperture = 2 }',
     ["fibre.profile.numerical_aperture", "below 1"]),
    ("receive beyond the end", 'osnr = "20 dB"', "at = [1, 3]", ["receiver.at", "3", "link.spans"]),
    (
        "wavelength without effect",
        "groups = 2",
        'dispersion = "solver"\nwavelength = "1550 nm"',
        ["fibre.wavelength", "no effect", "graded-index-62.5"],
    ),
    ("window of one", 'osnr = "20 dB"', "phase_window = 1", ["receiver.phase_window", "1", "at least 2"]),
    ("receive nowhere", 'osnr = "20 dB"', 'at = "start"', ["receiver.at", "start", "each"]),
    ("not TOML", "[link]", "[link", ["run.toml", "TOML", "line"]),
    ("same key twice", "spans = 2", "spans = 2\nspans = 3", ["run.toml", "TOML"]),
]  # fmt: skip


def assert_refused(answer, words, folder: Path, before: list[str]):
    code, out, err = answer
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("wavefabric: error: ")
    for word in words:
        assert word in err, err
    assert "Traceback" not in err
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(("old", "new", "words"), [c[1:] for c in BAD_FILES], ids=[c[0] for c in BAD_FILES])
def test_bad_run_file(command, run_text, tmp_path, old, new, words):
    assert old in run_text
    (tmp_path / "run.toml").write_text(run_text.replace(old, new))
    assert_refused(command("run", "run.toml"), words, tmp_path, ["run.toml"])


@pytest.mark.slow
def test_mixing_that_cannot_be_undone(command, run_text, tmp_path):
    modes = 'groups = 3\ncoupling = "modes"\ndispersion = "solver"'
    text = run_text.replace("groups = 2", modes).replace("spans = 2", "spans = 2\nmix_groups = true")
    (tmp_path / "run.toml").write_text(text)
    assert_refused(command("run", "run.toml"), ["link.mix_groups", "coupling"], tmp_path, ["run.toml"])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.toml", None, ["missing.toml", "No such file"]),
        ("folder", "folder", ["folder", "Is a directory"]),
        ("garbage.toml", b"\x89HDF\r\n\x1a\n\xff\xfe\x00", ["garbage.toml", "not UTF-8 text"]),
        ("empty.toml", b"", ["fibre", "missing", "(and 3 more)"]),
    ],
    ids=["missing", "folder", "binary", "empty"],
)
def test_bad_path(command, tmp_path, name, content, words):
    if content == "folder":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    before = sorted(os.listdir(tmp_path))
    assert_refused(command("run", name), words, tmp_path, before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--output", "there.h5"], ["there.h5", "exists", "--force"]),
        (["--output", "folder"], ["folder", "is a folder"]),
        (["--output", "folder", "--force"], ["folder", "is a folder"]),
        (["--output", "absent/out.h5"], ["absent", "does not exist"]),
        (["--output", "run.toml/out.h5"], ["run.toml", "not a folder"]),
        (["--output", "x" * 300 + ".h5"], ["cannot be"]),
        (["--device", "tpu"], ["solver.device", "tpu", "cuda"]),
        (["--threads", "0"], ["--threads", "0", "from 1"]),
        (["--threads", "two"], ["--threads", "integer"]),
        (["--frobnicate"], ["--frobnicate"]),
    ],
    ids=lambda value: " ".join(value)[:30],
)
def test_bad_option(command, run_text, tmp_path, options, words):
    (tmp_path / "run.toml").write_text(run_text)
    (tmp_path / "there.h5").write_text("kept")
    (tmp_path / "folder").mkdir()
    before = sorted(os.listdir(tmp_path))
    assert_refused(command("run", "run.toml", *options), words, tmp_path, before)
    assert (tmp_path / "there.h5").read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.h5", None, ["absent.h5", "no such file"]),
        ("text.h5", b"not HDF5 at all", ["text.h5", "not an HDF5 file"]),
        ("cut.h5", b"\x89HDF\r\n\x1a\n", ["cut.h5", "HDF5"]),
    ],
    ids=["absent", "text", "cut short"],
)
def test_bad_result_to_plot(command, tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert_refused(command("plot", name), words, tmp_path, sorted(os.listdir(tmp_path)))


def test_foreign_hdf5_and_empty_result(command, tmp_path):
    import h5py

    from wavefabric.base.results import ResultWriter

    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["x"] = 1
    ResultWriter(tmp_path / "bare.h5").write({})
    before = sorted(os.listdir(tmp_path))
    assert_refused(command("plot", "foreign.h5"), ["foreign.h5", "not a result"], tmp_path, before)
    assert_refused(command("plot", "bare.h5"), ["bare.h5", "nothing to draw"], tmp_path, before)
    assert_refused(command("plot", "bare.h5", "-o", "foreign.h5/x"), ["bare.h5"], tmp_path, before)


def test_unknown_command(command, tmp_path):
    assert_refused(command("rnu", "x.toml"), ["rnu"], tmp_path, [])
