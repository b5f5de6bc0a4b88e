"""Schedules over electrical links, against answers of SCCL and TE-CCL."""

import pytest
import synthesis_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st
from synthesis_cases import check_links, fewest_steps

from wavefabric.base.errors import InputError
from wavefabric.collectives import COLLECTIVES, kind, layout
from wavefabric.collectives.synthesis import Links, Undecided, least_steps, synthesise_links


def all_gather(ranks, pieces=1):
    return layout("all-gather", ranks, ranks * pieces, pieces)


@pytest.mark.parametrize(
    ("links", "steps"),
    [
        (cases.ring(8), 4),
        (cases.everybody(8), 1),
        (cases.hub(8), 7),
        (cases.line(4), 3),
        (cases.hypercube(3), 3),
        (cases.dgx1(), 2),
        (cases.wound_mesh(4), 8),
        (cases.wound_mesh(6), 18),
    ],
    ids=["ring", "fully connected", "hub and spoke", "line", "hypercube", "DGX-1", "mesh 4×4", "mesh 6×6"],
)
def test_least_steps(links, steps):
    result = least_steps(all_gather(links.ranks), links)
    assert (result.rounds, result.lower_bound, result.optimal) == (steps, steps, True)
    check_links(result, links)


def test_dgx1_has_six_links_a_gpu():
    links = cases.dgx1()
    assert [sum(n for (a, _), n in links.capacity.items() if a == r) for r in range(8)] == [6] * 8


@pytest.mark.parametrize(("chunks", "steps", "rounds"), [(1, 2, 2), (2, 2, 3), (6, 3, 7)])
def test_sccl_feasible(chunks, steps, rounds):
    links = cases.dgx1()
    result = synthesise_links(all_gather(8, chunks), links, steps, rounds=rounds)
    assert result is not None
    assert (len(result.rounds_of_steps), sum(result.rounds_of_steps)) == (steps, rounds)
    assert result.schedule.communication_rounds == steps
    check_links(result, links)


@pytest.mark.parametrize(("chunks", "steps", "rounds"), [(3, 2, 4), (2, 2, 2), (1, 1, 5)])
def test_sccl_infeasible(chunks, steps, rounds):
    assert synthesise_links(all_gather(8, chunks), cases.dgx1(), steps, rounds=rounds) is None


def test_optimal_is_meant_of_the_steps_asked_for():
    result = synthesise_links(all_gather(8), cases.ring(8), 6)
    assert result is not None
    assert (result.rounds, result.lower_bound, result.optimal) == (6, 6, True)
    assert "6 rounds in exactly 6 steps, which need at least 6" in result.why
    assert "fewer steps may need fewer" in result.why
    least = synthesise_links(all_gather(8), cases.ring(8), 4)
    assert least is not None
    assert least.rounds == 4
    assert "may need fewer" not in least.why


def test_uneven_steps():
    # A line of three with two chunks each: the second step has to carry more than the first.
    links = cases.line(3)
    assert synthesise_links(all_gather(3, 2), links, 2, rounds=3) is None
    result = synthesise_links(all_gather(3, 2), links, 2, rounds=4)
    assert result is not None
    assert result.rounds_of_steps == (2, 2)
    check_links(result, links)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective(collective):
    links = cases.ring(5)
    result = least_steps(layout(collective, 5, 50, 5 if collective == "all-reduce" else 1), links)
    assert kind(result.schedule)[0] == collective
    assert result.optimal
    check_links(result, links)
    # Two in-links a rank bring four chunks; what is two links away takes two steps; 12 of an all-to-all's
    # chunks use 30 links of 10 a step: 3 steps.
    assert result.rounds == {"all-reduce": 4, "all-to-all": 3}.get(collective, 2)


def test_forwarding_through_others():
    # Rank 1 neither has nor needs the chunk that it passes on.
    links = cases.line(3)
    result = least_steps(layout("scatter", 3, 3), links)
    assert (result.rounds, result.optimal) == (2, True)
    assert "scratch" in result.schedule.buffers
    check_links(result, links)


def test_one_way_links():
    links = Links(3, {(0, 1): 1, (1, 2): 1, (2, 0): 1})
    for collective, steps in (("reduce-scatter", 2), ("all-reduce", 4), ("reduce", 2)):
        result = least_steps(layout(collective, 3, 3, 3 if collective == "all-reduce" else 1), links)
        assert (result.rounds, result.optimal) == (steps, True)
        check_links(result, links)
    result = synthesise_links(layout("all-reduce", 3, 3, 3), links, 4)
    assert result is not None
    check_links(result, links)


@st.composite
def small(draw):
    """Three ranks, links of any capacity, chunks that are needed somewhere."""
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    capacity = {pair: n for pair in pairs if (n := draw(st.sampled_from([0, 1, 1, 2])))}
    groups = ()
    if capacity and draw(st.booleans()):
        groups = ((frozenset(draw(st.sets(st.sampled_from(sorted(capacity)), min_size=1))), 1),)
    return Links(3, capacity, groups), draw(st.sampled_from(["all-gather", "scatter", "broadcast", "gather"]))


@settings(max_examples=60)
@given(small())
def test_against_trying_everything(case):
    links, collective = case
    made = layout(collective, 3, 3)
    have = [{r for r, _, c in made.pre if c == chunk} for chunk in range(3)]
    need = [{r for r, _, c in made.post if c == chunk} for chunk in range(3)]
    least = fewest_steps(links, have, need, 5)
    try:
        result = least_steps(made, links, time_limit=20)
    except InputError:
        assert least is None
        return
    check_links(result, links)
    assert result.optimal
    assert least is None or result.rounds == least


def test_refused():
    ring = cases.ring(4)
    with pytest.raises(InputError, match="rounds: 1; allowed: whole numbers from 2"):
        synthesise_links(all_gather(4), ring, 2, rounds=1)
    with pytest.raises(InputError, match="steps, rounds: 3, 3; allowed: even numbers"):
        synthesise_links(layout("all-reduce", 4, 4, 4), ring, 3)
    with pytest.raises(InputError, match="some rank cannot get what it needs"):
        least_steps(all_gather(3), Links(3, {(0, 1): 1, (1, 0): 1}))
    assert synthesise_links(all_gather(3), Links(3, {(0, 1): 1, (1, 0): 1}), 5) is None
    with pytest.raises(InputError, match=r"capacity\[0, 1\]: -1; allowed"):
        Links(2, {(0, 1): -1})
    with pytest.raises(InputError, match=r"groups\[0\]: link \(1, 0\); allowed: links named in capacity"):
        Links(2, {(0, 1): 1}, ((frozenset({(1, 0)}), 1),))


def test_time_runs_out():
    with pytest.raises(Undecided, match="time_limit: over before 3 steps and 7 rounds"):
        synthesise_links(all_gather(8, 6), cases.dgx1(), 3, rounds=7, time_limit=0.001)
