"""The points of a grid: whole run files, checked before anything runs; what is refused, in one line."""

import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.run_file.load import load
from wavefabric.optics.sweeps.points import make_grid


def test_points_are_the_run_files_that_one_would_write(run_file, tmp_path):
    grid = make_grid(run_file, {"signal.launch_power": "0 dBm, 2 dBm", "link.spans": [1, 3]})
    assert grid.shape == (2, 2)
    assert [point.index for point in grid.points] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    text = run_file.read_text().replace("8 dBm", "2 dBm").replace("spans = 2", "spans = 3")
    (tmp_path / "one.toml").write_text(text)
    assert grid.points[3].run.identity() == load(tmp_path / "one.toml").identity()
    assert str(grid.points[3]) == "signal.launch_power = 2 dBm, link.spans = 3"
    assert len({point.fingerprint for point in grid.points}) == 4


def test_a_run_file_from_python_makes_the_same_points(run_file):
    axes = {"solver.step": "2 km, 4 km", ("seed", "receiver.noise_seed"): ["1:2:1", "5:6:1"]}
    one, other = make_grid(run_file, axes), make_grid(load(run_file), axes)
    assert [point.fingerprint for point in one.points] == [point.fingerprint for point in other.points]
    assert other.base.path == run_file


def test_axes_of_the_file_and_of_the_call(run_file):
    table = '[sweep]\n"solver.step" = "2 km, 4 km"\nseed = [1, 2, 3]\n'
    run_file.write_text(run_file.read_text() + table)
    with pytest.raises(InputError, match=r"sweep: .* has axes; allowed: with `wavefabric sweep`"):
        load(run_file)
    grid = make_grid(run_file, {"solver.step": "1 km"})
    assert [axis.name for axis in grid.axes] == ["seed", "solver.step"]
    assert grid.shape == (3, 1)


def test_keys_that_the_file_leaves_out(run_file):
    run_file.write_text(
        run_file.read_text()
        .replace('step = "4 km"', "")
        .replace("[receiver]", "")
        .replace('osnr = "20 dB"', "")
    )
    grid = make_grid(run_file, {"solver.max_phase": "0.1 rad, 0.2 rad", "receiver.osnr": "15:20:5 dB"})
    assert [point.run.receiver.osnr for point in grid.points] == [15, 20, 15, 20]


