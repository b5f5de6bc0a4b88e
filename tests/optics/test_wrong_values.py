"""Public functions of light in fibre: a value that does not fit is an `InputError`, whatever it is."""

from functools import partial

import numpy as np
import pytest

import wavefabric.optics as optics
from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.optics.theory.gaussian_noise import Options

VALUES = {
    "none": None,
    "word": "text",
    "empty": "",
    "length": "3 m",
    "fruit": "3 apples",
    "nan": float("nan"),
    "infinite": float("inf"),
    "negative": -1,
    "zero": 0,
    "half": 2.5,
    "enormous": 1e300,
    "tiny": 1e-300,
    "enormous length": "1e300 m",
    "long integer": 10**400,
    "complex": 1j,
    "true": True,
    "bytes": b"x",
    "list": [],
    "mixed list": [1, "a"],
    "unlike rows": [[1, 2], [3]],
    "empty array": np.array([]),
    "array of text": np.array(["x"]),
    "cube": np.zeros((2, 3, 4)),
    "array of nan": np.full(3, np.nan),
    "complex array": np.array([1j, 2]),
    "dict": {},
    "object": object(),
    "function": len,
}
GRID = optics.WdmGrid.centred(193.4e12, 50e9, 2, 32e9, 4, 64)
FIBRE = optics.single_mode()
TRANSMITTER = optics.Transmitter(GRID, "qpsk", 0.1, 1e-3)
RECEIVER = optics.Receiver(TRANSMITTER, 20.0)
SPANS = optics.Spans(80e3)
FIELD = np.full((2, 256), 0.1 + 0j)
CHANNELS = np.array([193.3e12, 193.4e12])
PROFILE = optics.IndexProfile(8e-6, 0.12, 2.0)
LAUNCH = {"field": FIELD, "fibre": FIBRE, "length": 100.0, "sample_rate": 1e12}
RAMAN = {"fibre": FIBRE, "frequencies": CHANNELS, "launch_power": 1e-3, "length": 1e4}


def objective(A):
    return (abs(A) ** 2).sum(), 2 * A


def receive(**arguments):
    return RECEIVER.receive("cpu", warn=lambda _: None, **arguments)


#: Functions, arguments that suit, and those of them that are tried.
CALLS = {
    "IndexProfile": (
        optics.IndexProfile,
        {"core_diameter": 5e-5, "numerical_aperture": 0.2, "exponent": 2.0},
    ),
    "TableProfile": (optics.TableProfile, {"radii": (0.0, 1e-5), "indices": (1.46, 1.444)}),
    "graded_index_62_5": (
        optics.graded_index_62_5,
        {"groups": 2, "attenuation": 5e-5, "wavelength": 1.55e-6},
    ),
    "single_mode": (optics.single_mode, {"beta2": -2e-26, "gamma": 1e-3, "alpha": 5e-5}),
    "coupled_group": (partial(optics.coupled_group, beta2=-2e-26), {"modes": 2, "kappa": 0.9}),
    "fibre_from_profile": (optics.fibre_from_profile, {"profile": PROFILE, "wavelength": 1.55e-6}),
    "multicore": (
        partial(optics.multicore, [[0, 0], [2e-5, 0]]),
        {"core_diameter": 8e-6, "numerical_aperture": 0.12, "wavelength": 1.55e-6, "attenuation": 5e-5},
    ),
    "Multicore": (
        optics.Multicore,
        {"positions": [[0, 0], [2e-5, 0]], "profiles": PROFILE, "wavelength": 1.55e-6},
    ),
    "Multicore.transfer": (optics.Multicore([[0, 0], [2e-5, 0]], PROFILE).transfer, {"length": 1.0}),
    "PulseMovie": (
        optics.PulseMovie,
        {"fields": [FIELD], "positions": [0.0], "sample_rate": 1e12, "quantity": "power", "mode": 1},
    ),
    "fields along": (partial(optics.propagate, **LAUNCH, step=50.0, device="cpu"), {"at": [50.0]}),
    "at_frequency": (optics.at_frequency, {"fibre": FIBRE, "frequency": 193e12}),
    "Spans": (optics.Spans, {"length": 8e4, "count": 2, "gain": 1.0}),
    "Equaliser": (optics.Equaliser, {"taps": 16, "training": 64, "memory": 8}),
    "Constellation": (optics.Constellation, {"name": "qpsk"}),
    "mutual_information": (optics.mutual_information, {"form": "16qam", "snr": 15.0}),
    "gmi": (optics.gmi, {"form": optics.Constellation("qpsk"), "snr": [1.0, 15.0]}),
    "WdmGrid": (
        optics.WdmGrid,
        {"frequencies": CHANNELS, "symbol_rate": 32e9, "samples_per_symbol": 8, "symbols": 64},
    ),
    "WdmGrid.centred": (
        partial(optics.WdmGrid.centred, symbol_rate=32e9, samples_per_symbol=4, symbols=64),
        {"centre": 193e12, "spacing": 5e10, "count": 2},
    ),
    "Transmitter": (
        optics.Transmitter,
        {
            "grid": GRID,
            "constellation": "qpsk",
            "rolloff": 0.1,
            "launch_power": 1e-3,
            "seed": 1,
            "linewidth": 0.0,
        },
    ),
    "Receiver": (
        optics.Receiver,
        {
            "transmitter": TRANSMITTER,
            "osnr_db": 20.0,
            "noise_seed": 1,
            "clock": "auto",
            "phase": "auto",
            "phase_window": 64,
            "equaliser": None,
            "linewidth": 0.0,
        },
    ),
    "receive": (
        receive,
        {
            "field": FIELD,
            "length": 0.0,
            "beta": None,
            "inverse_mixing": None,
            "power_gain": 1.0,
            "first_mode": 0,
            "modes": 1,
            "keep": (),
        },
    ),
    "propagate": (optics.propagate, LAUNCH | {"device": "cpu", "step": 50.0}),
    "propagate by phase": (partial(optics.propagate, **LAUNCH), {"max_phase": "0.1 rad"}),
    "propagate by error": (partial(optics.propagate, **LAUNCH, integrator="erk43ip"), {"tolerance": 1e-3}),
    "PropagationOptions": (
        partial(optics.propagate, **LAUNCH, step=50.0),
        {
            "integrator": "rk4ip",
            "precision": "double",
            "kerr": "auto",
            "svd_tolerance": 1e-12,
            "check_interval": 10,
            "exchange": "auto",
        },
    ),
    "propagate_and_gradient": (
        partial(optics.propagate_and_gradient, step=50.0),
        LAUNCH | {"objective": objective, "nonlinear_factors": None, "linear_phases": None},
    ),
    "DifferentiablePropagator": (
        partial(optics.DifferentiablePropagator, step=50.0),
        {"fibre": FIBRE, "samples": 64, "sample_rate": 1e12, "length": 100.0, "device": "cpu"},
    ),
    "expected_quality": (
        optics.expected_quality,
        {"fibre": FIBRE, "receiver": RECEIVER, "spans": SPANS, "at": [1], "options": None, "joint": None},
    ),
    "nonlinear_interference": (
        optics.nonlinear_interference,
        {"fibre": FIBRE, "transmitter": TRANSMITTER, "spans": SPANS, "options": Options()},
    ),
    "RandomCoupling": (optics.RandomCoupling, {"correlation_length": 1e3, "within": "groups", "pmd": 1e-15}),
    "raman_tilt": (optics.raman_tilt, RAMAN),
    "raman_evolution": (optics.raman_evolution, RAMAN),
    "expected_of": (optics.expected_of, {"run": "absent.toml"}),
    "choose_step": (optics.choose_step, {"run": "absent.toml"}),
    "verify_step": (optics.verify_step, {"run": "absent.toml"}),
    "run_link": (optics.run_link, {"run": "absent.toml"}),
}
#: Where a function decides what a function's result must be, or a call of it takes long for no new reason.
UNTRIED = {("propagate_and_gradient", "objective", "function")}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, call in CALLS.items() for key in call[1]])
@pytest.mark.filterwarnings("ignore")
def test_wrong_values_are_named(name, key):
    function, arguments = CALLS[name]
    for label, value in VALUES.items():
        if (name, key, label) in UNTRIED:
            continue
        try:
            function(**(arguments | {key: value}))
        except InputError as error:
            if "\n" in str(error):
                pytest.fail(f"{key} = {label}: more than one line: {error}")
        except MissingExtra:
            pass
        except Exception as error:
            pytest.fail(f"{key} = {label}: {type(error).__name__}: {error}")


