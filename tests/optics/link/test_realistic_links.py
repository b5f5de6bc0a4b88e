"""Links that couple at random along the fibre, gain and lose by mode and frequency, and are solved back."""

import math

import numpy as np
import pytest
from run_tables import merged, without_none
from scipy.stats import maxwell

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.optics import graded_index_62_5, single_mode
from wavefabric.optics.fibre.fibre import gamma_of
from wavefabric.optics.fibre.raman import raman_evolution
from wavefabric.optics.fibre.spectra import RamanGain
from wavefabric.optics.link.build import build_fibre
from wavefabric.optics.link.elements import LinkAmplifier
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.link.propagators import LinkPropagator
from wavefabric.optics.link.run import run_link
from wavefabric.optics.propagation.propagate import PropagationOptions
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo

#: Six spatial modes, three channels, linear; what a test changes is merged in.
LINK = {
    "seed": 4,
    "fibre": {
        "preset": "graded-index-62.5",
        "groups": 3,
        "n2": "0 m^2/W",
        "random_coupling": {
            "correlation_length": "10 km",
            "pmd": "0.2 ps/sqrt(km)",
            "delay_spread": "3 ps/sqrt(km)",
        },
    },
    "link": {"length": "80 km", "spans": 10},
    "signal": {
        "symbol_rate": "32 GBaud",
        "symbols": 512,
        "samples_per_symbol": 8,
        "launch_power": "0 dBm",
        "channels": 3,
        "spacing": "50 GHz",
        "centre_frequency": "193.4 THz",
    },
    "receiver": {"osnr": "20 dB", "at": "end", "phase_window": 0},
    "solver": {"step": "10 km", "integrator": "strang"},
    "output": {"figures": False},
}


def settings(**changes) -> RunFile:
    return RunFile.model_validate(without_none(merged(LINK, changes)))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param)


@pytest.fixture
def simulate(device, tmp_path):
    """Run `LINK` with changes; gives the result."""

    def run(name="out", **changes):
        path = tmp_path / f"{name}.h5"
        run_link(settings(**changes), path, comm=solo(device), warn=lambda _: None, force=True)
        return read_result(path)

    return run


def penalty(result, spans):
    return result[f"received/span_{spans}/q_squared_db"] - result["received/back_to_back/q_squared_db"]


# --- Coupling along the fibre --------------------------------------------------------------------------


@pytest.mark.parametrize("between", [None, pytest.param("1e-3 1/km", marks=pytest.mark.slow)])
def test_a_linear_link_has_no_penalty(simulate, between):
    """Six modes over 800 km: the inverse of coupling and delays brings back the sent symbols."""
    coupling = {"between_groups": between} if between else {}
    result = simulate(fibre={"random_coupling": coupling})
    assert abs(penalty(result, 10)).max() < 1e-6
    solver = result.attrs("solver")
    assert solver["steps"] == 80
    assert solver["energy_drift"] < 1e-10


def launched(run, fibre, device, step):
    """Transmitter, path, propagator in steps of ``step`` m, and the field at the transmitter."""
    grid = run.signal.wdm_grid
    transmitter = Transmitter(grid, "qpsk", 0.1, 1e-3, 4)
    path = LinkPath(run, fibre, transmitter, RankModes((0, fibre.modes)))
    options = PropagationOptions("strang", step=step)
    propagator = LinkPropagator(path, options, solo(device))
    field = propagator.operators.empty()
    transmitter.fill(device, field)
    return transmitter, path, propagator, field


def test_without_the_inverse_nothing_is_left(device):
    """The same link with its inverse of another seed: the coupling is not a small thing."""
    run, fibre = settings(), graded_index_62_5(3, n2=0.0)
    transmitter, path, propagator, field = launched(run, fibre, device, 10e3)
    sent = field.copy()
    propagator.run(field, path, path.pieces[0])
    path.elements[1].apply(path, device, field)
    back = field.copy()
    propagator.undo_linear(path, back, 1)
    assert abs(back - sent).max() < 1e-12 * abs(sent).max()
    other = LinkPath(settings(seed=5), fibre, transmitter, RankModes((0, 6)))
    propagator.undo_linear(other, field, 1)
    assert (abs(field - sent) ** 2).sum() > (abs(sent) ** 2).sum()


