"""A field from a file is what is launched; files that do not fit are refused before anything is written."""

import h5py
import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.optics.link.run import run_link
from wavefabric.optics.run_file.load import RunFile
from wavefabric.runtime.exchange import solo

SAMPLES = 256


def settings(**changes):
    """A linear link of one mode; ``changes`` of [signal]."""
    signal = {
        "symbol_rate": 32e9,
        "symbols": SAMPLES // 4,
        "samples_per_symbol": 4,
        "launch_power": 1e-3,
        "channels": 1,
        "centre_frequency": 193.4e12,
    }
    tables = {
        "fibre": {"preset": "single-mode", "gamma": 0.0, "attenuation": 0.0},
        "link": {"length": 10e3},
        "signal": signal | changes,
        "solver": {"step": 10e3},
        "output": {"save_field": True, "figures": False},
    }
    return RunFile.model_validate(tables)


def write(path, field, name="field", **attrs):
    with h5py.File(path, "w") as file:
        file[name] = field
        file[name].attrs.update(attrs)
    return path


def simulate(run, cpu, path):
    run_link(run, path, comm=solo(cpu), warn=lambda _: None)
    return read_result(path)


def test_the_field_of_a_file_is_launched(cpu, tmp_path):
    """Half the transmitter's own amplitude: half of the field at the end, and the same Q²."""
    from wavefabric.optics import Transmitter

    run = settings()
    sent = cpu.empty((2, SAMPLES), complex)
    Transmitter(run.signal.wdm_grid, "qpsk", 0.1, 1e-3).fill(cpu, sent)
    file = write(tmp_path / "w.h5", sent / 2, sample_rate_Hz=128e9)
    own = simulate(run, cpu, tmp_path / "own.h5")
    half = simulate(settings(waveform=file), cpu, tmp_path / "half.h5")
    np.testing.assert_allclose(half["field"], own["field"] / 2, atol=1e-15)
    assert half["received/span_1/q_squared_db"].min() > 200


@pytest.mark.slow
def test_other_files_of_the_same_field(cpu, tmp_path):
    """A NumPy array, and MATLAB's matrix (v7.3): columns first, numbers of a real and an imaginary part."""
    rng = np.random.default_rng(1)
    field = 0.02 * (rng.normal(size=(2, SAMPLES)) + 1j * rng.normal(size=(2, SAMPLES)))
    np.save(tmp_path / "w.npy", field)
    pairs = np.empty(field.shape, [("real", float), ("imag", float)])
    pairs["real"], pairs["imag"] = field.real, field.imag
    write(tmp_path / "rows.h5", pairs)
    write(tmp_path / "w.mat", np.ascontiguousarray(pairs.T), MATLAB_class=np.bytes_(b"double"))
    own = simulate(settings(waveform=write(tmp_path / "w.h5", field)), cpu, tmp_path / "own.h5")["field"]
    for name in ("w.npy", "rows.h5", "w.mat"):
        run = settings(waveform=tmp_path / name)
        np.testing.assert_array_equal(simulate(run, cpu, tmp_path / f"{name}.out.h5")["field"], own)


@pytest.mark.parametrize(
    ("array", "line"),
    [
        (np.ones((2, SAMPLES)), "w.npy has the type float64; allowed: complex numbers"),
        (np.ones((SAMPLES, 2), complex), r"has the shape \(256, 2\); allowed: \(2, 256\)"),
        (np.array([{}]), "w.npy cannot be read; allowed: a .npy file"),
    ],
)
def test_arrays_that_do_not_fit(cpu, tmp_path, array, line):
    np.save(tmp_path / "w.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=f"^signal.waveform: .*{line}"):
        simulate(settings(waveform=tmp_path / "w.npy"), cpu, tmp_path / "out.h5")


def test_the_field_of_another_run(cpu, tmp_path):
    """A result with save_field is a waveform; another content makes another run."""
    simulate(settings(), cpu, tmp_path / "first.h5")
    run = settings(waveform=tmp_path / "first.h5")
    identity = run.identity()
    two = simulate(run, cpu, tmp_path / "second.h5")["field"]
    spectrum = np.fft.fft(read_result(tmp_path / "first.h5")["field"])
    w = 2 * np.pi * np.fft.fftfreq(SAMPLES, 1 / 128e9)
    np.testing.assert_allclose(
        np.fft.fft(two), spectrum * np.exp(-1j * 21.7e-27 / 2 * w**2 * 10e3), atol=1e-13
    )
    write(tmp_path / "first.h5", two)
    assert run.identity() != identity


@pytest.mark.parametrize(
    ("field", "attrs", "text"),
    [
        (np.ones((2, SAMPLES)), {}, "has no complex dataset field"),
        (np.ones((4, SAMPLES), complex), {}, r"has the shape \(4, 256\); allowed: \(2, 256\)"),
        (np.ones((2, SAMPLES), complex), {"sample_rate_Hz": 1e9}, "has 1e.09 Hz; allowed: 1.28e.11 Hz"),
        (np.full((2, SAMPLES), np.nan + 0j), {}, "row 0 of field .* is not finite"),
    ],
)
def test_files_that_do_not_fit(cpu, tmp_path, field, attrs, text):
    file = write(tmp_path / "w.h5", field, **attrs)
    with pytest.raises(InputError, match=f"signal.waveform: .*{text}"):
        simulate(settings(waveform=file), cpu, tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists()


def test_no_hdf5_file(cpu, tmp_path):
    (tmp_path / "w.h5").write_text("text")
    with pytest.raises(InputError, match=r"w\.h5"):
        simulate(settings(waveform=tmp_path / "w.h5"), cpu, tmp_path / "out.h5")


@pytest.mark.parametrize(
    "receiver", [{}, pytest.param({"back_propagation": {"step": 10e3}}, marks=pytest.mark.slow)]
)
def test_a_field_off_the_carriers_frequency(cpu, tmp_path, receiver):
    """The frame is found 1 GHz away, also behind the link solved backwards; that of other symbols is not."""
    from wavefabric.optics import Transmitter

    run = settings()
    sent = cpu.empty((2, SAMPLES), complex)
    Transmitter(run.signal.wdm_grid, "qpsk", 0.1, 1e-3).fill(cpu, sent)
    sent = sent * np.exp(2j * np.pi * 1e9 / 128e9 * np.arange(SAMPLES))
    run = settings(waveform=write(tmp_path / "w.h5", sent, sample_rate_Hz=128e9))
    for seed, lost in ((1, False), (2, True)):
        tables = run.model_dump(exclude_unset=True) | {"seed": seed, "receiver": receiver}
        result = run_link(RunFile.model_validate(tables), tmp_path / "o.h5", True, comm=solo(cpu), warn=print)
        positions = [
            text.split(", receiver: no frame found in mode 1, channel 1: ")[0] for text in result.warnings
        ]
        assert positions == ["back_to_back", "span_1"] * lost
        q = read_result(tmp_path / "o.h5")["received/span_1/q_squared_db"]
        assert (q.max() < 0) == lost
        assert (q.min() > 15) != lost
