"""A sweep gives the bits of separate runs, goes on where it stopped, and keeps what it has of lost points."""

import os

import h5py
import numpy as np
import pytest

from wavefabric.base.errors import FieldLost, InputError, UnusableCheckpoint
from wavefabric.base.results import read_result
from wavefabric.optics import run_link, sweep
from wavefabric.optics.link import build, propagators
from wavefabric.optics.link import run as links
from wavefabric.optics.run_file.load import load
from wavefabric.optics.sweeps import run as sweeps
from wavefabric.optics.sweeps.points import make_grid
from wavefabric.optics.sweeps.result import read_sweep
from wavefabric.runtime.exchange.communicator import solo

QUANTITIES = ("q_squared_db", "evm", "ber_counted", "ber_from_q", "delay")


@pytest.mark.slow
@pytest.mark.parametrize("solver", ['integrator = "strang"', 'integrator = "rk4ip"', 'precision = "single"'])
def test_the_bits_of_separate_runs(run_file, tmp_path, solver):
    text = run_file.read_text().replace('integrator = "strang"', solver)
    run_file.write_text(text)
    result = sweep(run_file, {"signal.launch_power": "4 dBm, 10 dBm", "solver.step": "2 km, 4 km"})
    assert sorted(os.listdir()) == ["link-sweep.h5", "link.toml"]
    assert result["q_squared_db"].shape == (2, 2, 3, 3, 2)
    for i, power in enumerate(("4 dBm", "10 dBm")):
        for k, step in enumerate(("2 km", "4 km")):
            (tmp_path / "one.toml").write_text(text.replace("8 dBm", power).replace("4 km", step))
            one = read_result(run_link("one.toml", force=True, warn=lambda _: None).path)
            for p, name in enumerate(result["position"]):
                for quantity in QUANTITIES:
                    value = one[f"received/{name}/{quantity}"]
                    assert np.array_equal(result[quantity][i, k, p], value, equal_nan=True), quantity
                assert result["distance"][i, k, p] == one.attrs(f"received/{name}")["distance_m"]
            for name in ("steps", "ffts", "step", "local_error", "energy_drift", "resonance_step_m"):
                assert result[name][i, k] == one.attrs("solver")[name], name
            assert np.array_equal(result["launch_power"][i, k], one["signal/launch_power"])


@pytest.mark.slow
def test_what_is_shared_is_made_once(run_file, monkeypatch):
    made = []

    def counting(module, name):
        plain = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *words, **more: made.append(name) or plain(*words, **more))

    for module, name in ((build, "build_fibre"), (propagators, "Propagator"), (links, "provenance")):
        counting(module, name)
    received = []
    plain = links._Link._receive
    monkeypatch.setattr(
        links._Link, "_receive", lambda s, name, n: received.append(name) or plain(s, name, n)
    )
    sweep(run_file, {"signal.launch_power": "-2:2:2 dBm", "solver.step": "2 km, 4 km"})
    assert sorted(made) == ["Propagator", "build_fibre", "provenance"]
    assert received.count("back_to_back") == 3
    made.clear()
    sweep(run_file, {"fibre.groups": [1, 2], "receiver.noise_seed": [1, 2]}, output="other.h5")
    assert sorted(made) == ["Propagator"] * 2 + ["build_fibre"] * 2 + ["provenance"]


def test_points_of_other_shapes(run_file):
    axes = {"fibre.groups": [1, 2], ("link.spans", "signal.channels"): [[1, 2], [1, 2]]}
    result = sweep(run_file, axes)
    q = result["q_squared_db"]
    assert q.shape == (2, 2, 3, 3, 2)
    assert list(result["mode"]) == [1, 2, 3]
    assert list(result["channel"]) == [1, 2]
    # groups 1 is one mode of three; one span has two positions, and one channel.
    assert np.isfinite(q[0, 0]).sum() == 2
    assert np.isfinite(q[1, 1]).all()
    assert np.isfinite(result["distance"]).sum() == 2 * 5
    assert list(result["signal.channels"]) == [1, 2]
    assert result.shape == (2, 2)


def test_dimension_scales_and_units(run_file):
    axes = {
        "signal.launch_power": "0:2:2 dBm",
        ("solver.step", "signal.modulation"): ["2 km, 4 km", "qpsk, 16qam"],
    }
    result = sweep(run_file, axes)
    with h5py.File(result.path) as file:
        q = file["q_squared_db"]
        names = ["signal.launch_power", "solver.step", "position", "mode", "channel"]
        assert [dict(dim.items()).keys() for dim in q.dims] == [{name} for name in names]
        assert [dim[0].shape[0] for dim in q.dims] == list(q.shape)
        assert file["signal.launch_power"].is_scale
        assert not file["signal.modulation"].is_scale
        assert list(file["signal.modulation"].dims[0].keys()) == ["solver.step"]
        assert file["signal.launch_power"].attrs["units"] == "dBm"
        assert [
            dim.keys()[0] if hasattr(dim.keys(), "__getitem__") else next(iter(dim))
            for dim in file["steps"].dims
        ]
        assert file.attrs["axes"] == "signal.launch_power solver.step"
        assert "signal.modulation" in file.attrs["coordinates"].split()
        assert {"units", "description"} <= set(q.attrs)
        assert file["run_file"].asstr()[()] == load_text()
    assert list(result.axes["signal.launch_power"]) == [0, 2]
    assert list(result["mode"]) == ["LP01", "LP11a", "LP11b"]
    assert result.label("signal.launch_power", 1) == "2 dBm"