def test_a_section_is_what_the_matrices_say(device):
    """Delays of the rows, then the unitary: in the frequency domain, by hand."""
    run = settings(link={"length": "20 km", "spans": 1})
    fibre, grid = graded_index_62_5(3, n2=0.0), run.signal.wdm_grid
    _, path, propagator, field = launched(run, fibre, device, 5e3)
    spectrum = np.fft.fft(device.to_host(field))
    propagator.run(field, path, path.pieces[0])
    w = 2 * np.pi * np.fft.fftfreq(grid.samples, 1 / grid.sample_rate)
    b, alpha = np.repeat(path.fibre.beta, 2, axis=0), np.repeat(path.fibre.alpha, 2)
    for section in range(2):
        phase = -(b[:, :1] + path.fibre.row_delays[:, None]) * w + b[:, 1:2] * w**2 / 2
        spectrum *= np.exp((1j * phase - alpha[:, None] / 2) * 10e3)
        start = 0
        for u in path.medium(path.pieces[0]).coupling.unitary(path.fibre, 20e3, 0, section).matrices:
            spectrum[start : start + len(u)] = u @ spectrum[start : start + len(u)]
            start += len(u)
    assert abs(np.fft.fft(device.to_host(field)) - spectrum).max() < 1e-10 * abs(spectrum).max()


def test_the_step_that_a_warning_names_is_that_of_the_sections(cpu, tmp_path):
    """Steps of 10 km in sections of 2 km are of 2 km."""
    warnings = []
    coupling = {"correlation_length": "2 km"}
    fibre = {"random_coupling": coupling, "n2": None}
    run = settings(fibre=fibre, link={"spans": 1}, signal={"symbols": 64})
    run_link(run, tmp_path / "out.h5", comm=solo(cpu), warn=warnings.append)
    (text,) = (line for line in warnings if line.startswith("solver.step"))
    assert text.startswith("solver.step: 2 km is above the resonance limit")


