"""`propagate`: its two-line interface, what it refuses, what it watches and reports."""

import math
import tracemalloc

import numpy as np
import pytest
from fibre_cases import ALL, FIBRE, LOSS, RATE, distance, launch, propagator, put

from wavefabric.base.errors import FieldLost, InputError
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.propagate import PropagationOptions, Propagator, propagate
from wavefabric.runtime.device import get_device


def test_text_with_units_and_plain_numbers(cpu):
    start = launch()
    kept = start.copy()
    out, report = propagate(start, FIBRE, "20 km", sample_rate="500 GHz", step="100 m", device=cpu)
    same, _ = propagate(start, FIBRE, 20e3, sample_rate=500e9, step=100, device="cpu")
    assert distance(same, out) < 1e-14
    assert (start == kept).all()
    assert (out.shape, out.dtype) == ((6, 192), np.dtype(complex))
    assert (report.integrator, report.device, report.steps, report.step) == ("rk4ip", "cpu", 200, 100.0)


def test_progress_and_report(cpu):
    seen = []
    _, report = propagate(
        launch(), FIBRE, 1e3, sample_rate=RATE, step=90.0, device=cpu, progress=lambda *at: seen.append(at)
    )
    # Equal steps, none longer than asked for.
    assert [done for _, done in seen] == list(range(1, 13))
    assert [z for z, _ in seen] == pytest.approx([1e3 * k / 12 for k in range(1, 13)])
    assert report.step == pytest.approx(1e3 / 12)
    assert report.seconds > 0
    assert report.rejected == 0


def test_single_precision(cpu):
    options = {"sample_rate": RATE, "step": 100.0, "device": cpu}
    double, _ = propagate(launch(), FIBRE, 20e3, **options)
    single, _ = propagate(launch(), FIBRE, 20e3, precision="single", **options)
    assert single.dtype == np.complex64
    # About 1e-7 a step.
    assert 1e-9 < distance(single, double) < 5e-5


@pytest.mark.parametrize("options", [{"step": 500.0}, {"max_phase": 0.1}, {"tolerance": 1e-6}])
def test_a_dark_field_stays_dark(cpu, options):
    out, report = propagate(
        np.zeros((6, 64)), FIBRE, 5e3, sample_rate=RATE, integrator="erk43ip", device=cpu, **options
    )
    assert (out == 0).all()
    assert report.energy_drift == 0


GOOD = {"sample_rate": RATE, "step": 100.0}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"field": np.ones((4, 64))}, "field"),
        ({"field": np.ones(64)}, "field"),
        ({"field": np.ones((6, 64, 1))}, "field"),
        ({"field": np.ones((6, 0))}, "field"),
        ({"field": np.full((6, 64), np.nan)}, "field"),
        ({"field": np.full((6, 64), np.inf)}, "field"),
        ({"length": 0.0}, "length"),
        ({"length": -1.0}, "length"),
        ({"length": math.nan}, "length"),
        ({"length": math.inf}, "length"),
        ({"length": "80"}, "length"),
        ({"length": "80 GHz"}, "length"),
        ({"sample_rate": 0.0}, "sample_rate"),
        ({"sample_rate": math.inf}, "sample_rate"),
        ({"sample_rate": "10 km"}, "sample_rate"),
        ({"step": 0.0}, "step"),
        ({"step": -5.0}, "step"),
        ({"step": math.inf}, "step"),
        ({"step": "5 ps"}, "step"),
        ({"step": None}, "step"),
        ({"max_phase": 0.1}, "step.*max_phase"),
        ({"step": None, "max_phase": 0.0}, "max_phase"),
        ({"step": None, "max_phase": math.nan}, "max_phase"),
        ({"step": None, "tolerance": 1e-6}, "tolerance"),
        ({"step": None, "tolerance": -1e-6, "integrator": "erk43ip"}, "tolerance"),
        ({"integrator": "euler"}, "integrator"),
        ({"precision": "half"}, "precision"),
        ({"kerr": "best"}, "kerr"),
        ({"kerr": "svd", "svd_tolerance": 2.0}, "svd_tolerance"),
        ({"check_interval": 0}, "check_interval"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_refusals(change, word):
    inputs = {"field": np.ones((6, 64)), "length": 1e3, "device": "cpu"} | GOOD | change
    with pytest.raises(InputError, match=word) as caught:
        propagate(inputs.pop("field"), FIBRE, inputs.pop("length"), **inputs)
    assert not isinstance(caught.value, FieldLost)
    assert "\n" not in str(caught.value)


def test_too_little_memory_is_said_before_any_is_taken(monkeypatch):
    cpu = get_device("cpu", threads=1)
    monkeypatch.setattr(cpu, "memory", lambda: (10 << 20, 4 << 30))
    field = launch(1 << 14)
    tracemalloc.start()
    try:
        with pytest.raises(
            InputError, match=r"memory: 6 rows x 16384 samples needs 0\.\d+ GiB.*0\.01 of 4\.00 GiB"
        ):
            Propagator(FIBRE, field.shape[1], RATE, cpu, PropagationOptions(step=100.0))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# --- watch ---------------------------------------------------------------------------------------


def test_energy_drift_is_reported(cpu):
    start = launch(power=60e-3)
    for integrator, step, low, high in (("strang", 200.0, 0, 1e-12), ("rk4ip", 500.0, 1e-6, 1e-2)):
        out, report = propagate(
            start,
            FIBRE,
            20e3,
            sample_rate=RATE,
            step=step,
            integrator=integrator,
            device=cpu,
            check_interval=1,
        )
        left = (abs(out) ** 2).sum(axis=1) / (abs(start) ** 2).sum(axis=1)
        drift = abs(left / np.exp(-np.repeat(LOSS, 2) * 20e3) - 1).max()
        assert low <= drift <= report.energy_drift * (1 + 1e-9) + 1e-15
        assert report.energy_drift < high


@pytest.mark.parametrize("integrator", ["rk4ip", "ssfm_rk4"])
@pytest.mark.parametrize("control", ["step", "max_phase"])
def test_a_lost_field_is_noticed(cpu, integrator, control):
    options = {control: 50e3 if control == "step" else 1e6}
    with pytest.raises(FieldLost, match=r"mode M\d is not finite at z = .* km"):
        propagate(
            launch(power=1e3), FIBRE, 5e6, sample_rate=RATE, integrator=integrator, device=cpu, **options
        )


def test_a_field_lost_at_the_start(cpu):
    runner = propagator(cpu, step=100.0)
    A = put(runner, launch())
    A[4, 17] = np.nan
    with pytest.raises(FieldLost, match=r"mode M3 .* z = 0 km"):
        runner.run(A, 1e3)


@pytest.mark.parametrize("integrator", ALL)
def test_counts_of_a_run(cpu, integrator):
    _, report = propagate(
        launch(),
        FIBRE,
        1e3,
        sample_rate=RATE,
        step=10.0,
        integrator=integrator,
        device=cpu,
        check_interval=25,
    )
    # 4 check intervals of 25 steps; the measurement of the local error is not counted.
    kind = INTEGRATORS[integrator]
    counts = zip(kind.cost_per_step, kind.cost_per_interval, strict=True)
    assert report.steps == 100
    assert (report.ffts, report.exchanges) == tuple(100 * step + 4 * interval for step, interval in counts)


def test_every_integrator_is_named_once():
    assert set(INTEGRATORS) >= {"ssfm_agrawal", "ssfm_rk4", "rk4ip", "strang", "blanes_moan", "erk43ip"}
    assert all(kind.name == name for name, kind in INTEGRATORS.items())
