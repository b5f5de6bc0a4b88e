"""A circuit plan that was tampered with is refused, and the message says where."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point
from wavefabric.collectives.registry import build
from wavefabric.fabric.photonic.check import PlanError, check_plan, needs_wavelength_switches
from wavefabric.fabric.photonic.circuit_plan import Bundle, CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.planning import plan_circuits


def wafer(rows, columns, **changes):
    numbers = {"lasers": 4, "serdes_ports": None, "laser_bandwidth": 20e9, "waveguides": 2, "fibres": 1}
    numbers |= {"wafer_rows": rows, "wafer_columns": columns, "alpha": 1e-6, "reconfiguration": 4e-6}
    return PhotonicFabric("wafer", rows, columns, **numbers | changes)


def messages(ranks, pairs):
    return point_to_point("messages", ranks, [(s, d, 1) for s, d in pairs])


def one_part(fabric, bundles, overlap=1, bound=1):
    return CircuitPlan("messages", fabric, (CircuitRound(0, 0, tuple(bundles), overlap, bound),))


#: Tiles 0 1 2 / 3 4 5: two circuits that share the edge from 1 to 2, in two waveguides.
LEFT = Bundle(0, 2, 0b0011, (0, 1, 2), (0, 0))
RIGHT = Bundle(1, 5, 0b0011, (1, 2, 5), (1, 0))
PAIRS = ((0, 2), (1, 5))


def test_the_plan_that_is_tampered_with_below_is_sound():
    check_plan(one_part(wafer(2, 3), [LEFT, RIGHT], 2), messages(6, PAIRS))


@pytest.mark.parametrize(
    ("left", "words"),
    [
        ({"src": 3}, "circuit 3 -> 2: route [0, 1, 2]; allowed: from 3 to 2"),
        ({"dst": 6}, "circuit 0 -> 6: tile 6; allowed: 0 to 5"),
        ({"wavelengths": 0}, "circuit 0 -> 2: wavelengths 0x0; allowed: bits 0 to 3, one set"),
        ({"wavelengths": 0b10000}, "circuit 0 -> 2: wavelengths 0x10; allowed: bits 0 to 3"),
        ({"wavelengths": -1}, "circuit 0 -> 2: wavelengths -0x1; allowed: bits 0 to 3"),
        (
            {"route": (0, 2), "waveguides": (0,)},
            "circuit 0 -> 2: edge 0 -> 2; allowed: edges between neighbours",
        ),
        ({"route": (0, 1, 2, 3), "waveguides": (0, 0, 0)}, "route [0, 1, 2, 3]; allowed: from 0 to 2"),
        ({"route": (0, 3, 2), "waveguides": (0, 0)}, "edge 3 -> 2; allowed: edges between neighbours"),
        (
            {"route": (0, 3, 0, 1, 2), "waveguides": (0, 0, 0, 0)},
            "the route passes tile 0 twice; allowed: once",
        ),
        ({"waveguides": (0,)}, "circuit 0 -> 2: 1 waveguides; allowed: 2, one an edge"),
        ({"waveguides": (0, 2)}, "circuit 0 -> 2: edge 1 -> 2, waveguide 2; allowed: 0 to 1"),
        ({"waveguides": (-1, 0)}, "circuit 0 -> 2: edge 0 -> 1, waveguide -1; allowed: 0 to 1"),
        (
            {"waveguides": (0, 1)},
            "round 0, part 0: edge 1 -> 2, waveguide 1: wavelength 0 twice; allowed: once",
        ),
        (
            {"route": (0, 3, 4, 5, 2), "waveguides": (0, 0, 0, 0)},
            "overlap 2; allowed: 1, as on the busiest edge",
        ),
    ],
)
def test_a_circuit_that_cannot_be_is_refused(left, words):
    changed = one_part(wafer(2, 3), [replace(LEFT, **left), RIGHT], 2)
    with pytest.raises(PlanError) as error:
        check_plan(changed, messages(6, PAIRS))
    assert words in str(error.value)
    assert str(error.value).startswith("round 0, part 0: ")
    assert "\n" not in str(error.value)
    assert isinstance(error.value, InputError)


@pytest.mark.parametrize(
    ("pairs", "bundles", "ports", "words"),
    [
        (((0, 1), (0, 3)), ((0, 1, 0b11), (0, 3, 0b10)), None, "tile 0: laser of wavelength 1 used 2 times"),
        (
            ((0, 1), (4, 1)),
            ((0, 1, 0b1), (4, 1, 0b1)),
            None,
            "tile 1: photodiode of wavelength 0 used 2 times",
        ),
        (((0, 1), (0, 3)), ((0, 1, 0b11), (0, 3, 0b100)), 2, "tile 0: 3 lasers used; allowed: 2, its ports"),
        (
            ((0, 1), (4, 1)),
            ((0, 1, 0b1), (4, 1, 0b110)),
            2,
            "tile 1: 3 photodiodes used; allowed: 2, its ports",
        ),
    ],
)
def test_lasers_photodiodes_and_ports_of_a_tile_are_counted(pairs, bundles, ports, words):
    made = one_part(wafer(2, 3, serdes_ports=ports), [Bundle(s, d, m, (s, d), (0,)) for s, d, m in bundles])
    with pytest.raises(PlanError, match="round 0, part 0: ") as error:
        check_plan(made, messages(6, pairs))
    assert words in str(error.value)


def test_fibres_count_between_wafers():
    fabric = wafer(2, 3, wafer_columns=1)
    with pytest.raises(PlanError, match="edge 1 -> 2, waveguide 1; allowed: 0 to 0"):
        check_plan(one_part(fabric, [LEFT, RIGHT], 2), messages(6, PAIRS))


def changed_rounds(circuits, schedule):
    """What can go wrong with whole rounds, and what the message must say."""
    rounds = circuits.rounds
    first, second = rounds[:2]
    spare = Bundle(0, 5, 1, (0, 1, 2, 5), (0, 0, 0))
    yield (second, first, *rounds[2:]), "out of order"
    yield (replace(first, part=1), *rounds[1:]), "out of order"
    yield rounds[1:], "round 0: no circuit from tile 0 to 1; allowed: circuits for all transfers"
    yield (replace(first, bundles=first.bundles[1:]), *rounds[1:]), "round 0: no circuit from tile 0 to 1"
    yield (first, replace(first, part=1), *rounds[1:]), "round 0, part 1: circuits 0 -> 1 in an earlier part"
    yield (replace(first, overlap=first.overlap + 1), *rounds[1:]), "round 0, part 0: overlap 2; allowed: 1"
    yield (replace(first, overlap_bound=2), *rounds[1:]), "round 0, part 0: overlap bound 2; allowed: 1 to 1"
    yield (replace(first, bundles=()), *rounds[1:]), "round 0, part 0: no circuits; allowed: at least one"
    alone = CircuitRound(0, 1, (spare,), 1, 1)
    yield (first, alone, *rounds[1:]), "round 0: circuit 0 -> 5 carries nothing"
    yield (*rounds, replace(first, round=99)), "round 99: circuit 0 -> 1 carries nothing"


def test_bounds_that_nothing_proves_are_refused():
    # Both could go elsewhere: no cut says that two have to share an edge.
    shared = one_part(wafer(2, 3), [LEFT, RIGHT], 2, 2)
    with pytest.raises(PlanError, match="round 0, part 0: overlap bound 2; allowed: 1 to 1, as proved"):
        check_plan(shared, messages(6, PAIRS))
    schedule = build("direct", "all-to-all", 6, 36)
    circuits = plan_circuits(schedule, wafer(2, 3))
    assert circuits.rounds[0].parts_bound == 2 <= len(circuits.rounds)
    check_plan(circuits, schedule)
    for claim in (0, len(circuits.rounds) + 1):
        rounds = (replace(circuits.rounds[0], parts_bound=claim), *circuits.rounds[1:])
        with pytest.raises(PlanError, match=f"round 0: parts bound {claim}; allowed: 1 to 2, by ports"):
            check_plan(replace(circuits, rounds=rounds), schedule)


def test_narrow_edges_need_switches_that_part_wavelengths():
    schedule = build("recursive", "all-gather", 16, 16, radix=4)
    for waveguides, needed in ((2, True), (4, False)):
        fabric = wafer(4, 4, lasers=16, waveguides=waveguides)
        assert needs_wavelength_switches(plan_circuits(schedule, fabric)) is needed


def test_a_bound_above_the_cuts_is_proved_again():
    pairs = ((7, 6), (7, 4), (5, 6), (6, 2), (4, 2), (5, 3))
    schedule, fabric = messages(9, pairs), wafer(3, 3)
    circuits = plan_circuits(schedule, fabric, routing="exact")
    assert circuits.rounds[0].overlap_bound == 2
    check_plan(circuits, schedule)


def test_rounds_that_are_not_the_schedule_s_are_refused():
    schedule = build("ring", "all-gather", 6, 6)
    circuits = plan_circuits(schedule, wafer(2, 3))
    check_plan(circuits, schedule)
    for rounds, words in changed_rounds(circuits, schedule):
        with pytest.raises(PlanError) as error:
            check_plan(replace(circuits, rounds=tuple(rounds)), schedule)
        assert words in str(error.value)
    with pytest.raises(PlanError, match="schedule: circuits for 'ring all-gather' given"):
        check_plan(circuits, build("ring", "all-reduce", 6, 6))
    with pytest.raises(PlanError, match="ranks: 6 given; allowed: 1 to 4"):
        check_plan(replace(circuits, fabric=wafer(2, 2)), schedule)


def valid_by_counting(circuits, schedule):
    """The rules by plain loops: what `check_plan` must agree with."""
    f = circuits.fabric
    edges = set(f.edges())
    served = {}
    keys = [(r.round, r.part) for r in circuits.rounds]
    for n, (number, part) in enumerate(keys):
        follows = n > 0 and (number, part) == (keys[n - 1][0], keys[n - 1][1] + 1)
        if not follows and (part != 0 or (n and number <= keys[n - 1][0])):
            return False
    for r in circuits.rounds:
        used, ends, routes = set(), {}, set()
        for b in r.bundles:
            if not 0 < b.wavelengths < 1 << f.lasers or len(set(b.route)) < len(b.route):
                return False
            if (b.route[0], b.route[-1]) != (b.src, b.dst) or len(b.waveguides) != len(b.route) - 1:
                return False
            lines = list(zip(b.route[:-1], b.route[1:], b.waveguides, strict=True))
            if not lines or any((a, c) not in edges or not 0 <= g < f.capacity(a, c) for a, c, g in lines):
                return False
            for w in range(f.lasers):
                if b.wavelengths >> w & 1:
                    for position in (("out", b.src, w), ("in", b.dst, w), *((*line, w) for line in lines)):
                        if position in used:
                            return False
                        used.add(position)
                    for end in (("out", b.src), ("in", b.dst)):
                        ends[end] = ends.get(end, 0) + 1
            routes.add((b.src, b.dst, b.route))
            served.setdefault((r.round, b.src, b.dst), set()).add(r.part)
        loads = {}
        for _, _, route in routes:
            for edge in pairwise(route):
                loads[edge] = loads.get(edge, 0) + 1
        if not loads or max(ends.values()) > f.ports:
            return False
        if r.overlap != max(loads.values()) or not 1 <= r.overlap_bound <= r.overlap:
            return False
    wanted = {(t["round"], t["src"], t["dst"]) for t in schedule.transfers if t["src"] != t["dst"]}
    return served.keys() == wanted and all(len(parts) == 1 for parts in served.values())


def mutated(circuits, data):
    """The plan with one thing changed."""
    rounds = list(circuits.rounds)
    i = data.draw(st.integers(0, len(rounds) - 1))
    r = rounds[i]
    j = data.draw(st.integers(0, len(r.bundles) - 1))
    b = r.bundles[j]
    what = data.draw(
        st.sampled_from(("src", "dst", "mask", "guide", "route", "drop", "twice", "swap", "number"))
    )
    tile = data.draw(st.integers(0, circuits.fabric.ranks - 1))
    at = data.draw(st.integers(0, len(b.waveguides) - 1))
    bundles = list(r.bundles)
    if what in ("src", "dst"):
        bundles[j] = replace(b, **{what: tile})
    elif what == "mask":
        bundles[j] = replace(b, wavelengths=b.wavelengths ^ 1 << data.draw(st.integers(0, 5)))
    elif what == "guide":
        guides = list(b.waveguides)
        guides[at] += data.draw(st.sampled_from((-1, 1)))
        bundles[j] = replace(b, waveguides=tuple(guides))
    elif what == "route":
        bundles[j] = replace(b, route=(*b.route[:at], tile, *b.route[at + 1 :]))
    elif what == "drop":
        del bundles[j]
    elif what == "twice":
        bundles.append(b)
    elif what == "swap":
        k = data.draw(st.integers(0, len(bundles) - 1))
        other = bundles[k]
        bundles[j], bundles[k] = (
            replace(b, wavelengths=other.wavelengths),
            replace(other, wavelengths=b.wavelengths),
        )
    else:
        key = data.draw(st.sampled_from(("round", "part", "overlap", "overlap_bound")))
        r = replace(r, **{key: getattr(r, key) + data.draw(st.sampled_from((-1, 1)))})
    rounds[i] = replace(r, bundles=tuple(bundles))
    return replace(circuits, rounds=tuple(rounds))


SCHEDULES = (
    build("recursive", "all-reduce", 6, 12, radix=3),
    build("direct", "all-to-all", 6, 36),
    build("ring", "all-gather", 6, 6),
)
CIRCUITS = tuple(
    plan_circuits(s, wafer(2, 3, waveguides=w)) for s, w in zip(SCHEDULES, (1, 2, 3), strict=True)
)


@settings(max_examples=100)
@given(st.sampled_from(range(3)), st.data())
def test_the_check_agrees_with_plain_counting_on_plans_that_were_changed(which, data):
    schedule, circuits = SCHEDULES[which], CIRCUITS[which]
    assert valid_by_counting(circuits, schedule)
    check_plan(circuits, schedule)
    changed = mutated(circuits, data)
    if valid_by_counting(changed, schedule):
        check_plan(changed, schedule)
    else:
        with pytest.raises(PlanError):
            check_plan(changed, schedule)


def test_switches_turn_all_wavelengths_of_a_waveguide_alike():
    together = Bundle(0, 2, 0b01, (0, 1, 2), (0, 0)), Bundle(0, 2, 0b10, (0, 1, 2), (0, 0))
    assert not needs_wavelength_switches(one_part(wafer(2, 3), together))
    parting = Bundle(0, 2, 0b01, (0, 1, 2), (0, 0)), Bundle(0, 4, 0b10, (0, 1, 4), (0, 0))
    check_plan(one_part(wafer(2, 3), parting, 2), messages(6, ((0, 2), (0, 4))))
    assert needs_wavelength_switches(one_part(wafer(2, 3), parting, 2))
    ending = Bundle(0, 2, 0b01, (0, 1, 2), (0, 0)), Bundle(0, 1, 0b10, (0, 1), (0,))
    assert needs_wavelength_switches(one_part(wafer(2, 3), ending, 2))