def test_a_resumed_run_has_the_same_bits(device, tmp_path):
    """Stopped inside a span, between sections; on a nonlinear fibre."""
    from wavefabric.base.system.progress import Progress

    run = settings(
        fibre={"n2": None, "random_coupling": {"correlation_length": "7 km"}},
        link={"spans": 2},
        signal={"symbols": 64},
        solver={"step": "2 km", "integrator": "rk4ip"},
        output={"save_field": True, "checkpoint_every": 3, "checkpoint_interval": "0 s"},
    )

    class Stopping(Progress):
        def update(self, done, note=""):
            if "z = 100" in note or "z = 102" in note:
                raise KeyboardInterrupt

    whole, parts = tmp_path / "whole.h5", tmp_path / "parts.h5"
    run_link(run, whole, comm=solo(device), warn=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        run_link(run, parts, comm=solo(device), progress=Stopping(), warn=lambda _: None)
    run_link(run, parts, comm=solo(device), warn=lambda _: None)
    first, second = read_result(whole), read_result(parts)
    assert (first["field"] == second["field"]).all()
    assert first.attrs("solver")["steps"] == second.attrs("solver")["steps"] == 96


# --- Mode-dependent gain -------------------------------------------------------------------------------


@pytest.mark.slow
def test_gains_of_amplifiers_and_their_inverse(simulate):
    """Zero forcing pays for what was lost: less Q² than without, and exactly known levels."""
    run = settings(link={"mode_dependent_gain": "0.5 dB"})
    transmitter = Transmitter(run.signal.wdm_grid, "qpsk", 0.1, 1e-3, 4)
    path = LinkPath(run, graded_index_62_5(3), transmitter, RankModes((0, 6)))
    amplifiers = [each for each in path.elements if isinstance(each, LinkAmplifier)]
    levels = 10 * np.log10(np.array([each.relative_gains(path) for each in amplifiers[:3]]))
    assert np.sqrt((levels**2).mean(axis=1)) == pytest.approx(0.5)
    assert levels.mean(axis=1) == pytest.approx(0, abs=1e-12)
    assert abs(levels[0] - levels[1]).max() > 0.1
    flat, tilted = (simulate(str(rms), link={"mode_dependent_gain": f"{rms} dB"}) for rms in (0, 0.5))
    assert abs(penalty(flat, 10)).max() < 1e-6
    # K spans of σ dB: the gains of the whole have about √K σ, and noise is enhanced by exp(σ²/2) on average.
    whole = math.sqrt(10) * 0.5 * math.log(10) / 10
    expected = -10 * math.log10(math.exp(whole**2 / 2))
    assert penalty(tilted, 10).mean() == pytest.approx(expected, rel=0.35)


@pytest.mark.slow
def test_capacity_loss_by_mode_dependent_gain():
    """Two polarisations, 32 amplifiers of ±0.4 dB that couple at random, 400 links.

    Ho and Kahn 2011 (doi 10.1364/OE.19.016612): log gains of the whole have the standard deviation
    ξ √(1 + ξ²/12), ξ = √K σ, and those of two rows are ±x with a Maxwellian x. Capacity is the mean over both
    of log2(1 + ρ g), ρ = 20 dB, the mean of g being 1.
    """
    spans, level, rho, logs = 32, 0.4, 100.0, []
    table = {"preset": "single-mode", "groups": None, "n2": None, "random_coupling": None}
    link = {"length": "80 km", "spans": spans, "mix_groups": True, "mode_dependent_gain": f"{level} dB"}
    for seed in range(400):
        run = settings(seed=seed, fibre=table, link=link)
        transmitter = Transmitter(run.signal.wdm_grid, "qpsk", 0.1, 1e-3)
        path = LinkPath(run, single_mode(), transmitter, RankModes((0, 1)))
        whole = np.eye(2)
        for amplifier, coupler in zip(path.elements[1::3], path.elements[2::3], strict=True):
            gains = amplifier.relative_gains(path)
            whole = coupler.mixing(path).matrices[0] @ (np.sqrt(gains)[:, None] * whole)
        logs.append(np.log(np.linalg.svd(whole, compute_uv=False) ** 2))
    logs = np.array(logs)
    xi = math.sqrt(spans) * level * math.log(10) / 10
    deviation = xi * math.sqrt(1 + xi**2 / 12)
    assert np.sqrt((logs**2).mean()) == pytest.approx(deviation, rel=0.03)
    x = np.linspace(0, 12 * deviation, 20001)
    density = maxwell(scale=deviation / math.sqrt(3)).pdf(x) * (x[1] - x[0])
    norm = (density * np.cosh(x)).sum()
    capacity = (
        density * (np.log2(1 + rho * np.exp(x) / norm) + np.log2(1 + rho * np.exp(-x) / norm))
    ).sum() / 2
    loss = math.log2(1 + rho) - capacity
    got = math.log2(1 + rho) - np.log2(1 + rho * np.exp(logs) / np.exp(logs).mean()).mean()
    assert loss > 0.1
    assert got == pytest.approx(loss, rel=0.06)


# --- Gain and loss over frequency ----------------------------------------------------------------------

WIDE = {
    "fibre": {"preset": "single-mode", "groups": None, "n2": None, "gamma": "1.3 1/W/km",
              "beta2": "0 ps^2/km", "random_coupling": None, "attenuation": "0.2 dB/km"},
    "link": {"length": "80 km", "spans": 1},
    "signal": {"channels": 9, "spacing": "1 THz", "samples_per_symbol": 512, "symbols": 16,
               "launch_power": 20e-3, "rolloff": 0.1},
    "receiver": {"osnr": None, "back_to_back": False},
    "solver": {"step": "2 km"},
    "output": {"save_field": True},
}  # fmt: skip


def channel_powers(result, run):
    """Mean power of each channel in the field, W."""
    grid = run.signal.wdm_grid
    spectrum = abs(np.fft.fft(result["field"], axis=1)) ** 2 / grid.samples**2
    half = int(grid.half_widths(0.1)[0])
    bins = (grid.bins[:, None] + np.arange(-half, half + 1)) % grid.samples
    return spectrum.sum(axis=0)[bins].sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.003e-3, pytest.param(0.0, marks=pytest.mark.slow)])
