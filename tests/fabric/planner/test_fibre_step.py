"""What steps of fibres send and compute, as docs/ranks.md says and as runs count; their memory."""

import re
from pathlib import Path

import numpy as np
import pytest
from fibre_cases import RATE, launch, make_fibre

from wavefabric.cli.bench.solver_rates import first_modes
from wavefabric.fabric import load
from wavefabric.fabric.planner.exchange_times import SIGNALS, ExchangeTimes
from wavefabric.fabric.planner.fibre_step import FibreStep, kerr_coupling, operations
from wavefabric.fabric.planner.plan_runs import FibreRun, plan_fibre
from wavefabric.fabric.planner.rates import load_rates
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.propagate import PropagationOptions, memory_needed, propagate
from wavefabric.optics.propagation.rank_modes import RankModes

PAGE = (Path(__file__).parents[3] / "docs" / "ranks.md").read_text()
H200, HGX = load_rates("h200"), load("hgx-h200")
FIBRE = make_fibre(np.random.default_rng(5).uniform(0.3, 1.0, (8, 8)), beta=[0, -20e-27, 0, 0])


def step_of(fibre, samples, integrator, ranks, form="dense", carrier="p2p"):
    ends = RankModes(tuple(r * fibre.modes // ranks for r in range(ranks + 1)))
    exchange = ExchangeTimes(HGX, carrier)
    coupling = kerr_coupling(fibre, ends, form)
    how = {"precision": "double", "rates": H200, "exchange": exchange}
    return FibreStep(coupling, samples, integrator, ends, **how)


def cells(start):
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


@pytest.mark.parametrize("column", range(3))
def test_bytes_of_the_page(column):
    steps = {
        form: step_of(first_modes(120), 1 << 21, "rk4ip", 2 << column, form) for form in ("dense", "factored")
    }
    dense, groups = steps["dense"].bytes_sent, steps["factored"].coupling.parts
    assert f"{dense / 1e9:.3g} GB" == cells("dense: each rank receives")[column]
    assert str(sum(groups)) == cells("factored: phase groups of all ranks")[column]
    received = 4 * (sum(groups) - min(groups)) * 8 << 21
    assert f"{received / 1e9:.2f} GB" == cells("factored: each rank receives at most")[column]
    sent = 4 * max(groups) * ((2 << column) - 1) * 8 << 21
    assert steps["factored"].bytes_sent == sent


def exchanges_of_the_page():
    names = re.search(r"\| integrator \|(.*)\|\n\|[-|]*\|\n\| exchanges", PAGE)[1].split("|")
    counts = map(int, cells("exchanges a step"))
    return {name: n for cell, n in zip(names, counts, strict=True) for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_steps_are_those_of_the_integrators(cpu, integrator):
    assert INTEGRATORS.keys() == exchanges_of_the_page().keys()
    reports = []
    for steps in (5, 6):
        how = {"sample_rate": RATE, "device": cpu, "step": 100.0, "integrator": integrator}
        reports.append(propagate(launch(), make_fibre(np.eye(3)), 100.0 * steps, **how)[1])
    assert 2 * operations(integrator).count("linear") == reports[1].ffts - reports[0].ffts
    step = step_of(FIBRE, 1024, integrator, 2)
    exchanges = exchanges_of_the_page()[integrator]
    assert step.bytes_sent == exchanges * 8 * 1024 * 8
    # However few the samples, the signals of other ranks are waited for.
    signalled = step_of(FIBRE, 1024, integrator, 2, carrier=SIGNALS).times()
    assert signalled.exposed >= exchanges * HGX.kernels.signal


def test_candidates_say_the_memory_that_runs_check():
    propagation, fibre = PropagationOptions(step=100.0), first_modes(30)
    plan = plan_fibre(FibreRun(fibre, 1 << 16, propagation, 7), 4, HGX, H200)
    modes = RankModes((0, 8, 16, 23, 30))
    for candidate in (c for c in plan.candidates if c is not plan.alone):
        options = PropagationOptions(step=100.0, **candidate.options)
        one_sided = candidate.carrier == SIGNALS
        assert candidate.bytes == memory_needed(fibre, 1 << 16, options, H200, modes, one_sided)
        assert candidate.error == 0
    assert plan.alone.bytes == memory_needed(fibre, 1 << 16, propagation, H200)
    assert (plan.steps, len(plan.candidates)) == (7, 11)
    assert plan.problem == "60 rows x 65536 samples, rk4ip, double precision"
