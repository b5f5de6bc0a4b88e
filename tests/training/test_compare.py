"""Comparisons: what they simulate, what they compare with, and what is refused."""

import pytest

from wavefabric.base.errors import InputError
from wavefabric.fabric import load
from wavefabric.training.communication.times import Communication
from wavefabric.training.compare import compare
from wavefabric.training.fabrics import fabric_for, gpu_bandwidth, ideal_switch
from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.simulate import simulate
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models import load_model
from wavefabric.training.strategies.strategy import uniform

MODEL = load_model("bert-base")


def make(gpus, call_times):
    return Workload(MODEL, uniform(MODEL, gpus), DEVICES["h200"], PRECISIONS["tf32"])


@pytest.mark.parametrize(
    ("text", "gpus", "name"),
    [
        # The grids of the LUMORPH paper's evaluation.
        ("lightpath", 4, "lightpath:2x2"),
        ("lightpath", 8, "lightpath:2x4"),
        ("lightpath", 16, "lightpath:4x4"),
        ("lightpath", 32, "lightpath:4x8"),
        ("lightpath", 64, "lightpath:8x8"),
        ("lightpath", 128, "lightpath:8x16"),
        ("lightpath", 256, "lightpath:16x16"),
        ("switch", 6, "switch:6"),
        ("ring", 5, "ring:5"),
        ("torus", 12, "torus:3x4"),
        ("mesh", 7, "mesh:1x7"),
        ("hypercube", 8, "hypercube:3"),
        ("dgx-a100", 4, "dgx-a100"),
    ],
)
def test_fabrics_are_as_large_as_needed(text, gpus, name):
    fabric = fabric_for(text, gpus)
    assert fabric.name == name
    assert fabric.ranks >= gpus


@pytest.mark.parametrize(
    ("text", "gpus"), [("switch:4", 5), ("hypercube", 6), ("dgx-1", 16), ("nonsense", 2)]
)
def test_fabrics_that_are_too_small_are_refused(text, gpus):
    with pytest.raises(InputError, match="given"):
        fabric_for(text, gpus)


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [
        ("switch:8", 300 * 2**30),
        ("lightpath:2x4", 300 * 2**30),
        ("ring:8", 2 * 300 * 2**30),  # to both sides
        ("torus:4x4", 4 * 300 * 2**30),
        ("hypercube:3", 3 * 300 * 2**30),
    ],
)
def test_bandwidth_of_a_gpu(name, bandwidth):
    assert gpu_bandwidth(load(name)) == pytest.approx(bandwidth, rel=1e-12)


def test_the_reference_is_ring_on_a_switch_of_the_same_bandwidth():
    (case,) = compare(make, [8], ["lightpath"], ["lumorph-4"])
    switch = ideal_switch(8, 300 * 2**30, 0.7e-6)
    expected = simulate(make(8, None), Communication(switch, "ring"))
    assert case.ring.seconds == expected.seconds
    assert case.ratio_to_ring == expected.seconds / case.iteration.seconds
    # The preset switch is that ideal switch.
    (same,) = compare(make, [8], ["switch"], ["ring"])
    assert same.iteration.seconds == expected.seconds


def test_all_combinations_in_order():
    cases = compare(make, [4, 2], ["switch", load("lightpath:2x4")], ["ring", "zero"])
    assert [(c.gpus, c.label, c.collective) for c in cases] == [
        (n, label, collective)
        for n in (4, 2)
        for label in ("switch", "lightpath:2x4")
        for collective in ("ring", "zero")
    ]
    for case in cases:
        busy = case.iteration.timeline.fabric_busy
        assert case.hidden_seconds + case.iteration.exposed_seconds == pytest.approx(busy, abs=1e-12)
        assert case.ratio_to_free <= 1
        if case.collective == "zero":
            assert case.ratio_to_free == 1
            assert case.iteration.seconds == case.iteration.free_seconds


def test_options_of_circuits_are_for_photonic_fabrics():
    options = {"sharing": "paper"}
    electrical, photonic = compare(make, [8], ["switch", "lightpath"], ["lumorph-4"], circuits=options)
    expected = simulate(make(8, None), Communication(photonic.fabric, "lumorph-4", **options))
    assert photonic.iteration.timeline.fabric_busy == expected.timeline.fabric_busy
    plain = compare(make, [8], ["switch", "lightpath"], ["lumorph-4"])
    assert electrical.hidden_seconds == plain[0].hidden_seconds
    # Sharing as the paper does takes longer, see its formula in test_times.
    assert photonic.hidden_seconds > plain[1].hidden_seconds
    assert photonic.ring.seconds == plain[1].ring.seconds
    with pytest.raises(InputError, match='sharing: "paper" given with electrical fabrics alone; allowed'):
        compare(make, [8], ["switch", "ring"], ["ring"], circuits=options)


@pytest.mark.parametrize(
    ("gpus", "fabrics", "collectives", "key"),
    [
        ([], ["switch"], ["ring"], "gpus"),
        ([4], [], ["ring"], "fabric"),
        ([4], ["switch"], [], "collective"),
        ([4, 4], ["switch"], ["ring"], "gpus"),
        ([4], ["switch", "switch"], ["ring"], "fabric"),
        ([4], ["switch"], ["ring", "ring"], "collective"),
        ([0], ["switch"], ["ring"], "gpus"),
        ([4], ["switch"], ["ring", "nonsense"], "collective"),
        ([4, 8], ["switch:4"], ["ring"], "gpus"),
    ],
)
def test_nothing_is_simulated_where_something_is_refused(gpus, fabrics, collectives, key):
    def forbidden(gpus, call_times):
        raise AssertionError("simulated")

    with pytest.raises(InputError, match=f"^{key}: "):
        compare(forbidden, gpus, fabrics, collectives)