def test_raman_scattering_against_the_triangular_closed_form(simulate, gamma):
    """Zirngibl 1998: P_i(L) = P_i(0) e^(−αL) · N e^(s P L_eff f_i) / Σ e^(s P L_eff f_j), within 0.1 dB.

    It takes no photon energy into account; `raman_evolution` does. γ is low, so that channels stay in their
    bands, and the slope as much higher, since the overlap follows from γ: s = 0.028 /(W km THz). With γ = 0
    it follows from the effective area.
    """
    slope, area = 0.028e-15, 80e-12
    steep = slope * gamma_of(area, 1550e-9) / gamma if gamma else slope
    raman = {"gain": "triangular", "slope": steep, "area": area}
    changes = merged(WIDE, {"fibre": {"raman": raman, "gamma": gamma}})
    run = settings(**changes)
    got = channel_powers(simulate(**changes), run)
    plain = channel_powers(simulate("plain", **merged(changes, {"fibre": {"raman": None}})), run)
    got = 10 * np.log10(got / plain)
    alpha = 0.2e-3 * math.log(10) / 10
    effective = (1 - math.exp(-alpha * 80e3)) / alpha
    grid = run.signal.wdm_grid
    exponent = np.exp(-slope * 9 * 20e-3 * effective * grid.offsets)
    wanted = 10 * np.log10(exponent * 9 / exponent.sum())
    assert abs(wanted).max() > 1.5
    assert abs(got - wanted).max() < 0.1
    gain = RamanGain.triangular(steep, area)
    evolution = raman_evolution(build_fibre(run), run.signal.grid, 20e-3, 80e3, gain)
    assert abs(got - evolution.gain_db()[:, 0]).max() < 0.01


@pytest.mark.slow
def test_loss_and_tilt_over_frequency(simulate):
    changes = merged(WIDE, {"fibre": {"gamma": "0 1/W/km", "attenuation_slope": "0.005 dB/km/THz"}})
    run = settings(**changes)
    offsets = run.signal.wdm_grid.offsets / 1e12
    level = 10 * np.log10(channel_powers(simulate(**changes), run) / 20e-3)
    np.testing.assert_allclose(level, -80 * 0.005 * offsets, atol=0.01)
    tilted = merged(changes, {"link": {"gain_tilt": "0.4 dB/THz"}})
    level = 10 * np.log10(channel_powers(simulate("tilt", **tilted), run) / 20e-3)
    np.testing.assert_allclose(level, 0, atol=0.01)
    flat = merged(changes, {"link": {"gain_flattening": True}})
    level = 10 * np.log10(channel_powers(simulate("flat", **flat), run) / 20e-3)
    np.testing.assert_allclose(level, 0, atol=0.01)


# --- Digital back-propagation --------------------------------------------------------------------------

NONLINEAR = {
    "fibre": {"n2": None, "random_coupling": {"correlation_length": "10 km"}},
    "link": {"spans": 2, "length": "20 km", "mode_dependent_gain": "1 dB"},
    "signal": {"launch_power": "6 dBm", "symbols": 128},
    "receiver": {"osnr": None, "at": "end"},
    "solver": {"step": "1 km", "integrator": "rk4ip"},
}