def load_text():
    with open("link.toml") as file:
        return file.read()


@pytest.mark.slow
def test_means_and_the_best_point(run_file):
    result = sweep(run_file, {"signal.launch_power": "2:14:4 dBm", "seed": [1, 2]})
    q = result["q_squared_db"][:, :, 2]
    expected = 10 * np.log10((10 ** (q / 10)).mean(axis=(2, 3)))
    np.testing.assert_allclose(result.mean_q_squared_db(), expected)
    assert result.best() == np.unravel_index(expected.argmax(), expected.shape)


def interrupted(at, monkeypatch):
    """Ends the process, as it were, in the run of a point after so many."""
    plain, count = sweeps.run_link, []

    def run(*words, **more):
        count.append(words[0])
        if len(count) == at:
            raise KeyboardInterrupt
        return plain(*words, **more)

    monkeypatch.setattr(sweeps, "run_link", run)
    return count


def test_finished_points_are_not_repeated(run_file, monkeypatch):
    axes = {"signal.launch_power": "0 dBm, 2 dBm"}
    interrupted(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        sweep(run_file, axes)
    assert sorted(os.listdir()) == ["link-sweep.h5.points", "link.toml"]
    assert len(os.listdir("link-sweep.h5.points")) == 1
    monkeypatch.undo()
    os.chdir(run_file.parent)
    runs = interrupted(0, monkeypatch)
    result = sweep(run_file, axes)
    assert len(runs) == 1
    assert sorted(os.listdir()) == ["link-sweep.h5", "link.toml"]
    whole = sweep(run_file, axes, output="whole.h5")
    for quantity in QUANTITIES:
        assert np.array_equal(result[quantity], whole[quantity], equal_nan=True)


@pytest.mark.slow
def test_another_sweep_is_refused_but_more_values_are_not(run_file, monkeypatch):
    interrupted(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        sweep(run_file, {"signal.launch_power": "0:6:2 dBm"})
    monkeypatch.undo()
    os.chdir(run_file.parent)
    with pytest.raises(
        UnusableCheckpoint, match=r"points: holds 2 points of another sweep .*remove it to start"
    ):
        sweep(run_file, {"signal.launch_power": "4:6:2 dBm"})
    text = run_file.read_text()
    run_file.write_text(text.replace("20 dB", "21 dB"))
    with pytest.raises(UnusableCheckpoint, match="2 points of another sweep"):
        sweep(run_file, {"signal.launch_power": "0:6:2 dBm"})
    run_file.write_text(text)
    runs = interrupted(0, monkeypatch)
    assert sweep(run_file, {"signal.launch_power": "-2:6:2 dBm"}).shape == (5,)
    assert len(runs) == 3


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_used_costs_its_point_alone(run_file, monkeypatch, capsys):
    axes = {"signal.launch_power": "0 dBm, 4 dBm"}
    interrupted(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        sweep(run_file, axes)
    (last,) = {point.fingerprint for point in make_grid(run_file, axes).points} - {
        name.removesuffix(".h5") for name in os.listdir("link-sweep.h5.points")
    }
    with open(f"link-sweep.h5.points/{last}.h5.checkpoint", "wb") as file:
        file.write(b"WFCHECK1 damaged")
    runs = interrupted(0, monkeypatch)
    assert np.isfinite(sweep(run_file, axes)["q_squared_db"]).all()
    assert len(runs) == 2  # refused, then anew
    assert "signal.launch_power = 4 dBm: starts anew, its checkpoint is damaged" in capsys.readouterr().err
    assert sorted(os.listdir()) == ["link-sweep.h5", "link.toml"]


@pytest.mark.slow
def test_on_a_gpu_too_shared_parts_change_no_bit(run_file):
    """A kept propagator captures its steps anew; the GPU is emulated."""
    from emulated_device import EmulatedDevice

    run_file.write_text(run_file.read_text().replace("40 km", "4 km").replace("symbols = 64", "symbols = 16"))
    axes = {"signal.launch_power": "10 dBm, 14 dBm", "solver.step": "1 km, 2 km"}
    result = sweep(run_file, axes, comm=solo(EmulatedDevice()))
    for point in make_grid(run_file, axes).points:
        path = run_link(point.run, "one.h5", force=True, comm=solo(EmulatedDevice()), warn=print).path
        one = read_result(path)
        assert one.attrs("solver")["device"] == "cuda:0"
        for position, name in enumerate(result["position"]):
            expected = one[f"received/{name}/q_squared_db"]
            assert np.array_equal(result["q_squared_db"][point.index][position], expected)


@pytest.mark.slow
def test_starting_anew_leaves_the_files_of_others(run_file, monkeypatch, tmp_path):
    interrupted(2, monkeypatch)
    axes = {"seed": [1, 2]}
    with pytest.raises(KeyboardInterrupt):
        sweep(run_file, axes)
    (tmp_path / "link-sweep.h5.points" / "mine.txt").write_text("mine")
    runs = interrupted(0, monkeypatch)
    sweep(run_file, axes, resume=False)
    assert len(runs) == 2
    assert os.listdir("link-sweep.h5.points") == ["mine.txt"]


def test_a_lost_point_stays_nan(run_file, capsys):
    # The second gain overflows single precision behind the second span.
    run_file.write_text(run_file.read_text() + 'precision = "single"\n')
    result = sweep(run_file, {"link.gain": ["10 dB", "199 dB"]})
    assert "link.gain = 199 dB: field: " in capsys.readouterr().err
    q = result["q_squared_db"]
    assert np.isfinite(q[0]).all()
    assert np.isnan(q[1]).all()
    assert result["fault"][0] == ""
    assert "not finite" in result["fault"][1]
    assert result.best() == (0,)
    with pytest.raises(FieldLost, match="no point has a result"):
        sweep(run_file, {"link.gain": ["199 dB"]}, output="lost.h5")
    assert not any(name.startswith("lost") for name in os.listdir())


def test_a_fault_names_the_point_and_keeps_the_others(run_file):
    axes = {"fibre.attenuation": ["0.2 dB/km", "9 dB/km"]}
    with pytest.raises(InputError, match=r"link.length: .*; point: fibre.attenuation = 9 dB/km"):
        sweep(run_file, axes)
    assert not os.path.exists("link-sweep.h5")


@pytest.mark.slow
def test_warnings_come_once_and_are_kept(run_file, capsys):
    axes = {"seed": [1, 2, 3], "solver.step": "1 km, 4 km"}
    result = sweep(run_file, axes)
    assert capsys.readouterr().err.count("4 km is above the resonance limit") == 1
    texts = np.array(result["warnings"], object).reshape(result.shape)
    assert all(text == "" for text in texts[:, 0])
    assert all("above the resonance limit" in text for text in texts[:, 1])


@pytest.mark.slow
def test_warnings_that_differ_in_numbers_are_counted(run_file, capsys):
    sweep(run_file, {"solver.step": "2 km, 4 km, 5 km"})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "2 km is above the resonance limit" in lines[0]
    assert lines[1].endswith("2 warnings more that differ in numbers: see warnings in link-sweep.h5")


@pytest.mark.slow
def test_what_is_there_is_not_replaced(run_file, tmp_path):
    (tmp_path / "link-sweep.h5").write_text("mine")
    with pytest.raises(InputError, match=r"link-sweep\.h5 exists"):
        sweep(run_file, {"seed": [1, 2]})
    assert sorted(os.listdir()) == ["link-sweep.h5", "link.toml"]
    sweep(run_file, {"seed": [1, 2]}, force=True)
    with pytest.raises(InputError, match="holds no axes of a sweep"):
        read_sweep(run_link(load(run_file), warn=lambda _: None).path)


@pytest.mark.slow
def test_theory_is_taken_along(run_file, monkeypatch):
    """Whatever a run writes below /theory, by receiver position."""
    plain = links.payload

    def with_theory(*words):
        content = plain(*words)
        value = content["received"]["span_2"]["q_squared_db"].value.mean()
        return content | {"theory": {"span_2": {"q_squared_db": (value, "dB", "expected")}}}

    monkeypatch.setattr(links, "payload", with_theory)
    result = sweep(run_file, {"seed": [1, 2]})
    np.testing.assert_allclose(
        result["theory/span_2/q_squared_db"], result["q_squared_db"][:, 2].mean(axis=(1, 2))
    )


@pytest.mark.slow
def test_one_progress_over_all_points(run_file, monkeypatch):
    seen = []

    class Shown(links.Progress):
        def start(self, total_steps, label):
            seen.append((total_steps, label))

        def update(self, done, message=""):
            seen.append(done)

    monkeypatch.setattr("wavefabric.optics.sweeps.run._PROGRESS_SECONDS", 0.0)
    sweep(run_file, {"seed": [1, 2], "solver.step": "2 km, 4 km"}, progress=Shown())
    starts, updates = [s for s in seen if isinstance(s, tuple)], [s for s in seen if not isinstance(s, tuple)]
    assert {total for total, _ in starts} == {2 * (40 + 20)}
    assert updates == sorted(updates)
    assert updates[-1] == pytest.approx(120, abs=20)
