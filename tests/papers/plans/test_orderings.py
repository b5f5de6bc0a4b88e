"""The papers' orderings come out of the planner, on the machines of all four."""

import json
from pathlib import Path

import pytest

from papers.plans import cuts, dgx2, k80, light, machines, p40
from wavefabric.base.errors import InputError
from wavefabric.fabric import load
from wavefabric.fabric.planner.rates import DEVICE_NAMES, load_rates

FOLDER = Path(p40.__file__).parent


@pytest.fixture(scope="module")
def server():
    return p40.tables()


def _rows(result, size, cut):
    return {row["overlap"]: row for row in result["rows"] if (row["size"], row["cut"]) == (size, cut)}


@pytest.mark.slow
@pytest.mark.parametrize("size", [512, 1024])
def test_slabs_gain_more_from_direct_transfers_than_blocks(server, size):
    slabs, blocks = (_rows(server, size, cut) for cut in ("1x1x8", "2x2x2"))
    for overlap, row in slabs.items():
        assert row["aware"] > blocks[overlap]["aware"]
        assert row["p2p_gain"] < 1.06
        assert blocks[overlap]["p2p_gain"] < 1.06
    for rows in (slabs, blocks):
        gains = [row["aware"] for row in rows.values()]
        assert gains == sorted(gains)


@pytest.mark.slow
def test_waiting_on_the_p40_server_as_in_figure_2(server):
    # The poster: 66 to 80 % at 16 and 32; ours from 60 %, where blocks are widened. 3.6 was fitted.
    slabs, blocks = (_rows(server, 1024, cut) for cut in ("1x1x8", "2x2x2"))
    for overlap in (16, 32):
        assert 0.66 < slabs[overlap]["mpi"]["waiting"] < 0.80
        assert 0.59 < blocks[overlap]["mpi"]["waiting"] < slabs[overlap]["mpi"]["waiting"]
    assert max(slabs[overlap]["aware"] for overlap in (2, 4)) < 1.8
    assert slabs[32]["aware"] == pytest.approx(3.6, abs=0.05)
    assert slabs[8]["aware"] > 2


@pytest.mark.slow
def test_parts_of_a_step_add_up(server):
    for row in server["rows"]:
        for transport in ("mpi", "mpi-cuda", "p2p"):
            ms = row[transport]
            assert ms["step"] == pytest.approx(ms["compute"] + ms["pack"] + ms["exposed"])


@pytest.mark.slow
def test_four_or_all_messages_of_slabs_cross_between_sockets(server):
    slabs, blocks = server["placement"]
    # The poster counts 4 and 32: each of 16 messages sent, and received.
    assert (slabs["best"]["crossings"], slabs["worst"]["crossings"]) == (4, 16)
    for each in (slabs, blocks):
        assert each["worst"]["step"] > 1.04 * each["best"]["step"]


@pytest.mark.slow
def test_every_cut_minds_the_order_on_p40s_and_none_on_a_dgx_2():
    for each in cuts.tables()["cuts"]:
        low, high = (1.08, 1.25) if each["machine"] == "P40" else (1 - 1e-9, 1 + 1e-9)
        assert low < each["slower"] < high, each


@pytest.mark.parametrize(
    "domain", [dgx2.DOMAINS[0], *(pytest.param(d, marks=pytest.mark.slow) for d in dgx2.DOMAINS[1:3])]
)
@pytest.mark.parametrize("gpus", dgx2.GPUS)
def test_local_and_global_gradients_are_within_30_percent_on_a_dgx_2(domain, gpus):
    local, whole = (dgx2.gradient(domain, gpus, kind) for kind in ("local", "global"))
    assert max(local, whole) < 1.3 * min(local, whole)
    if 1 < gpus <= 8:  # not so where PCIe carries the transposes
        assert dgx2.gradient(domain, gpus, "global", "P40") > 2 * dgx2.gradient(domain, gpus, "local", "P40")


def test_weak_scaling_is_worse_on_p40s_and_flat_beyond_8_v100s():
    def ms(machine, block, cut, **options):
        shape = [block * blocks for blocks in cut]
        return machines.times(machines.step(machine, shape, cut, **options))["step"]

    one, eight, sixteen = (dgx2.CUTS[k] for k in (0, 3, 4))
    for block in dgx2.BLOCKS:
        assert ms("P40", block, one) == pytest.approx(2.1 * ms("DGX-2", block, one), rel=0.01)
        ratio = ms("P40", block, eight) / ms("DGX-2", block, eight)
        assert 2.1 < ratio < 3 < ms("P40", block, eight, qpi=6e9) / ms("DGX-2", block, eight)
        assert ms("DGX-2", block, sixteen) == pytest.approx(ms("DGX-2", block, eight), rel=0.01)


def test_nccl_overtakes_mpi_between_4_and_8_k80s():
    mpi, nccl = ({p["gpus"]: p["ratio"] for p in k80.ratios(name)} for name in ("MPI", "NCCL"))
    assert mpi[1] == pytest.approx(1.085, abs=0.01)
    assert mpi[2] < nccl[2]
    assert nccl[4] == pytest.approx(mpi[4], rel=0.03)
    assert nccl[8] < 0.85 * mpi[8]
    # The paper: 1.38 and 6.76; 4.26 lies between links at 12 GB/s and nominal ones.
    assert (mpi[2], mpi[8]) == (pytest.approx(1.38, rel=0.05), pytest.approx(6.76, rel=0.05))
    assert k80.ratios("NCCL, nominal links")[-1]["ratio"] < 4.26 < nccl[8]


@pytest.mark.slow
def test_light_costs_slabs_little_and_blocks_by_the_sizes_of_their_messages(numbers):
    rows = {(row["tiles"], row["what"]): row for row in numbers(light)["rows"]}
    for (_, what), row in rows.items():
        assert row["light"] >= row["switch"]
        if what in ("local slabs", "global slabs", "dense powers"):
            assert 1 < row["exchange"] < 1.16
        if what == "local blocks":
            assert row["even"] < 1.36 < 1.5 < row["exchange"]


def test_devices_of_the_papers():
    v100, p40s, k80s = (load_rates(name) for name in ("v100", "p40", "k80"))
    assert {"v100", "p40", "k80"} < set(DEVICE_NAMES)
    assert p40s.factor / v100.factor == pytest.approx(2.1, rel=0.01)
    assert [each.memory()[1] for each in (v100, p40s, k80s)] == [32e9, 24e9, 12e9]
    for each in (v100, p40s, k80s):
        assert "Nothing was measured" in each.source


def test_a_step_with_another_exchange_forgets_the_times_of_the_former():
    # As a plan's candidates: the same step, carried otherwise.
    from dataclasses import replace

    fast = machines.step("P40", (512, 512, 512), (1, 1, 8))
    taken = fast.times().step
    slow = replace(fast, exchange=machines.step("P40", (512, 512, 512), (1, 1, 8), 16, "mpi").exchange)
    assert slow.times().step > 2 * taken
    with pytest.raises(InputError, match="transport"):
        machines.step("P40", (512, 512, 512), (1, 1, 8), 16, "pigeon")


@pytest.mark.parametrize("name", ["p40", "cuts", "dgx2", "k80", "light"])
def test_kept_results_are_whole(name):
    kept = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert kept["benchmark"] == name
    assert kept["notes"]
    assert (FOLDER / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["pny-p40", "p2.8xlarge"])
def test_presets_say_what_was_fitted(name):
    assert "fitted" in load(name).source