ONE = merged(NONLINEAR, {"signal": {"channels": 1, "spacing": None, "samples_per_symbol": 4}})


def returned(run, device, integrator, step, fine=None):
    """Relative distance from the sent field of one that went forth, and back in steps of ``step`` m.

    Forth in the same steps of the same integrator, or in ``fine`` ones of the most exact.
    """
    fibre, grid = graded_index_62_5(3), run.signal.wdm_grid
    transmitter = Transmitter(grid, "qpsk", 0.1, 15e-3, 4)
    path = LinkPath(run, fibre, transmitter, RankModes((0, 6)))
    exact = ("blanes_moan", fine) if fine else (integrator, step)
    forth = LinkPropagator(path, PropagationOptions(exact[0], step=exact[1]), solo(device))
    back = LinkPropagator(path, PropagationOptions(integrator, step=step, backward=True), solo(device))
    field = forth.operators.empty()
    transmitter.fill(device, field)
    sent = field.copy()
    for piece, amplifier in zip(path.elements[::2], path.elements[1::2], strict=True):
        forth.run(field, path, piece)
        amplifier.apply(path, device, field)
    for amplifier, piece in zip(path.elements[::-2], path.elements[-2::-2], strict=True):
        amplifier.undo(path, device, field)
        back.run(field, path, piece, backward=True)
    return math.sqrt(float((abs(field - sent) ** 2).sum() / (abs(sent) ** 2).sum()))


@pytest.mark.slow
@pytest.mark.parametrize(("integrator", "order"), [("rk4ip", 4), ("blanes_moan", 4), ("strang", 2)])
def test_back_propagation_returns_the_sent_field_at_the_integrators_order(device, integrator, order):
    errors = [returned(settings(**ONE), device, integrator, step, fine=40.0) for step in (160.0, 80.0)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)
    assert 1e-12 < errors[1] < 1e-2


def test_symmetric_steps_have_an_exact_inverse(device):
    """Themselves with −h."""
    run = settings(**ONE)
    assert returned(run, device, "strang", 4000.0) < 1e-11
    assert returned(run, device, "blanes_moan", 4000.0) < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("of", ["band", pytest.param("channel", marks=pytest.mark.slow)])
def test_back_propagation_in_a_run(simulate, of):
    """The band: all of the penalty is gone. A channel by itself: part of it."""
    plain = simulate("plain", **NONLINEAR)["received/span_2/q_squared_db"]
    table = {"step": "1 km", "of": of}
    back = merged(NONLINEAR, {"receiver": {"back_propagation": table}})
    q = simulate("back", **back)["received/span_2/q_squared_db"]
    if of == "band":
        assert q.min() > plain.max() + 30
    else:
        assert (q > plain).all()
        assert q.mean() - plain.mean() < 10


def test_a_single_channel_back_propagated_is_free_of_its_own_kerr_effect(simulate):
    one = merged(ONE, {"receiver": {"back_propagation": {"step": "1 km", "of": "channel"}}})
    assert simulate(**one)["received/span_2/q_squared_db"].min() > 100


