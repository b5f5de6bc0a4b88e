"""Operations of switches on wires: trees that are crossed once, by hand, and beside what others measured."""

from dataclasses import replace

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import TRANSFER, Schedule, build
from wavefabric.fabric import cost, load
from wavefabric.fabric.bounds.bound import bound
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.electrical.flows import flows
from wavefabric.fabric.io.files import from_toml
from wavefabric.fabric.io.writing import to_toml


def tree(able):
    """Two leaves of two GPUs each below a spine; latencies tell links apart."""
    ends = [("GPU0", "leaf0", 1), ("GPU1", "leaf0", 2), ("GPU2", "leaf1", 3), ("GPU3", "leaf1", 4)]
    ends += [("leaf0", "spine", 10), ("leaf1", "spine", 20)]
    links = tuple(Link(*pair, 1.0, late) for a, b, late in ends for pair in ((a, b), (b, a)))
    gpus = tuple(f"GPU{r}" for r in range(4))
    return Fabric("tree", gpus, ("leaf0", "leaf1", "spine"), links, 0.0, multicast_switches=able)


def operation(rows, count=1):
    """One operation of ranks (src, dst)."""
    table = [(0, a, b, 0, 0, 0, 0, count, False, 1) for a, b in rows]
    sizes = (np.ones((4, count), np.int64),)
    return Schedule("one", 4, ("data",), sizes, np.array(table, TRANSFER), {}, {})


def crossed(able, rows):
    """How often each wire is crossed, by the names of its ends; and the latency."""
    fabric = tree(able)
    over = flows(operation(rows), fabric)
    assert over.route.tolist() == [0] + [-1] * (len(rows) - 1)
    names, counts = (*fabric.gpus, *fabric.switches), {}
    for wire in over.use.of(np.array([0]))[1].tolist():
        pair = names[over.use.wires.source[wire]], names[over.use.wires.target[wire]]
        counts[pair] = counts.get(pair, 0) + 1
    return counts, float(over.use.latency[0])


ALL = ("leaf0", "leaf1", "spine")


def test_each_wire_once_where_all_switches_can():
    out, late = crossed(ALL, [(0, r) for r in (1, 2, 3)])
    assert out == {
        **{("GPU0", "leaf0"): 1, ("leaf0", "GPU1"): 1, ("leaf0", "spine"): 1, ("spine", "leaf1"): 1},
        **{("leaf1", "GPU2"): 1, ("leaf1", "GPU3"): 1},
    }
    assert late == 1 + 10 + 20 + 4
    into, again = crossed(ALL, [(r, 0) for r in (1, 2, 3)])
    assert into == {(b, a): n for (a, b), n in out.items()}
    assert again == late


def test_copies_are_made_where_a_switch_can():
    out, _ = crossed(("leaf1",), [(0, r) for r in (2, 3)])
    assert out[("GPU0", "leaf0")] == out[("spine", "leaf1")] == 1
    # The spine alone: what goes to one leaf is there twice.
    out, _ = crossed(("spine",), [(0, r) for r in (2, 3)])
    assert (out[("leaf0", "spine")], out[("spine", "leaf1")]) == (1, 2)
    into, _ = crossed(("spine",), [(r, 0) for r in (2, 3)])
    assert (into[("leaf1", "spine")], into[("spine", "leaf0")]) == (2, 1)


def test_a_rank_hears_its_own_part_from_the_first_switch():
    out, _ = crossed(ALL, [(0, r) for r in range(4)])
    assert out[("leaf0", "GPU0")] == out[("GPU0", "leaf0")] == 1
    into, _ = crossed(ALL, [(r, 0) for r in range(4)])
    assert into[("GPU0", "leaf0")] == into[("leaf0", "GPU0")] == 1


def test_what_no_switch_does_is_refused():
    with pytest.raises(
        InputError, match=r"fabric tree: no switch on the route of GPU0 .*multicast_switches .none"
    ):
        flows(operation([(0, 1), (0, 2)]), tree(()))
    text = to_toml(load("hgx-h200"))
    text = text.replace('multicast_switches = ["NVSwitch"]', 'multicast_switches = ["spine0"]')
    with pytest.raises(InputError, match="multicast_switches: spine0 given; allowed: NVSwitch"):
        from_toml(text)
    assert from_toml(to_toml(load("hgx-h200"))) == load("hgx-h200")


@pytest.mark.parametrize("model", ["alpha-beta", "flow"])
def test_all_reduces_by_a_switch_take_what_counting_says(model):
    """Each GPU sends the array and a share, and receives as much: reads and writes of pieces overlap."""
    fabric = replace(load("switch:8"), alpha=0.0, multicast_switches=("switch",))
    rate = fabric.links[0].bandwidth
    done = cost(build("nvls", "all-reduce", 8, 64), fabric, 1e6, model)
    assert done.seconds == pytest.approx(2 * 64e6 / rate)
    pieces = cost(build("nvls", "all-reduce", 8, 64 * 64, pieces=64), fabric, 1e6 / 64, model)
    assert pieces.seconds == pytest.approx((64 * 9 / 8 + 7 / 8 * 2) / 64 * 64e6 / rate, rel=0.03)
    least, unaided = (bound("all-reduce", f, 64e6) for f in (fabric, replace(fabric, multicast_switches=())))
    assert (done.bound.transfer, done.unaided.transfer) == (least.transfer, unaided.transfer)
    assert least.transfer == pytest.approx(64e6 / rate)
    assert unaided.transfer == pytest.approx(2 * 7 / 8 * 64e6 / rate)
    assert done.bound.seconds <= pieces.seconds < done.unaided.seconds * 1.0


#: B → µs of all-reduces by 8 H100s: the plan of MSCCL++ for NVLS (docs/dsl/results, read off the figures, of
#: large ones as GB/s). Constants of our model are those of copies and kernels of two H200s.
PUBLISHED = {4 << 10: 6.45, 64 << 10: 6.6, 1 << 20: 10.3}
PUBLISHED |= {
    n << 20: (n << 20) / rate / 1e3 for n, rate in ((4, 190), (16, 246), (64, 266), (256, 273), (1024, 275))
}


def test_kernels_with_multimem_beside_what_mscclpp_measured():
    fabric, schedule = load("hgx-h200"), build("nvls", "all-reduce", 8, 64)
    for nbytes, microseconds in PUBLISHED.items():
        done = cost(schedule, fabric, nbytes / 64, "kernel", graph=True)
        # Small calls of our kernels begin later.
        assert done.seconds * 1e6 == pytest.approx(microseconds, rel=0.06 if nbytes > 1 << 20 else 0.12)
    # NCCL on 8 H100s: 480 GB/s of bus bandwidth with NVLS, 370 by its ring.
    for algorithm, published in (("nvls", 480e9), ("ring", 370e9)):
        done = cost(build(algorithm, "all-reduce", 8, 64), fabric, 2**30 / 64, "kernel", graph=True)
        assert 1.75 * 2**30 / done.seconds == pytest.approx(published, rel=0.06)
