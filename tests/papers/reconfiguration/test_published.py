"""Published schedules beside ours: points against closed forms, and quick cases."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from papers.reconfiguration import harvest, published, swot


def test_points_of_swot_are_what_its_strawman_takes():
    # All switches change before each step but the first: 0.2 ms. Each step takes 0.02 ms and its message.
    for row in published.rows("SWOT"):
        fractions, kinds = swot.steps(row["algorithm"], int(row["nodes"]))
        changes = sum(a != b for a, b in pairwise(kinds))
        data = row["MB"] * sum(fractions) / (row["GB_per_s"] * row["switches"])
        expected = row["set_up"] * changes + swot.LATENCY * len(kinds) + data
        assert row["strawman"] == pytest.approx(expected, abs=6e-5)
        assert data + swot.LATENCY * len(kinds) <= row["theirs"] <= expected + 1e-4


@pytest.mark.parametrize(("algorithm", "nodes"), [("pairwise", 4), ("halving", 16), ("halving", 64)])
def test_ours_is_not_slower_than_swot(algorithm, nodes):
    (row,) = (r for r in published.rows("SWOT 8") if (r["algorithm"], r["nodes"]) == (algorithm, nodes))
    assert published.swot_time(row, {}) <= row["theirs"] * 1.0001


def test_a_reduce_scatter_of_swot_has_half_the_steps_of_its_all_reduce():
    half, kinds = swot.steps("reduce-scatter", 8)
    assert (half, kinds) == ([0.5, 0.25, 0.125], [0, 1, 2])
    assert swot.steps("halving", 8) == ([*half, *half[::-1]], [0, 1, 2, 2, 1, 0])
    case = swot.problem("pairwise", 5, 4, 20.0, 0.2, 25.0)
    assert [t.ends[0].tolist() for t in case.topologies] == [[0, 1], [0, 2], [0, 3], [0, 4]]
    assert [d.scale for d in case.demands] == [5.0] * 4


def test_all_reduces_equal_the_published_schedules_of_harvest():
    cases = [row for row in published.rows("Harvest") if row["algorithm"] == "all-reduce"]
    assert len(cases) == 3
    for row in cases:
        ours, circuits = harvest.best(harvest.problem("all-reduce", 64, row["MB"], row["set_up"]))
        assert ours == pytest.approx(row["theirs"], rel=1e-4)
        assert harvest.changes(circuits) == row["changes"]


@pytest.mark.parametrize("collective", ["all-reduce", "all-to-all", "reduce-scatter"])
def test_a_case_of_harvest_equals_all_choices_in_closed_form(collective):
    # 2^k hops over circuits half as long; with 8 GPUs no way over an even shift to an odd one.
    fractions, far = harvest.steps(collective, 8)
    shifts, best = list(dict.fromkeys(far)), np.inf
    for choice in product(shifts, repeat=min(len(far), 4)):
        seconds = 0.01 * harvest.changes(list(choice))
        for part, s, c in zip(fractions, far, choice, strict=False):
            hops = next((h for h in range(1, 9) if c * h % 8 == s), np.inf)
            seconds += 0.003 + hops * (0.002 + 4.0 * part / 10.0)
        best = min(best, seconds)
    case = harvest.problem(collective, 8, 4.0, 0.01, 0.002, 10.0)
    first = replace(case, demands=case.demands[:4])
    assert harvest.best(first, 0.003)[0] == pytest.approx(best)


def test_the_emulation_compares_measured_times():
    result = published.emulation()
    assert len(result) == 12
    for one in result:
        assert one["choice"] in published.COMPARED
        assert one["ours"] >= one["theirs"] > 0
        assert one["best"] == one["choice"] or one["ours"] > one["theirs"]
    # 1 MiB, set-ups of 1 ms: nobody changes. The three measured steps: 0.086665 + 0.126609 + 0.094710 ms.
    one = next(one for one in result if one["MB"] < 2 and one["set_up"] == 1.0)
    assert (one["best"], one["choice"]) == ("static", "static")
    assert one["ours"] == one["theirs"] == pytest.approx(0.307984)
