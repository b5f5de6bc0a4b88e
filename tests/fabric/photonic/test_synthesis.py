"""Synthesised circuits on the fabric they were made for."""

from dataclasses import replace

import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.synthesis import synthesise
from wavefabric.collectives.synthesis.problem import Circuit, Synthesis
from wavefabric.fabric.cost_models.photonic import photonic
from wavefabric.fabric.photonic.check import PlanError, check_plan
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.routing.k_shortest import k_shortest
from wavefabric.fabric.photonic.routing.routes import xy
from wavefabric.fabric.photonic.synthesis_problem import circuit_plan, optical_network


def wafer(rows, columns, **changes):
    numbers = {"lasers": 4, "serdes_ports": None, "laser_bandwidth": 20e9, "waveguides": 2, "fibres": 2}
    numbers |= {"wafer_rows": rows, "wafer_columns": columns, "alpha": 1e-6, "reconfiguration": 4e-6}
    return PhotonicFabric("wafer", rows, columns, **numbers | changes)


def by_hand(circuits):
    """A synthesis of one round, as its parts are."""
    pairs = sorted({(c.src, c.dst) for c in circuits})
    schedule = point_to_point("messages", 6, [(s, d, 1) for s, d in pairs])
    return Synthesis(schedule, 1, 1, True, "by hand", tuple(circuits), 0.0, ())


def test_lights_are_the_fabric_as_plain_data():
    fabric = wafer(2, 4, wafer_columns=2, fibres=1, serdes_ports=3)
    made = optical_network(fabric)
    assert (made.ranks, made.lasers, made.waveguides, made.ports) == (8, 4, 2, 3)
    assert made.routes.keys() == {(s, d) for s in range(8) for d in range(8) if s != d}
    assert made.routes[0, 6] == (xy(fabric, 0, 6), xy(fabric, 0, 6, column_first=True))
    assert made.routes[0, 2] == ((0, 1, 2),)
    assert made.capacity == {(1, 2): 1, (2, 1): 1, (5, 6): 1, (6, 5): 1}
    assert all(made.waveguides_of(*e) == fabric.capacity(*e) for e in fabric.edges())
    assert optical_network(wafer(2, 2)).capacity is None
    assert optical_network(fabric, 3, "shortest").routes[0, 6] == tuple(k_shortest(fabric, 0, 6, 3))
    with pytest.raises(InputError, match="method: 'best' given; allowed: xy, shortest"):
        optical_network(fabric, method="best")
    with pytest.raises(InputError, match="k: 0; allowed"):
        optical_network(fabric, 0, "shortest")


@pytest.mark.parametrize("collective", ["all-gather", "all-reduce"])
def test_a_synthesised_schedule_runs_on_its_fabric(collective):
    fabric = wafer(2, 2, lasers=2, waveguides=1)
    result = synthesise(layout(collective, 4, 4), optical_network(fabric), time_limit=20.0)
    circuits = circuit_plan(result, fabric)
    check_plan(circuits, result.schedule)
    assert len(circuits.rounds) == result.rounds == result.schedule.communication_rounds
    assert sum(b.lasers for r in circuits.rounds for b in r.bundles) == len(result.circuits)
    cost = photonic(result.schedule, fabric, 1e6, plan=circuits)
    assert cost.seconds >= result.rounds * (1e-6 + 4e-6 + 1e6 / 20e9) * (1 - 1e-12)


def test_circuits_of_one_way_become_one_bundle_and_share_waveguides_only_if_they_must():
    path = (0, 1, 2)
    circuits = [Circuit(0, 0, 2, w, path) for w in (0, 3)] + [Circuit(0, 0, 2, 1, (0, 3, 4, 5, 2))]
    made = circuit_plan(by_hand([*circuits, Circuit(0, 1, 5, 0, (1, 2, 5))]), wafer(2, 3))
    (only,) = made.rounds
    masks = {(b.src, b.dst, b.route): b.wavelengths for b in only.bundles}
    assert masks == {(0, 2, path): 0b1001, (0, 2, (0, 3, 4, 5, 2)): 0b0010, (1, 5, (1, 2, 5)): 0b0001}
    assert (only.overlap, only.overlap_bound) == (2, 1)


@pytest.mark.parametrize(
    ("circuits", "words"),
    [
        (
            [Circuit(0, 0, 2, 0, (0, 1, 2)), Circuit(0, 1, 5, 0, (1, 2, 5))],
            "round 0: wavelength 0 2 times on edge 1 -> 2; allowed: 1, its waveguides",
        ),
        ([Circuit(0, 0, 1, 0, (0, 1))] * 2, "round 0: circuit 0 -> 1, wavelength 0 twice; allowed: one"),
        ([Circuit(0, 0, 1, 4, (0, 1))], "wavelengths 0x10; allowed: bits 0 to 3"),
        ([Circuit(0, 0, 9, 0, (0, 9))], "round 0: route [0, 9]; allowed: tiles 0 to 5"),
        (
            [Circuit(0, 0, 1, 0, (0, 1)), Circuit(0, 0, 3, 0, (0, 3))],
            "tile 0: laser of wavelength 0 used 2 times",
        ),
    ],
)
def test_circuits_that_do_not_fit_are_refused(circuits, words):
    if any(c.dst > 5 for c in circuits):
        inputs = replace(by_hand([Circuit(0, 0, 1, 0, (0, 1))]), circuits=tuple(circuits))
    else:
        inputs = by_hand(circuits)
    with pytest.raises(InputError) as error:
        circuit_plan(inputs, wafer(2, 3, waveguides=1))
    assert words in str(error.value)


def test_circuits_of_another_schedule_are_refused():
    inputs = by_hand([Circuit(0, 0, 1, 0, (0, 1))])
    with pytest.raises(PlanError, match="round 0: no circuit from tile 0 to 1"):
        circuit_plan(replace(inputs, circuits=(Circuit(0, 0, 3, 0, (0, 3)),)), wafer(2, 3))
