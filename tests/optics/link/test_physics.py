"""What a link does to light, against closed forms: loss, gain, amplifier noise, dispersion, OSNR."""

import math
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import erfc

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.base.system.progress import Progress
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.link.run import run_link
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.signal.amplifier import Amplifier
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RankCheckpoint

PLANCK, CARRIER, RATE, SPAN = 6.62607015e-34, 193.4e12, 32e9, 50e3
#: 0.2 dB/km over a span of 50 km: 10 dB.
LOSS_DB = 10.0
SYMBOLS, SAMPLES, POWER = 4096, 4, 1e-3


@pytest.fixture
def link(cpu, tmp_path):
    """Run a link of a linear fibre without dispersion unless changed; gives the result."""
    made = []

    def simulate(comm=None, progress=None, path=None, **changes):
        tables = {
            "seed": 5,
            "fibre": {
                "preset": "single-mode",
                "attenuation": "0.2 dB/km",
                "gamma": "0 1/W/km",
                "beta2": "0 ps^2/km",
            },
            "link": {"length": SPAN},
            "signal": {
                "symbol_rate": RATE,
                "symbols": SYMBOLS,
                "samples_per_symbol": SAMPLES,
                "launch_power": POWER,
                "channels": 1,
                "centre_frequency": CARRIER,
            },
            "receiver": {"phase_window": 0},
            "solver": {"step": SPAN, "integrator": "strang"},
            "output": {"save_field": True, "figures": False, "checkpoint_interval": 0.0},
        }
        for table, values in changes.items():
            tables[table] = values if table == "seed" else tables[table] | values
            if table == "fibre" and "preset" not in values and "modes_csv" in values:
                tables[table] = values
        made.append(path or tmp_path / f"{len(made)}.h5")
        run = RunFile.model_validate(tables)
        run_link(run, made[-1], progress=progress, comm=comm or solo(cpu))
        return read_result(made[-1])

    return simulate


def noise_of(simulate, spans, **changes):
    """The field behind so many amplifiers less the same without their noise: (rows, N), √W."""
    table = {"spans": spans} | changes.pop("link", {})
    noisy = simulate(link=table | {"noise_figure": "5 dB"}, **changes)["field"]
    return noisy - simulate(link=table, **changes)["field"]


def density(gain_db=LOSS_DB, figure_db=5.0):
    """Noise of one amplifier per row, W/Hz: (G F − 1) h ν / 2."""
    return (10 ** ((gain_db + figure_db) / 10) - 1) * PLANCK * CARRIER / 2


def mean_power(rows):
    return (abs(rows) ** 2).mean(axis=1)


# --- Amplifier noise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spans", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)]
)
def test_noise_of_all_spans_adds_up_in_power(link, spans):
    """Each amplifier makes up for its span: n spans leave n times the noise of one, not n²."""
    noise = noise_of(link, spans)
    wanted = spans * density() * RATE * SAMPLES
    np.testing.assert_allclose(mean_power(noise), wanted, rtol=5 / math.sqrt(noise.shape[1]))


@pytest.mark.slow
def test_noise_differs_from_span_to_span_and_row_to_row(link):
    one, two = noise_of(link, 1), noise_of(link, 2)
    rows = np.concatenate([one, two - one])  # of the first amplifier, of the second
    scale = density() * RATE * SAMPLES
    apart = rows @ rows.conj().T / rows.shape[1] / scale
    np.testing.assert_allclose(apart, np.eye(4), atol=5 / math.sqrt(rows.shape[1]))


@pytest.mark.slow
def test_noise_differs_from_mode_to_mode_and_seed_to_seed(link):
    fibre = {"preset": "graded-index-62.5", "groups": 2, "attenuation": "0.2 dB/km", "n2": "0 m^2/W"}
    fibre |= {"dispersion": "paper"}
    signal = {"symbols": 1024}
    table = {"fibre": fibre, "signal": signal}
    two_seeds = [noise_of(link, 1, seed=seed, **_plain(table)) for seed in (5, 6)]
    rows = np.concatenate(two_seeds)
    apart = rows @ rows.conj().T / rows.shape[1] / (density() * RATE * SAMPLES)
    np.testing.assert_allclose(apart, np.eye(12), atol=5 / math.sqrt(rows.shape[1]))


def _plain(table):
    """A multimode fibre's table without the keys of `single-mode`."""
    return table | {"fibre": table["fibre"] | {"gamma": None, "beta2": None}}


@pytest.mark.slow
def test_gain_beyond_the_loss_multiplies_earlier_noise(link):
    """A gain of 12 dB on 10 dB of loss: signal and noise that are there grow by 2 dB a span."""
    spans, net = 3, 10**0.2
    noise = noise_of(link, spans, link={"gain": "12 dB"})
    wanted = density(gain_db=12.0) * RATE * SAMPLES * sum(net**k for k in range(spans))
    np.testing.assert_allclose(mean_power(noise), wanted, rtol=5 / math.sqrt(noise.shape[1]))
    clean = link(link={"spans": spans, "gain": "12 dB"})["field"]
    np.testing.assert_allclose(mean_power(clean), POWER / 2 * net**spans, rtol=1e-9)


