"""The receiver against closed forms, and each of its parts against a known disturbance."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.random_coupling import ModeMixing, total
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device

CPU = get_device("cpu")
GRID = WdmGrid.centred(193.4e12, 50e9, 3, 32e9, 8, 1000)
BETA = np.array([[0.0, -23.1e-27, 0.12e-39, -2e-55], [-7.3e-15, -24e-27, 0.10e-39, 3e-55]])
LENGTH = 80e3


def sent(transmitter, rows=4, dtype=np.complex128):
    field = CPU.zeros((rows, transmitter.grid.samples), dtype)
    transmitter.fill(CPU, field)
    return field


def qpsk(**changes):
    arguments = {"grid": GRID, "constellation": "qpsk", "rolloff": 0.1, "launch_power": 1e-3, "seed": 4}
    return Transmitter(**(arguments | changes))


def disperse(field, beta, length, sample_rate):
    """exp(L z) from the definition i Σ iⁿ/n! βₙ ∂ⁿ/∂tⁿ, ∂/∂t → +iω in NumPy's transform."""
    omega = 2 * np.pi * np.fft.fftfreq(field.shape[1], 1 / sample_rate)
    factorial = [1, 2, 6, 24]
    out = np.empty_like(field)
    for row in range(field.shape[0]):
        terms = zip(beta[row // 2], factorial, range(1, 5), strict=True)
        operator = sum(1j * 1j**n / f * b * (1j * omega) ** n for b, f, n in terms)
        out[row] = np.fft.ifft(np.fft.fft(field[row]) * np.exp(operator * length))
    return out


@pytest.mark.parametrize("name", ["qpsk", "16qam", "64qam", "gaussian"])
@pytest.mark.parametrize("rolloff", [0.0, 0.1, 0.5])
def test_noiseless_back_to_back_is_exact(name, rolloff):
    transmitter = qpsk(constellation=name, rolloff=rolloff)
    field = sent(transmitter)
    before = field.copy()
    result = Receiver(transmitter).receive(CPU, field)
    assert result.evm.shape == (2, 3)
    assert result.evm.max() < 1e-12
    assert np.nanmax(result.ber_counted, initial=0) == 0
    np.testing.assert_array_equal(field, before)


def test_qpsk_at_20_db_osnr_has_the_textbook_q():
    transmitter = qpsk(grid=WdmGrid.centred(193.4e12, 50e9, 3, 32e9, 8, 8192))
    result = Receiver(transmitter, 20.0).receive(CPU, sent(transmitter))
    # OSNR × 12.5 GHz / 32 GBaud = OSNR · 25/64
    assert result.q_squared_db.mean() == pytest.approx(10 * np.log10(100 * 25 / 64), abs=0.05)
    assert abs(result.q_squared_db - 15.92).max() < 0.2


@pytest.mark.parametrize(("name", "osnr_db"), [("qpsk", 11.0), ("16qam", 17.0), ("64qam", 22.0)])
def test_counted_errors_agree_with_theory(name, osnr_db):
    transmitter = qpsk(constellation=name, grid=WdmGrid.centred(193.4e12, 50e9, 3, 32e9, 8, 4096))
    result = Receiver(transmitter, osnr_db, phase_window=None).receive(CPU, sent(transmitter))
    theory = float(transmitter.format.ber(10 ** (osnr_db / 10) * 25 / 64))
    assert 1e-3 < theory < 5e-2
    assert result.ber_counted.mean() == pytest.approx(theory, rel=0.1)
    assert result.ber_from_q.mean() == pytest.approx(theory, rel=0.05)


def test_a_noise_seed_means_the_same_in_every_version():
    """A value once drawn, as for the symbols."""
    transmitter = qpsk(grid=WdmGrid.centred(193.4e12, 50e9, 2, 32e9, 4, 16))
    receiver = Receiver(transmitter, 20.0, noise_seed=7, phase="none", clock="none")
    evm = receiver.receive(CPU, sent(transmitter, 2)).evm
    np.testing.assert_allclose(evm, [[0.12582894390678392, 0.16204925105215606]], rtol=1e-9)


def test_noise_is_white_against_the_channels_own_power():
    transmitter = qpsk(launch_power=np.array([[1e-3, 2e-4, 5e-3], [1e-5, 1e-3, 0.0]]))
    result = Receiver(transmitter, 20.0).receive(CPU, sent(transmitter))
    assert np.isnan(result.q_squared_db[1, 2])
    assert np.isnan(result.ber_counted[1, 2])
    assert np.nanmax(abs(result.q_squared_db - 15.94)) < 0.5


def test_neighbours_do_not_leak():
    alone, together = qpsk(launch_power=[0, 1e-3, 0]), qpsk(launch_power=[1.0, 1e-3, 1.0])
    results = [Receiver(t).receive(CPU, sent(t)).evm[:, 1] for t in (alone, together)]
    assert max(r.max() for r in results) < 1e-11


@pytest.mark.parametrize("osnr_db", [None, 20.0])
def test_dispersion_and_delay_are_undone_exactly(osnr_db):
    transmitter = qpsk()
    field = sent(transmitter)
    far = disperse(field, BETA, LENGTH, GRID.sample_rate)
    receiver = Receiver(transmitter, osnr_db)
    near = receiver.receive(CPU, field)
    result = receiver.receive(CPU, far, LENGTH, BETA)
    if osnr_db is None:
        assert result.evm.max() < 1e-10
        # Wrong signs of the odd orders are no small mistake.
        wrong = receiver.receive(CPU, far, LENGTH, BETA * [-1, 1, -1, 1])
        assert (abs(wrong.delay) > 1).any() or wrong.evm.max() > 0.1
    else:
        # The same noise on the same symbols: a linear link has no penalty at all.
        assert abs(result.penalty_db(near)).max() < 1e-9


def test_higher_optical_frequency_comes_later_in_normal_dispersion():
    transmitter = qpsk()
    beta2 = np.array([[0.0, 2e-27, 0.0, 0.0]])
    far = disperse(sent(transmitter, 2), beta2, 20e3, GRID.sample_rate)
    result = Receiver(transmitter, clock="data-aided").receive(CPU, far)
    expected = 2e-27 * 2 * np.pi * GRID.offsets * 20e3 * 32e9
    np.testing.assert_allclose(result.delay[0], expected, atol=0.01)


@pytest.mark.parametrize("clock", ["square-law", "data-aided"])
@pytest.mark.parametrize("delay", [0.3, -0.49, 17.25, -200.5])
def test_clock_recovery_finds_a_delay(clock, delay):
    transmitter = qpsk(constellation="16qam")
    frequency = np.fft.fftfreq(GRID.samples, 1 / GRID.sample_rate)
    shift = np.exp(-2j * np.pi * frequency * delay / GRID.symbol_rate)
    late = np.fft.ifft(np.fft.fft(sent(transmitter)) * shift)
    result = Receiver(transmitter, clock=clock).receive(CPU, late)
    np.testing.assert_allclose(result.delay, delay, atol=1e-9)
    assert result.evm.max() < 1e-8
    assert Receiver(transmitter, clock="none").receive(CPU, late).evm.min() > 0.1


def test_clock_recovery_in_noise():
    transmitter = qpsk()
    field = np.roll(sent(transmitter), 3, axis=1)
    for clock, spread in (("square-law", 0.02), ("data-aided", 0.01)):
        result = Receiver(transmitter, 20.0, clock=clock).receive(CPU, field)
        np.testing.assert_allclose(result.delay, 3 / 8, atol=spread)


@pytest.mark.parametrize("name", ["qpsk", "16qam"])
def test_phase_offset_and_drift_are_followed(name):
    transmitter = qpsk(constellation=name)
    turn = 2.4 + 3.0 * np.sin(2 * np.pi * np.arange(GRID.samples) / GRID.samples)
    field = sent(transmitter)
    constant = Receiver(transmitter).receive(CPU, field * np.exp(2.4j))
    assert constant.evm.max() < 1e-10
    drifting = Receiver(transmitter, 20.0).receive(CPU, field * np.exp(1j * turn))
    still = Receiver(transmitter, 20.0).receive(CPU, field)
    assert abs(drifting.penalty_db(still)).max() < 0.3
    lost = Receiver(transmitter, 20.0, phase="none").receive(CPU, field * np.exp(1j * turn))
    assert lost.q_squared_db.max() < 3


def test_fourth_power_and_data_aided_agree():
    transmitter = qpsk()
    field = sent(transmitter)
    blind, aided = (
        Receiver(transmitter, 20.0, phase=phase).receive(CPU, field)
        for phase in ("viterbi-viterbi", "data-aided")
    )
    assert abs(blind.penalty_db(aided)).max() < 0.02


@pytest.mark.parametrize(
    ("name", "osnr_db"),
    [
        ("qpsk", 8.0),
        pytest.param("qpsk", 20.0, marks=pytest.mark.slow),
        pytest.param("16qam", 20.0, marks=pytest.mark.slow),
    ],
)
def test_the_phase_window_does_not_bias_q(name, osnr_db):
    transmitter = qpsk(constellation=name, grid=WdmGrid.centred(193.4e12, 50e9, 3, 32e9, 8, 8192))
    field = sent(transmitter, 8)
    whole, window, short = (
        Receiver(transmitter, osnr_db, phase_window=size).receive(CPU, field).evm ** 2
        for size in (None, 64, 8)
    )
    # White noise alone: EVM² is its density over that of the signal, known in closed form.
    noise = 32 / 12.5 * 10 ** (-osnr_db / 10)
    for result in (whole, window, short):
        spread = result.std() / np.sqrt(result.size)
        assert abs(result.mean() - noise) < 4 * spread
        assert spread < 0.003 * noise
    # The same noise with one phase for all tells more sharply: 1/(2n) would be 0.034 and 0.27 dB.
    assert abs(10 * np.log10(window / whole).mean()) < 0.008
    assert abs(10 * np.log10(short / whole).mean()) < 0.02


def test_mixing_is_undone_with_the_same_noise():
    transmitter = qpsk()
    field = sent(transmitter, 6)
    receiver = Receiver(transmitter, 20.0)
    straight = receiver.receive(CPU, field)
    spans = [ModeMixing.random([1, 2], seed=6, span=k) for k in range(2)]
    for span in spans:
        span.apply(CPU, field)
    undone = receiver.receive(CPU, field, inverse_mixing=total(spans).inverse)
    np.testing.assert_allclose(undone.q_squared_db, straight.q_squared_db, atol=1e-10)
    assert receiver.receive(CPU, field).q_squared_db[1:].max() < 10


def test_power_gain_scales_the_noise():
    transmitter = qpsk()
    field = sent(transmitter)
    receiver = Receiver(transmitter, 20.0)
    weak = receiver.receive(CPU, 0.1 * field, power_gain=0.01)
    np.testing.assert_allclose(weak.q_squared_db, receiver.receive(CPU, field).q_squared_db, atol=1e-10)


def test_single_precision_fields():
    transmitter = qpsk()
    far = disperse(sent(transmitter), BETA, LENGTH, GRID.sample_rate).astype(np.complex64)
    assert Receiver(transmitter).receive(CPU, far, LENGTH, BETA).evm.max() < 1e-6
    single = Receiver(transmitter, 20.0).receive(CPU, far, LENGTH, BETA)
    double = Receiver(transmitter, 20.0).receive(CPU, far.astype(np.complex128), LENGTH, BETA)
    np.testing.assert_allclose(single.q_squared_db, double.q_squared_db, atol=1e-4)


def test_points_and_progress():
    transmitter, told = qpsk(), []
    result = Receiver(transmitter).receive(
        CPU, sent(transmitter), keep=[(1, 2)], progress=lambda *a: told.append(a)
    )
    assert told == [(2, 4), (4, 4)]
    np.testing.assert_allclose(result.points[1, 2][1], transmitter.symbols(CPU, 3, 2), atol=1e-12)


def test_bad_input():
    transmitter = qpsk()
    field = sent(transmitter)
    for key, value in {
        "clock": "early-late",
        "phase": "kalman",
        "phase_window": 0,
        "osnr_db": np.inf,
    }.items():
        with pytest.raises(InputError, match=key):
            Receiver(transmitter, **{key: value})
    with pytest.raises(InputError, match="phase_window: 1 given, 2 or more"):
        Receiver(transmitter, phase_window=1)
    with pytest.raises(InputError, match="noise_seed"):
        Receiver(transmitter, noise_seed=-3)
    with pytest.raises(InputError, match="viterbi"):
        Receiver(qpsk(constellation="16qam"), phase="viterbi-viterbi")
    receiver = Receiver(transmitter, 20.0)
    with pytest.raises(InputError, match="field"):
        receiver.receive(CPU, field[:3])
    with pytest.raises(InputError, match="beta"):
        receiver.receive(CPU, field, LENGTH, BETA[:1])
    with pytest.raises(InputError, match="keep"):
        receiver.receive(CPU, field, keep=[(2, 0)])
    with pytest.raises(InputError, match="power_gain"):
        receiver.receive(CPU, field, power_gain=0.0)
    with pytest.raises(InputError, match="6 allowed"):
        receiver.receive(CPU, field, inverse_mixing=ModeMixing.random([3], 1))