@pytest.mark.parametrize(
    ("axes", "key", "values", "unit"),
    [
        ({"signal.launch_power": "-4:4:4 dBm"}, "signal.launch_power", [-4, 0, 4], "dBm"),
        ({"solver.step": "500 m, 2 km"}, "solver.step", [500, 2000], "m"),
        ({"link.spans": "1:3:1"}, "link.spans", [1, 2, 3], ""),
        ({"signal.rolloff": [0.1, 0]}, "signal.rolloff", [0.1, 0], ""),
        ({"signal.modulation": "qpsk, 16qam"}, "signal.modulation", ["qpsk", "16qam"], ""),
        ({"link.mix_groups": "false, true"}, "link.mix_groups", ["false", "true"], ""),
        ({"fibre.groups": [[1], [1, 2]]}, "fibre.groups", ["[1]", "[1, 2]"], ""),
        ({"signal.launch_power": [["0 dBm", "1 dBm"]]}, "signal.launch_power", ['["0 dBm", "1 dBm"]'], ""),
        ({("solver.step", "seed"): ["1 km, 2 km", "3, 4"]}, "seed", [3, 4], ""),
    ],
)
def test_coordinates(run_file, axes, key, values, unit):
    assert make_grid(run_file, axes).coordinates()[key] == (values, unit)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({}, ["sweep: no axis given", "[sweep] or --set"]),
        ({"signal.lunch_power": "0 dBm"}, ["signal.lunch_power: unknown key (near: signal.launch_power"]),
        ({"power": [1]}, ["power: unknown key", "allowed: keys of fibre"]),
        ({"osnr": "20 dB"}, ["osnr: unknown key (near: receiver.osnr)"]),
        ({"link": [1]}, ["link: unknown key"]),
        ({"solver.step.size": [1]}, ["solver.step.size: unknown key"]),
        ({"output.file": ["a.h5"]}, ["output.file: no axis of a sweep"]),
        ({"solver.threads": [1, 2]}, ["solver.threads: no axis of a sweep"]),
        ({"seed": [1], ("seed", "link.spans"): [[1], [2]]}, ["seed: two axes given"]),
        ({"seed": "1:200:1", "receiver.noise_seed": "1:200:1"}, ["200 x 200 makes 40000 points", "10000"]),
        ({"solver.step": "2 km, 3 kg"}, ['solver.step: "3 kg"', "point 2 of 2: solver.step = 3 kg"]),
        (
            {"seed": [1, 2], "link.length": "2 km, 8 km"},
            ["solver.step: 4000 m", "point 1 of 4: seed = 1, link.length"],
        ),
        ({"solver.max_phase": "0.1 rad"}, ["solver.max_phase: given together with step", "point 1 of 1"]),
        ({"signal.launch_power": "3 dBm, 1 mW"}, ['values in "dBm", "mW" given', "one unit"]),
        ({"solver.step": [500.0]}, ["500.0 has no unit", "point 1 of 1"]),
    ],
)
def test_bad_axes(run_file, axes, words):
    with pytest.raises(InputError) as error:
        make_grid(run_file, axes)
    assert len(str(error.value).splitlines()) == 1
    for word in words:
        assert word in str(error.value)


def test_axes_of_elements_and_of_other_fibres(tmp_path):
    text = """
[fibre]
preset = "single-mode"
[fibres.dcf]
preset = "single-mode"
beta2 = "100 ps^2/km"
[[link.element]]
kind = "fibre"
length = "80 km"
[[link.element]]
kind = "fibre"
fibre = "dcf"
length = "10 km"
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 4
launch_power = "0 dBm"
channels = 1
centre_frequency = "193.4 THz"
[solver]
step = "1 km"
"""
    path = tmp_path / "link.toml"
    path.write_text(text)
    axes = {"link.element[1].length": ["10 km", "16 km"], "fibres.dcf.beta2": ["90 ps^2/km", "110 ps^2/km"]}
    grid = make_grid(path, axes)
    assert grid.shape == (2, 2)
    runs = [point.run for point in grid.points]
    assert [run.link.element[1].length for run in runs] == [10e3, 10e3, 16e3, 16e3]
    assert [run.fibres["dcf"].beta2 for run in runs] == pytest.approx([90e-27, 110e-27] * 2)
    assert all(run.link.element[0].length == 80e3 for run in runs)
    for key, line in {
        "link.element[2].length": r"link.element\[2\].length: element 2 given; allowed: .* from 0 below 2",
        "link.element[0].kind": "no axis of a sweep|unknown key",
        "link.element[0].colour": "unknown key",
        "fibres.dcf.colour": "unknown key",
    }.items():
        with pytest.raises(InputError, match=line):
            make_grid(path, {key: ["1 km"]})


def test_no_fields_in_the_result(run_file):
    run_file.write_text(run_file.read_text() + "[output]\nsave_field = true\n")
    with pytest.raises(InputError, match=r"output.save_field: true given for a sweep; allowed: false"):
        make_grid(run_file, {"seed": [1, 2]})


def test_equal_points_run_once_and_neighbours_share(run_file):
    axes = {"seed": [1, 1, 2], "solver.step": "4 km, 2 km, 4 km"}
    unique = make_grid(run_file, axes).unique_points()
    assert [(point.run.solver.step, point.run.seed) for point in unique] == [
        (2e3, 1),
        (2e3, 2),
        (4e3, 1),
        (4e3, 2),
    ]
