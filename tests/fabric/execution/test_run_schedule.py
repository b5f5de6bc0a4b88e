"""``collective-run``: what it fills and checks, its bandwidths and predictions, and runs between ranks."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import TRANSFER, Schedule, direct_all_gather, levels, point_to_point, verify
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.registry import build
from wavefabric.fabric.cost_models.bus_bandwidth import most_elements
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.execution import run_schedule
from wavefabric.fabric.execution.timed_schedule import (
    EXACT,
    SizedSchedule,
    contribution,
    count_wrong,
    expected,
    fill,
    nccl_rows,
    values_of,
)
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.runtime.exchange import solo


@pytest.mark.parametrize(
    ("dtype", "ranks"), [(dtype, ranks) for dtype in EXACT for ranks in (2, 9, 700) if EXACT[dtype] > ranks]
)
def test_sums_are_exact_in_any_order(dtype, ranks):
    values = values_of(dtype, ranks)
    parts = [contribution(np, 3, rank, 10, 200, values) for rank in range(ranks)]
    assert all(part.min() >= 0 and part.max() < values for part in parts)
    whole = np.sum(parts, axis=0, dtype=np.int64)
    assert whole.max() <= EXACT[dtype]
    result = expected(np, (3, (1 << ranks) - 1), 10, 200, values, dtype)
    assert result.dtype == dtype
    assert (result.astype(np.int64) == whole).all()
    backwards = sum((part.astype(dtype) for part in parts[::-1]), np.zeros(200, dtype))
    assert (backwards == result).all()


def test_items_origins_and_elements_differ():
    first = contribution(np, 0, 0, 0, 1000, 251)
    assert np.unique(first).size > 200
    for item, origin, at in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        same = np.count_nonzero(first == contribution(np, item, origin, at, 1000, 251))
        assert same < 30
    np.testing.assert_array_equal(first[600:], contribution(np, 0, 0, 600, 400, 251))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_what_is_wrong_is_counted(cpu, dtype, monkeypatch):
    monkeypatch.setattr("wavefabric.fabric.execution.timed_schedule._BLOCK", 40)
    comm = solo(cpu)
    schedule = point_to_point("copy", 1, [(0, 0, 100), (0, 0, 7)])
    buffers = {name: comm.allocate((120,), dtype) for name in ("send", "recv")}
    fill(comm, schedule, buffers, dtype)
    assert count_wrong(comm, schedule, buffers, dtype) == 107
    comm.run(schedule, buffers)
    assert count_wrong(comm, schedule, buffers, dtype) == 0
    buffers["recv"][[3, 70, 106, 110]] += 1
    assert count_wrong(comm, schedule, buffers, dtype) == 3


def test_bandwidths_are_those_of_nccl_tests():
    wanted = {name: 0.75 for name in COLLECTIVES} | {"all-reduce": 1.5, "broadcast": 1.0, "reduce": 1.0}
    for collective in COLLECTIVES:
        plan = SizedSchedule.of(build("direct", collective, 4, 1000), 4)
        assert (plan.collective, plan.bytes) == (collective, 4000)
        algbw, busbw = plan.bandwidths(2e-6)
        assert (algbw, busbw) == pytest.approx((2.0, 2.0 * wanted[collective]))
    # Rank 1 hears from two.
    plan = SizedSchedule.of(point_to_point("own", 3, [(0, 1, 10), (2, 1, 20), (0, 0, 99), (0, 2, 5)]), 8)
    assert (plan.collective, plan.bytes) == ("custom", 8 * 134)
    assert most_elements(plan.schedule) * plan.width == 240
    assert plan.bandwidths(1e-6)[1] == pytest.approx(240 / 1e-6 * 1e-9)
    assert plan.separate


def test_levels_become_rounds():
    schedule = build("pairwise", "all-to-all", 4, 64)
    assert schedule.rounds == 3
    result = run_schedule.as_run(schedule)
    verify(result)
    assert result.rounds == 1
    ring = build("ring", "all-reduce", 4, 64)
    result = run_schedule.as_run(ring)
    verify(result)
    assert (result.transfers["round"] == levels(result)).all()
    assert result.rounds == 6
    assert ring.transfers["round"][-1] == 5


class _Nobody:
    """Ranks that must not be asked for anything: what is refused, is refused before."""

    size, on_gpu, rank = 2, False, 0


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"dtype": "complex64"}, "dtype: 'complex64' given; allowed: float16"),
        ({"repeats": 0}, "repeats: 0"),
        ({"sizes": [4, 6]}, "sizes: 6 bytes given; allowed: multiples of 4"),
        ({"sizes": [0]}, "sizes: 0 bytes"),
        ({"schedule_of": direct_all_gather([1, 1, 1])}, "is for 3 ranks; here are 2"),
        (
            {"schedule_of": direct_all_gather([5, 5]), "sizes": [36]},
            "sizes: 36 bytes given; allowed: from 40",
        ),
        ({"schedule_of": direct_all_gather([0, 0])}, "has no elements"),
        ({"fabric": Fabric("lone", ("GPU0",), (), (), 0.0)}, "fabric: lone has 1 GPUs; allowed here: 2"),
        ({"fabric": "no-such-fabric"}, "no-such-fabric"),
        ({"model": "guess", "fabric": "switch:2"}, 'model: "guess"'),
    ],
)
def test_bad_input_is_refused(options, part):
    options = {"schedule_of": lambda n: build("ring", "all-gather", 2, n)} | options
    with pytest.raises(InputError) as refused:
        run_schedule.run(_Nobody(), **options)
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def test_more_ranks_than_a_type_can_count():
    assert values_of("float16", 1024) == 2
    with pytest.raises(InputError, match="allowed up to 1024 ranks"):
        values_of("float16", 1025)


# --- between ranks --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks():
    result = Ranks(("all",), "cpu", 1)
    result.sample = 0.001
    return result


@pytest.mark.parallel([2, 3])
def test_a_schedule_is_checked_timed_and_predicted(ranks, tmp_path):
    n = ranks.size
    names = tuple(f"CPU{r}" for r in range(n))
    links = tuple(Link(a, b, 1e9) for a in names for b in names if a != b)
    said = []
    result = run_schedule.run(
        ranks,
        lambda elements: build("ring", "all-reduce", n, elements),
        sizes=[4, 4096, 1 << 16],
        repeats=2,
        fabric=Fabric("made up", names, (), links, 1e-5, None, None),
        nccl=True,
        progress=said.append,
        model="alpha-beta",
    )
    assert len(said) == 3
    assert (result["collective"], result["rounds"], result["levels"], result["apart"]) == (
        "all-reduce", 2 * n - 2, 2 * n - 2, False
    )  # fmt: skip
    (case,) = result["cases"]
    assert [row["bytes"] for row in case["rows"]] == [4, 4096, 1 << 16]
    for row in case["rows"]:
        assert row["wrong"] == 0
        assert 0 < row["us_best"] <= row["us"] <= row["us_worst"]
        assert row["busbw"] == pytest.approx(row["algbw"] * 2 * (n - 1) / n)
        assert row["ratio"] == pytest.approx(row["predicted_us"] / row["us"])
    chunk = -(-(1 << 14) // n) * 4
    assert case["rows"][2]["predicted_us"] == pytest.approx((2 * n - 2) * (10 + chunk / 1e3), rel=1e-3)
    assert (result["own"], result["why_no_own"]) == (None, "NCCL needs GPUs")
    if ranks.rank == 0:
        json.dumps(result)
        path = tmp_path / "picture.png"
        run_schedule.plot(result, path)
        assert path.stat().st_size > 5000
        from rich.console import Console

        console = Console(width=140, file=io.StringIO())
        for each in run_schedule.table(result):
            console.print(each)
        text = console.file.getvalue()
        assert "predicted/measured" in text
        assert "64 KiB" in text


@pytest.mark.parallel(2)
def test_the_smallest_size_may_need_no_scratch(ranks):
    def schedule_of(elements):
        return build("bidirectional-ring", "all-reduce", 2, elements, pieces=2)

    assert [schedule_of(n).buffers for n in (1, 16)] == [("data",), ("data", "scratch")]
    result = run_schedule.run(ranks, schedule_of, sizes=[4, 64], repeats=1)
    assert [row["wrong"] for row in result["cases"][0]["rows"]] == [0, 0]


@pytest.mark.parallel(2)
def test_an_operation_of_ones_own_is_scaled_and_kept_apart(ranks):
    # Rank 0's five elements go to and fro, and are added up.
    rows = [(0, 0, 1, 0, 0, 0, 0, 1, True), (1, 1, 0, 0, 0, 1, 0, 1, False), (0, 1, 1, 0, 1, 1, 1, 1, False)]
    rows.sort(key=lambda row: row[0])
    schedule = Schedule(
        name="to and fro",
        ranks=2,
        buffers=("data", "back"),
        sizes=(np.tile([5, 2], (2, 1)), np.tile([5, 2], (2, 1))),
        transfers=np.array([(*row, 0) for row in rows], TRANSFER),
        pre={(0, 0, 0): (7, 1), (1, 0, 0): (7, 2), (1, 0, 1): (8, 2)},
        post={(0, 1, 0): (7, 3), (1, 1, 1): (8, 2)},
    )
    verify(schedule)
    result = run_schedule.run(ranks, schedule, sizes=[60, 300], dtype="float64", repeats=1)
    assert (result["collective"], result["apart"], result["fabric"]) == ("custom", True, None)
    assert result["sizes"] == [56, 280]
    assert [row["wrong"] for row in result["cases"][0]["rows"]] == [0, 0]
    assert result["cases"][0]["rows"][0]["ratio"] is None
    lost = replace(schedule, transfers=schedule.transfers[:-1])
    result = run_schedule.run(ranks, lost, dtype="int32", repeats=1)
    assert [row["wrong"] for row in result["cases"][0]["rows"]] == [5]
    run_schedule.table(result)


class _OwnComm:
    """A communicator whose library has collective operations of its own: a schedule's, here."""

    def __init__(self, comm, broken):
        self._comm, self._broken = comm, broken
        self.control, self.device = comm.control, comm.device
        self.rank, self.size, self.transport = comm.rank, comm.size, "nccl"
        self.allocate, self.bind = comm.allocate, comm.bind

    def own_collective(self, collective, buffers, root):
        schedule = build("direct", collective, self.size, buffers[0].size, root=root)
        held = dict(zip(schedule.buffers, buffers, strict=False))
        for name, sizes in zip(schedule.buffers, schedule.sizes, strict=True):
            held.setdefault(name, self.allocate((max(1, int(sizes[self.rank].sum())),), buffers[0].dtype))
        return (lambda: None) if self._broken else (lambda: self._comm.run(schedule, held))