@pytest.mark.parametrize("spans", [1, 4])
def test_q_of_amplifier_noise(link, spans):
    """Matched filter and white noise: Q² = (P/2) / (n S R_s) for each polarisation."""
    result = link(
        link={"spans": spans, "noise_figure": "15 dB"},
        signal={"launch_power": 1e-5, "channels": 2, "spacing": "40 GHz"},
        receiver={"back_to_back": False, "at": "end"},
    )
    q = result[f"received/span_{spans}/q_squared_db"]
    wanted = 10 * math.log10(1e-5 / 2 / (spans * density(figure_db=15.0) * RATE))
    assert q.mean() == pytest.approx(wanted, abs=5 * 4.3 / math.sqrt(4 * SYMBOLS))


# --- Noise at the receiver ---------------------------------------------------------------------------------


def test_back_to_back_is_white_gaussian_noise(link):
    """OSNR 10 dB: Q² = OSNR · 12.5 GHz/R_s = 5.92 dB, and the error ratio of QPSK at that Q."""
    result = link(
        receiver={"osnr": "10 dB"}, signal={"channels": 3, "spacing": "50 GHz", "samples_per_symbol": 8}
    )
    path = "received/back_to_back"
    wanted = 10 * 12.5 / 32
    scatter = 5 * 4.3 / math.sqrt(6 * SYMBOLS)
    assert result[f"{path}/q_squared_db"].mean() == pytest.approx(10 * math.log10(wanted), abs=scatter)
    ratio, bits = erfc(math.sqrt(wanted / 2)) / 2, 12 * SYMBOLS
    assert result[f"{path}/ber_counted"].mean() == pytest.approx(ratio, abs=5 * math.sqrt(ratio / bits))
    np.testing.assert_allclose(result[f"{path}/ber_from_q"].mean(), ratio, rtol=0.1)
    points = result[f"{path}/constellation"][0]
    noise = points - np.sqrt(0.5) * (np.sign(points.real) + 1j * np.sign(points.imag))
    across = (noise[0] * noise[1].conj()).mean() / (abs(noise) ** 2).mean()
    assert abs(across) < 5 / math.sqrt(points.shape[1])


@pytest.mark.parametrize("gain", [None, "7 dB", "13 dB"])
def test_loaded_noise_follows_the_net_gain_of_all_spans(link, gain):
    """In a linear link without amplifier noise Q² is the same everywhere, whatever the net gain."""
    result = link(
        link={"spans": 3} | ({"gain": gain} if gain else {}),
        receiver={"osnr": "15 dB"},
        signal={"symbols": 256},
        fibre={"beta2": "-21.7 ps^2/km", "beta3": "0.1 ps^3/km"},
    )
    start = result["received/back_to_back/q_squared_db"]
    for span in (1, 2, 3):
        np.testing.assert_allclose(result[f"received/span_{span}/q_squared_db"], start, rtol=0, atol=1e-7)
        assert result.attrs(f"received/span_{span}")["distance_m"] == span * SPAN


# --- Loss, gain, dispersion --------------------------------------------------------------------------------

MOST_TABLES = {
    "modes.csv": "mode_group,l,m,a_eff_um2\n1,0,1,80\n2,1,1,100\n",
    "groups.csv": "mode_group,dmgd_ps_per_km,beta2_ps2_per_km,beta3_ps3_per_km,attenuation_db_per_km\n"
    "1,0,-21,0.1,0.2\n2,7,-25,-0.2,0.23\n",
    "kappa.csv": "1,1\n1,1\n",
}


def tables(tmp_path):
    """[fibre] of three modes in two groups with other delay, dispersion and loss; linear."""
    for name, text in MOST_TABLES.items():
        (tmp_path / name).write_text(text)
    files = {key: str(tmp_path / f"{key[:-4]}.csv") for key in ("modes_csv", "groups_csv", "kappa_csv")}
    # Given at the middle of the channels, so that they are used as they are.
    return files | {"gamma": "0 1/W/km", "wavelength": f"{SPEED_OF_LIGHT / CARRIER * 1e9!r} nm"}


