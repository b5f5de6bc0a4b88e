"""The MIMO equaliser against channels that are made here, and closed forms of what they leave."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.random_coupling import haar_unitary
from wavefabric.optics.signal import equaliser
from wavefabric.optics.signal.equaliser import Equaliser
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device

CPU = get_device("cpu")
RATE = 32e9
#: OSNR (dB) over the signal-to-noise ratio of a symbol.
OSNR = 10 * np.log10(RATE / 12.5e9)


def transmit(symbols, modes, modulation="qpsk", rolloff=0.1, channels=1, **options):
    transmitter = Transmitter(
        WdmGrid.centred(193.4e12, 50e9, channels, RATE, 2 * channels, symbols),
        modulation,
        rolloff,
        1e-3,
        7,
        **options,
    )
    field = CPU.empty((2 * modes, transmitter.grid.samples), np.complex128)
    transmitter.fill(CPU, field)
    return transmitter, field


def coupled(field, grid, sections, spread, seed=1):
    """Sections of random unitary coupling and Gaussian delays of the rows, in sum ``spread`` symbols."""
    rows, rng = len(field), np.random.default_rng(seed)
    omega = 2 * np.pi * np.fft.fftfreq(grid.samples, 1 / grid.sample_rate)
    spectrum = np.fft.fft(field)
    for k in range(sections):
        delay = rng.normal(size=rows) * spread / np.sqrt(sections) / RATE
        spectrum = haar_unitary(rows, seed, k) @ spectrum
        spectrum *= np.exp(-1j * omega * delay[:, None])
    return np.fft.ifft(haar_unitary(rows, seed, sections) @ spectrum)


def mean_db(result):
    return 10 * np.log10((10 ** (result.q_squared_db / 10)).mean())


@pytest.mark.parametrize(
    ("modulation", "taps"),
    [
        ("qpsk", 16),
        pytest.param("16qam", 32, marks=pytest.mark.slow),
        pytest.param("gaussian", 32, marks=pytest.mark.slow),
    ],
)
def test_coupling_and_delays_are_undone(modulation, taps):
    transmitter, field = transmit(8192, 2, modulation)
    far = coupled(field, transmitter.grid, 5, 0.7)
    result = Receiver(transmitter, equaliser=Equaliser(taps, 4096)).receive(CPU, far)
    assert result.evm.max() < 1e-3
    assert abs(result.delay).max() < 3
    if modulation != "gaussian":
        assert result.ber_counted.max() == 0
        np.testing.assert_allclose(result.gmi, transmitter.format.bits_per_symbol)
    # Nothing but an equaliser of both modes can do that.
    alone = Receiver(transmitter, equaliser=Equaliser(taps, 4096)).receive(CPU, far, joint=(1, 1))
    assert min(alone.evm.min(), Receiver(transmitter).receive(CPU, far).evm.min()) > 0.3


def test_a_delay_has_the_sign_of_the_clocks():
    transmitter, field = transmit(4096, 1)
    late = np.roll(field, 6, axis=1)  # three symbols
    equalised = Receiver(transmitter, equaliser=Equaliser(16, 2048)).receive(CPU, late)
    clocked = Receiver(transmitter).receive(CPU, late)
    assert clocked.delay[0, 0] == pytest.approx(3)
    assert equalised.delay[0, 0] == pytest.approx(3, abs=0.1)


@pytest.mark.slow
def test_six_modes_of_coupled_sections_cost_nothing_in_quality():
    """Coupling and modal dispersion of a unitary link: no penalty beyond what training costs anyway."""
    transmitter, field = transmit(1 << 15, 6)
    receiver = Receiver(transmitter, 15 + OSNR, equaliser=Equaliser(8, 1 << 14))
    near = receiver.receive(CPU, field)
    far = receiver.receive(CPU, coupled(field, transmitter.grid, 12, 0.5))
    assert mean_db(far) - mean_db(near) == pytest.approx(0, abs=0.02)
    # Noise in 12 rows x 8 taps, of which 0.55 of the bandwidth counts, over 2 to 1 times the training.
    assert mean_db(far) == pytest.approx(
        15 - 10 * np.log10(1 + 12 * 8 * 1.1 * np.log(2) / (1 << 14)), abs=0.03
    )


@pytest.mark.slow
@pytest.mark.parametrize("snr_db", [8.0, pytest.param(18.0, marks=pytest.mark.slow)])
def test_mode_dependent_loss_against_its_singular_values(snr_db):
    """The best linear receiver has the ratio 1/[(1 + snr HᴴH)⁻¹]_kk − 1, H = U S V with delays outside.

    J. G. Proakis, M. Salehi, "Digital Communications", 5th ed., section 15.1; for all rows P. J. Winzer, G.
    J. Foschini, Opt. Express 19 (2011) 16680, doi 10.1364/OE.19.016680.
    """
    transmitter, field = transmit(1 << 15, 3)
    u, v = haar_unitary(6, 1), haar_unitary(6, 2)
    matrix = u @ np.diag(10 ** (np.linspace(-5, 5, 6) / 20)) @ v
    omega = 2 * np.pi * np.fft.fftfreq(transmitter.grid.samples, 1 / transmitter.grid.sample_rate)
    delays = np.random.default_rng(2).normal(size=(2, 6, 1)) / RATE
    spectrum = np.fft.fft(field) * np.exp(-1j * omega * delays[0])
    far = np.fft.ifft((matrix @ spectrum) * np.exp(-1j * omega * delays[1]))
    result = Receiver(transmitter, snr_db + OSNR, equaliser=Equaliser(12, 1 << 14)).receive(CPU, far)
    snr = 10 ** (snr_db / 10)
    error = np.diagonal(np.linalg.inv(np.eye(6) + snr * matrix.conj().T @ matrix)).real
    # Both polarisations of a mode are pooled: their errors, at unit gain, add.
    pooled = (error / (1 - error)).reshape(3, 2).mean(axis=1)
    np.testing.assert_allclose(result.q_squared_db[:, 0], -10 * np.log10(pooled), atol=0.12)


@pytest.mark.slow
def test_decisions_lessen_what_short_training_costs():
    transmitter, field = transmit(1 << 16, 2, "16qam")
    far = coupled(field, transmitter.grid, 5, 0.5)

    def cost(**options):
        receiver = Receiver(transmitter, 17 + OSNR, equaliser=Equaliser(16, 1024, **options))
        return 17 - mean_db(receiver.receive(CPU, far))

    trained, directed, short = cost(decision_directed=False), cost(), cost(memory=2048)
    # Least squares: the error grows by the coefficients over the training.
    assert trained == pytest.approx(4.34 * 4 * 16 * 1.1 / (1024 - 4 * 16 * 1.1), abs=0.08)
    assert directed < 0.25 * trained < short - 0.05
    assert short < trained


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["auto", pytest.param("blind-search", marks=pytest.mark.slow)])
def test_lasers_and_coupling_together(phase):
    """Taps and phase are estimated in turn: as good as one laser of that width without coupling."""
    width = 1e-5 * RATE / 2
    transmitter, field = transmit(1 << 15, 2, "16qam", linewidth=width)
    options = {"phase": phase, "linewidth": width, "phase_window": 32}
    plain = Receiver(transmitter, 20 + OSNR, **options).receive(CPU, field)
    far = coupled(field, transmitter.grid, 5, 0.5)
    # Over the training the phase walks by a radian.
    result = Receiver(transmitter, 20 + OSNR, equaliser=Equaliser(12, 1 << 14), **options).receive(CPU, far)
    assert mean_db(result) - mean_db(plain) == pytest.approx(
        -4.34 * 4 * 12 * 1.1 * np.log(2) / (1 << 14), abs=0.04
    )


def test_channels_are_equalised_the_same_whatever_the_memory(monkeypatch):
    transmitter, field = transmit(1024, 2, channels=3)
    far = coupled(field, transmitter.grid, 3, 0.3)
    receiver = Receiver(transmitter, 25.0, equaliser=Equaliser(8, 512))
    steps, keep = [], {"keep": [(1, 2)]}
    result = receiver.receive(CPU, far, **keep, progress=lambda done, rows: steps.append((done, rows)))
    assert steps == [(1, 4), (2, 4), (4, 4)]
    assert result.points[1, 2].shape == (2, 512)
    monkeypatch.setattr(equaliser, "LEAST_BYTES", 0)
    small = receiver.receive(CPU, far, **keep)
    np.testing.assert_array_equal(result.q_squared_db, small.q_squared_db)
    np.testing.assert_array_equal(result.points[1, 2], small.points[1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["auto", pytest.param("blind-search", marks=pytest.mark.slow)])
def test_devices_and_threads_agree(device, phase):
    """One thread, or a GPU, against all threads of the CPU: of lasers, equaliser, phase and rates."""
    transmitter, field = transmit(2048, 3, "16qam", channels=2, linewidth=1e5)
    far = coupled(field, transmitter.grid, 3, 0.4)
    options = {"phase": phase, "linewidth": 1e5, "equaliser": Equaliser(8, 1024)}
    receiver = Receiver(transmitter, 24.0, **options)
    other = device.zeros(field.shape, np.complex128)
    transmitter.fill(device, other)
    np.testing.assert_allclose(device.to_host(other), field, atol=1e-12 * abs(field).max())
    several = receiver.receive(CPU, far, joint=(2, 1))
    one = receiver.receive(device, device.asarray(far), joint=(2, 1))
    # Another device rounds otherwise, and may take another number of steps to the least squares. Decisions on
    # a boundary then fall otherwise: some of the 2048 symbols, of which one changes Q² by 0.01 dB here.
    tolerance = 1e-6 if device.name == "cpu" else 0.03
    for name in ("q_squared_db", "ber_counted", "mutual_information", "gmi", "delay"):
        np.testing.assert_allclose(getattr(one, name), getattr(several, name), rtol=tolerance, atol=tolerance)


def test_dark_modes_and_mean_dispersion():
    """Modes of one set are compensated by their mean; dark ones have no quality, and disturb nobody."""
    transmitter, field = transmit(4096, 3)
    powers = np.array([[1e-3], [0.0], [1e-3]])
    dark = Transmitter(transmitter.grid, "qpsk", 0.1, powers, 7)
    dark.fill(CPU, field)
    omega = 2 * np.pi * np.fft.fftfreq(dark.grid.samples, 1 / dark.grid.sample_rate)
    beta = np.array([[0, -22e-27, 0, 0], [0, -22e-27, 0, 0], [4e-15, -22e-27, 0, 0]])
    phase = np.array([b[0] * omega - b[1] * omega**2 / 2 for b in beta.repeat(2, axis=0)])
    far = np.fft.ifft(np.fft.fft(field) * np.exp(-20e3j * phase))
    result = Receiver(dark, 20.0, equaliser=Equaliser(16, 2048)).receive(CPU, far, 20e3, beta)
    assert np.isnan([result.q_squared_db[1, 0], result.gmi[1, 0], result.ber_counted[1, 0]]).all()
    np.testing.assert_allclose(result.q_squared_db[[0, 2], 0], 20 - OSNR, atol=0.4)
    # In symbols, from the mean of the three.
    np.testing.assert_allclose(
        result.delay[[0, 2], 0], np.array([-1, 2]) / 3 * 4e-15 * 20e3 * RATE, atol=0.15
    )


def test_refusals():
    transmitter, field = transmit(256, 2)
    receiver = Receiver(transmitter, equaliser=Equaliser(16, 100))
    with pytest.raises(InputError, match=r"training: 100 given; allowed: 2 x 4 rows x 16 taps = 128 or more"):
        receiver.receive(CPU, field)
    with pytest.raises(InputError, match=r"training: 256 given; allowed: .* fewer than the 256 symbols"):
        Receiver(transmitter, equaliser=Equaliser(16, 256)).receive(CPU, field)
    for sizes in ((1,), (2, 1), (0, 2)):
        with pytest.raises(InputError, match=r"joint: .* given; allowed: positive numbers, 2 together"):
            receiver.receive(CPU, field, joint=sizes)
    with pytest.raises(
        InputError, match=r"joint: modes 1 to 2 of the link are here; .* sets of modes, 0 to 3"
    ):
        receiver.receive(CPU, field, first_mode=1, modes=5, joint=(2, 2, 1))
    for key in ("taps", "training", "memory"):
        with pytest.raises(InputError, match=f"{key}: 0; allowed"):
            Equaliser(**{key: 0})