@pytest.mark.parallel(2)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_nccls_own_operation_stands_beside(ranks, collective, monkeypatch):
    monkeypatch.setattr(ranks, "on_gpu", True)
    root = 0 if collective.startswith("all") or collective == "reduce-scatter" else 1
    run = [SizedSchedule.of(build("direct", collective, 2, n, root=root), 4) for n in (64, 333)]
    for broken in (False, True):
        monkeypatch.setattr(ranks, "open", lambda name, b=broken: (_OwnComm(ranks.base, b), None))
        rows, why = nccl_rows(ranks, run, "float32", 1, lambda line: None)
        assert why is None
        # Of uneven shares NCCL knows nothing.
        cut = collective not in ("all-reduce", "broadcast", "reduce")
        assert [row["bytes"] for row in rows] == [256, 1332][: 1 if cut else 2]
        assert all((row["wrong"] > 0) == broken for row in rows)
    monkeypatch.setattr(ranks, "open", lambda name: (None, "no NCCL here"))
    assert nccl_rows(ranks, run, "float32", 1, print) == (None, "no NCCL here")
    own = SizedSchedule.of(point_to_point("own", 2, [(0, 1, 3)]), 4)
    rows, why = nccl_rows(ranks, [own], "float32", 1, print)
    assert (rows, why) == (None, "NCCL has no operation with the conditions of own")