@pytest.mark.parametrize("gain", [None, "12 dB"])
def test_field_behind_the_link(link, tmp_path, cpu, gain):
    """exp(L̂ n L) of the transmitted field, each mode with its own loss, behind n amplifiers of one gain."""
    spans = 2
    result = link(
        fibre=tables(tmp_path),
        link={"spans": spans} | ({"gain": gain} if gain else {}),
        signal={"symbols": 64},
        receiver={"osnr": "20 dB"},
    )
    sender = Transmitter(WdmGrid([CARRIER], RATE, SAMPLES, 64), "qpsk", 0.1, POWER, seed=5)
    sent = cpu.empty((6, sender.grid.samples), "complex128")
    sender.fill(cpu, sent)
    km, omega = SPAN / 1e3, 2 * np.pi * np.fft.fftfreq(sender.grid.samples, 1 / (RATE * SAMPLES)) / 1e12
    decibels = np.array([0.2, 0.23, 0.23]) * km
    amplifier_db = float(gain.split()[0]) if gain else decibels.mean()
    wanted = np.empty_like(sent)
    for row in range(6):
        b1, b2, b3 = [(0, -21, 0.1), (7, -25, -0.2)][row >= 2]  # ps/km, ps²/km, ps³/km
        phase = -b1 * omega + b2 / 2 * omega**2 - b3 / 6 * omega**3
        level = 10 ** (spans * (amplifier_db - decibels[row // 2]) / 20)
        wanted[row] = level * np.fft.ifft(np.fft.fft(sent[row]) * np.exp(1j * phase * km * spans))
    np.testing.assert_allclose(result["field"], wanted, rtol=0, atol=1e-9 * abs(wanted).max())


def test_dispersion_and_delay_are_undone_behind_every_span(link, tmp_path):
    """Noiseless and linear: nothing is left of them, also where a mode has another delay and loss."""
    result = link(
        fibre=tables(tmp_path),
        link={"spans": 3},
        signal={"symbols": 64, "channels": 3, "spacing": "50 GHz", "samples_per_symbol": 8},
    )
    for path in ("back_to_back", "span_1", "span_2", "span_3"):
        assert result[f"received/{path}/evm"].max() < 1e-6, path


def test_mixing_is_undone_behind_every_span(link):
    fibre = {"preset": "graded-index-62.5", "groups": 3, "n2": "0 m^2/W", "attenuation": "0.2 dB/km"}
    changes = _plain({"fibre": fibre}) | {"link": {"spans": 2, "mix_groups": True}}
    result = link(signal={"symbols": 64}, **changes)
    assert result["received/span_2/evm"].max() < 1e-6


def test_a_span_that_loses_too_much_is_refused(link):
    with pytest.raises(InputError, match=r"link\.length: a span loses 240 dB; allowed: up to 200 dB"):
        link(link={"length": 1200e3})


def test_the_gain_of_a_lossless_link_is_one(link):
    assert link(fibre={"attenuation": "0 dB/km"}, receiver={"at": "end"})["received/span_1/evm"].max() < 1e-6
    assert Amplifier(1.0, 0.0).noise_density(CARRIER) == 0


# --- What a checkpoint belongs to --------------------------------------------------------------------------


class Presses(Progress):
    """Ctrl-C at the second step of the span."""

    def update(self, done, message=""):
        if done == 2 and message:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_waits_for_a_checkpoint(link, tmp_path):
    """Not due for an hour, it is saved at once; nobody is interrupted by the next start."""
    output = tmp_path / "out.h5"
    changes = {
        "signal": {"symbols": 64},
        "solver": {"step": SPAN / 8},
        "output": {"checkpoint_interval": 3600.0, "checkpoint_every": 4},
    }
    with pytest.raises(KeyboardInterrupt):
        link(progress=Presses(), path=output, **changes)
    assert output.with_name("out.h5.checkpoint").exists()
    before = signal.getsignal(signal.SIGINT)
    assert before is signal.default_int_handler
    assert link(path=output, **changes).attrs("solver")["steps"] == 8


def test_a_link_runs_beside_the_main_thread(link):
    """Where no signal can be caught."""
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(link, signal={"symbols": 64}).result()
    assert result["received/span_1/evm"].max() < 1e-6


class Ends(Progress):
    """Ctrl-C in the second span."""

    def start(self, total, label):
        if label.startswith("span 2"):
            raise KeyboardInterrupt


def test_a_checkpoint_is_due_behind_every_span_but_the_last(link, monkeypatch):
    """Behind the amplifier, so that a span that is done is not begun again; and inside of each span."""
    saved, save = [], RankCheckpoint.save

    def count_and_save(files, arrays, state, last):
        saved.append((state["element"], state["inside"] is None))
        save(files, arrays, state, last)

    monkeypatch.setattr(RankCheckpoint, "save", count_and_save)
    link(link={"spans": 3}, signal={"symbols": 64})
    assert [element for element, behind in saved if behind] == [2, 4]  # fibre and amplifier in turn


@pytest.mark.slow
def test_a_checkpoint_serves_any_number_of_threads(link, tmp_path):
    """Threads change no bit: a resumed run is the one that was begun."""
    output = tmp_path / "out.h5"
    changes = {"link": {"spans": 2}, "signal": {"symbols": 64}, "path": output}
    one = solo(get_device("cpu", threads=1))
    try:
        two = solo(get_device("cpu", threads=2))
    except ValueError:
        pytest.skip("this machine has one core")
    with pytest.raises(KeyboardInterrupt):
        link(comm=one, progress=Ends(), **changes)
    resumed = link(comm=two, **changes)["received/span_2/evm"]
    whole = link(comm=one, **{**changes, "path": tmp_path / "whole.h5"})["received/span_2/evm"]
    assert (resumed == whole).all()
