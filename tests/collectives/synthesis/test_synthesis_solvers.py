"""The parts of the synthesis on their own: solvers, colouring, bounds, interruption, absence of solvers."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthesis_cases import grid

from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.collectives import layout
from wavefabric.collectives.conditions import Layout
from wavefabric.collectives.synthesis import Links, OpticalNetwork, solve, synthesise
from wavefabric.collectives.synthesis.bounds import circuit_bound, cut_bound
from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import task
from wavefabric.collectives.synthesis.graphs import colours
from wavefabric.collectives.synthesis.model import Model


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=60))
def test_colours(edges):
    result = colours(edges, 6, 7, Deadline())
    degrees = np.bincount([u for u, _ in edges] + [6 + v for _, v in edges], minlength=1)
    assert len(set(result)) <= degrees.max()
    for end in (0, 1):
        assert len({(e[end], c) for e, c in zip(edges, result, strict=True)}) == len(edges)


def pigeons(birds, holes):
    model = Model()
    at = [[model.variable() for _ in range(holes)] for _ in range(birds)]
    for row in at:
        model.row(row, 1, 1)
    for hole in zip(*at, strict=True):
        model.limit(hole, 1)
    return model


@pytest.mark.parametrize(
    "make",
    [lambda m, t: solve._CpSat(m, t, 1), pytest.param(solve._Highs, marks=pytest.mark.slow)],
    ids=["CP-SAT", "HiGHS"],
)
@pytest.mark.parametrize(("holes", "feasible"), [(4, True), (3, False)])
def test_each_solver(make, holes, feasible):
    model = pigeons(4, holes)
    deadline = time.monotonic() + 60
    answer = solve._wait([make(model, deadline)], deadline)
    assert answer.feasible is feasible
    if feasible:
        assert answer.values is not None
        assert model.holds(answer.values)
        assert not model.holds(np.zeros(len(model.upper)))


def test_both_are_asked(monkeypatch):
    monkeypatch.setattr(solve, "_ALONE", 0.0)
    assert solve.decide(pigeons(5, 4), time.monotonic() + 60).feasible is False


@pytest.mark.slow
def test_general_rows():
    model = Model()
    a, b = model.variable(9, 2), model.variable(9)
    model.row([a, b], 7, 7, [3, -1])
    for make in (lambda m, t: solve._CpSat(m, t, 1), solve._Highs):
        answer = solve._wait([make(model, time.monotonic() + 60)], time.monotonic() + 60)
        assert answer.values is not None
        assert 3 * answer.values[a] - answer.values[b] == 7
        assert answer.values[a] >= 3


def test_bounds():
    def demand(*args):
        return task(layout(*args)).copies

    assert circuit_bound(demand("all-gather", 8, 8), 4)[0] == 2
    assert circuit_bound(demand("all-gather", 8, 16, 2), 4)[0] == 4
    assert circuit_bound(demand("broadcast", 26, 1), 4)[0] == 3  # 5² < 26
    assert circuit_bound(demand("scatter", 9, 9), 3)[0] == 3
    # Six chunks through a root: 1, 2, 4, 8, 8, 8 … ranks that send give 42 receipts in 8 rounds, 34 in 7.
    assert circuit_bound(demand("broadcast", 8, 6, 6), 1)[0] == 8
    line = Links(3, {(0, 1): 1, (1, 0): 1, (1, 2): 1, (2, 1): 1})
    assert cut_bound(demand("all-gather", 3, 3), line)[0] == 2
    assert cut_bound(demand("all-to-all", 3, 3), line)[0] == 2
    assert cut_bound(demand("all-gather", 3, 3), Links(3, {(0, 1): 1, (1, 2): 1}), shared=True)[0] == 3


HARD = """
from synthesis_cases import grid
from wavefabric.collectives import layout
from wavefabric.collectives.synthesis import Links, synthesise
made, network = layout("all-gather", 32, 32), grid(4, 8, 16, 1, 4)
synthesise(made, network, time_limit=100_000, progress=lambda text: print(text, flush=True))
"""


@pytest.mark.slow
def test_ctrl_c():
    here = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {here!r})\n{HARD}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if "without wavelengths" in line:
                break
        time.sleep(1.0)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=600)  # long before its limit: a fraction of a second at rest
    assert "KeyboardInterrupt" in error
    assert child.returncode != 0


def test_without_ortools(monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "ortools"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ortools", None)
    # What bounds and known schedules settle needs no solver.
    assert synthesise(layout("all-gather", 8, 8), grid(2, 4, 4, 20)).optimal
    with pytest.raises(MissingExtra, match=r"wavefabric\[schedules\]"):
        synthesise(layout("all-gather", 8, 8), grid(2, 4, 8, 1, 2))


def custom(pre, post):
    sizes = (np.ones((2, 2), np.int64),)
    return Layout(2, ("data",), sizes, pre, post)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (custom({(0, 0, 0): (0, 1)}, {(1, 0, 0): (5, 1)}), "item 5 must be held after"),
        (
            custom({(0, 0, 0): (0, 1), (1, 0, 0): (1, 2)}, {(1, 0, 0): (0, 1)}),
            "holds item 1 before and 0 after",
        ),
        (custom({(0, 0, 0): (0, 3), (1, 0, 0): (0, 2)}, {(1, 0, 0): (0, 3)}), "counts a rank twice"),
        (custom({(0, 0, 0): (0, 1), (1, 0, 0): (0, 2)}, {(1, 0, 0): (0, 1)}), "part of a sum"),
        (custom({(0, 0, 0): (0, 1), (1, 0, 0): (0, 2)}, {(1, 0, 1): (0, 3)}), "where its own part is"),
    ],
)
def test_layouts_refused(made, message):
    network = OpticalNetwork(2, 1, 1, None, {(0, 1): ((0, 1),), (1, 0): ((1, 0),)})
    with pytest.raises(InputError, match=message):
        synthesise(made, network)


def test_copies_within_a_rank():
    # Rank 1 must hold the chunk twice, rank 0 once more than it does.
    made = custom({(0, 0, 0): (0, 1)}, {(0, 0, 1): (0, 1), (1, 0, 0): (0, 1), (1, 0, 1): (0, 1)})
    network = OpticalNetwork(2, 1, 1, None, {(0, 1): ((0, 1),)})
    result = synthesise(made, network)
    assert (result.rounds, result.optimal, result.schedule.rounds) == (1, True, 2)