@pytest.mark.parametrize("value", [1e-300, 1e30, 1e150, 1e300])
@pytest.mark.filterwarnings("ignore")
def test_what_overflows_inside_is_refused(value):
    """Finite by itself, and too much for what follows from it: refused, or the field is lost."""
    for call in (
        lambda: optics.expected_quality(FIBRE, RECEIVER, optics.Spans(value)),
        lambda: optics.expected_quality(FIBRE, RECEIVER, optics.Spans(8e4, 2, gain=value)),
        lambda: optics.Spans(8e4, 10**6),
        lambda: optics.expected_quality(optics.single_mode(alpha=max(value, 1.0)), RECEIVER, SPANS),
        lambda: optics.propagate(**LAUNCH | {"field": FIELD * max(value, 1e30)}, step=50.0, device="cpu"),
        lambda: optics.at_frequency(FIBRE, value),
        lambda: optics.Receiver(TRANSMITTER, 1 / value if value < 1 else value),
        lambda: optics.Transmitter(GRID, "qpsk", 0.1, max(value, 1e30)),
    ):
        with pytest.raises(InputError):
            call()


def test_text_and_names_where_numbers_and_objects_are_taken():
    by_text, _ = optics.propagate(**LAUNCH, max_phase="10 mrad", device="cpu")
    by_number, _ = optics.propagate(**LAUNCH, max_phase=0.01, device="cpu")
    np.testing.assert_array_equal(by_text, by_number)
    form = optics.Constellation("16qam")
    assert optics.mutual_information("16-QAM", 15) == optics.mutual_information(form, 15.0)
    assert optics.gmi("16qam", "15") == optics.gmi(form, 15)
    with pytest.raises(InputError, match="constellation: '15qam' given, one of qpsk"):
        optics.mutual_information("15qam", 3)
    with pytest.raises(InputError, match="snr: "):
        optics.gmi("qpsk", -1)
    with pytest.raises(InputError, match="launch_power: '1e300 W' given; allowed: powers from 0 to 1e"):
        optics.Transmitter(GRID, "qpsk", 0.1, "1e300 W")
    assert optics.Receiver(TRANSMITTER, "20 dB", linewidth="100 kHz").linewidth == 1e5