# --- Bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"fibre": {"random_coupling": {"correlation_length": None}}}, "correlation_length"),
        ({"fibre": {"random_coupling": {"within": "all"}}}, "fibre.random_coupling.within"),
        ({"fibre": {"random_coupling": {"pmd": "1 ps/km"}}}, "fibre.random_coupling.pmd"),
        ({"fibre": {"raman": {"gain": "triangular"}}}, "fibre.raman.slope: missing"),
        ({"fibre": {"raman": {"slope": "0.03 1/W/km/THz"}}}, "fibre.raman.slope: given with gain"),
        ({"fibre": {"raman": {"area": "80 um^2"}}}, "fibre.raman.area"),
        ({"link": {"mode_dependent_gain": "-1 dB"}}, "link.mode_dependent_gain"),
        ({"link": {"gain_tilt": "1 dB"}}, "link.gain_tilt"),
        ({"receiver": {"back_propagation": {"step": "100 km"}}}, "receiver.back_propagation.step: 100000 m"),
        (
            {"receiver": {"back_propagation": {"step": "1 km", "samples_per_symbol": 4}}},
            "receiver.back_propagation.samples_per_symbol: given with of",
        ),
    ],
)
def test_bad_tables(changes, text):
    from pydantic import ValidationError

    from wavefabric.base.files.validation_errors import one_line

    with pytest.raises((InputError, ValidationError)) as caught:
        settings(**changes)
    error = caught.value
    assert text.rpartition(".")[2].partition(":")[0] in (
        str(error) if isinstance(error, InputError) else one_line(error, RunFile)
    )


def test_what_a_link_refuses(cpu):
    fibre = graded_index_62_5(3)
    for changes, text in (({"link": {"gain_flattening": True}}, "link.gain_flattening: true given"),):
        run = settings(**changes)
        transmitter = Transmitter(run.signal.wdm_grid, "qpsk", 0.1, 1e-3, 4)
        with pytest.raises(InputError, match=text):
            LinkPath(run, fibre, transmitter, RankModes((0, 3, 6)))


# --- Over ranks ---------------------------------------------------------------------------------------------


def on_one_and_two_ranks(run, comm, tmp_path_factory):
    """Results of a run on one rank and on two, for rank 0; nothing for the other."""
    folder = comm.control.bcast(str(tmp_path_factory.mktemp("ranks")))
    run_link(run, f"{folder}/two.h5", comm=comm, warn=lambda _: None)
    if comm.rank:
        return None
    run_link(run, f"{folder}/one.h5", comm=solo(comm.device), warn=lambda _: None)
    return [read_result(f"{folder}/{name}.h5") for name in ("one", "two")]


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_ranks_hold_whole_groups_and_agree(comm, tmp_path_factory):
    """Groups of one, two and three modes over two ranks: coupling, gains, Raman scattering, solved back."""
    changes = merged(
        NONLINEAR,
        {
            "fibre": {"raman": {"gain": "silica"}, "attenuation_slope": "0.001 dB/km/THz"},
            "signal": {"symbols": 64},
            "receiver": {"back_propagation": {"step": "1 km"}, "back_to_back": False},
            "solver": {"step": "2 km"},
            "output": {"save_field": True},
        },
    )
    if results := on_one_and_two_ranks(settings(**changes), comm, tmp_path_factory):
        one, two = results
        assert two.attrs("solver")["ranks"] == 2
        assert abs(two["field"] - one["field"]).max() < 1e-12 * abs(one["field"]).max()
        key = "received/span_2/q_squared_db"
        np.testing.assert_allclose(two[key], one[key], atol=0.3)
        assert one[key].min() > 30
    comm.control.barrier()


@pytest.mark.parallel(2)
@pytest.mark.parametrize("precision", ["double", pytest.param("single", marks=pytest.mark.slow)])
def test_groups_of_two_ranks_couple(comm, tmp_path_factory, precision):
    """Rows travel behind each section; a link and its inverse."""
    coupling = {"between_groups": "1e-2 1/km", "correlation_length": "5 km"}
    solver = {"precision": precision, "step": "5 km"}
    changes = {
        "fibre": {"random_coupling": coupling},
        "link": {"spans": 1, "length": "20 km"},
        "solver": solver,
        "output": {"save_field": True},
    }
    if results := on_one_and_two_ranks(settings(**changes), comm, tmp_path_factory):
        one, two = results
        tolerance = 1e-12 if precision == "double" else 1e-5
        assert abs(two["field"] - one["field"]).max() < tolerance * abs(one["field"]).max()
        assert abs(penalty(two, 1)).max() < (1e-6 if precision == "double" else 1e-3)
    comm.control.barrier()
