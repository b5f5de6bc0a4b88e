"""Exchanges as one kernel a rank, without GPUs: see `fake_gpus`."""

import gc
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpus import _Gpu, buffers_of, ranks_of, together

from wavefabric.base.errors import InputError
from wavefabric.collectives import ring_all_reduce
from wavefabric.collectives.plans.plan import compile_plan
from wavefabric.collectives.registry import build
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes, Link
from wavefabric.fabric.execution import run_schedule
from wavefabric.fabric.execution.timed_schedule import count_wrong, fill
from wavefabric.runtime.exchange.transports.base import RankGroup
from wavefabric.runtime.exchange.transports.plan_code import staging_bytes


@pytest.mark.parametrize("protocol", ["signals", "packets"])
@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("float16", "bfloat16", "float64", "int32", "int64")
        ),
    ],
)
def test_types_and_blocks(transports, protocol, dtype):
    schedule = build("recursive", "all-reduce", 2, 1001)

    def work(comm):
        buffers, wrong = buffers_of(comm, schedule, dtype), 0
        for blocks in (None, 1, 3, 4):
            exchange = comm.bind(schedule, buffers, protocol, blocks)
            assert exchange.blocks == (blocks or (2 if protocol == "packets" and "64" in dtype else 1))
            for _ in range(3):
                fill(comm, schedule, buffers, dtype)
                exchange.start()
                exchange.wait_for(1 - comm.rank)
                exchange.finish()
                exchange.check()
                wrong += count_wrong(comm, schedule, buffers, dtype)
        return wrong

    assert together(transports, "p2p", 2, work) == [0, 0]


def test_complex_numbers_of_noise(transports):
    """Sums to the bit as the schedule orders them, the same on all ranks."""
    schedule = ring_all_reduce(3, 100)
    rng = np.random.default_rng(3)
    inputs = (rng.standard_normal((3, 100, 2)) @ [1, 1j]).astype(np.complex64)

    def work(comm):
        result = []
        for protocol in ("copies", "signals", "packets"):
            buffers = buffers_of(comm, schedule, "complex64")
            buffers["data"][...] = inputs[comm.rank]
            comm.bind(schedule, buffers, protocol).run()
            result.append(buffers["data"].tobytes())
        return result

    result = together(transports, "p2p", 3, work)
    assert len({each for rank in result for each in rank}) == 1
    np.testing.assert_allclose(np.frombuffer(result[0][0], np.complex64), inputs.sum(0), rtol=1e-5)


def test_what_cannot_be_is_refused_on_all_ranks(transports):
    schedule = ring_all_reduce(2, 8)

    def refused(comm, *options, dtype="float32"):
        with pytest.raises(InputError) as error:
            comm.bind(schedule, buffers_of(comm, schedule, dtype), *options)
        return str(error.value)

    def work(comm):
        return [
            refused(comm, "packets", 5),
            refused(comm, "packets", 0),
            refused(comm, "packets", 1.5),
            refused(comm, "signals", 1 + comm.rank),
            refused(comm, ("signals", "packets")[comm.rank]),
            refused(comm, "signals", dtype="bool"),
            refused(comm, ("copies", "packets")[comm.rank]),
            refused(comm, "signals", dtype=("float32", "float64")[comm.rank]),
            refused(comm, "copies", 4),
            refused(comm, "hope"),
        ]

    first, second = together(transports, "p2p", 2, work)
    assert first == second
    assert first[0] == "blocks: 5 given; allowed: 1 to 4"
    assert first[1] == "blocks: 0 given; allowed: 1 to 4"
    assert first[2] == "blocks: 1.5 given; allowed: 1 to 4"
    assert first[3].startswith("blocks: rank 0 has 1, rank 1 has 2;")
    assert first[4].startswith("protocol: rank 0 has signals, rank 1 has packets;")
    assert first[5].startswith("dtype: bool given; allowed for sums: float16, float32, float64, complex64,")
    assert first[6].startswith("protocol: rank 0 has copies, rank 1 has packets;")
    assert first[7].startswith("dtype: rank 0 has float32, rank 1 has float64;")
    assert first[8] == "blocks: 4 given; allowed: with a protocol of packets, signals"
    assert first[9] == "protocol: 'hope' given; allowed for p2p: auto, copies, packets, signals"
    sharing = together(transports, "p2p", 3, lambda comm: _sharing(comm), gpus=[0, 1, 0])
    assert set(sharing) == {"protocol: ranks 0, 2 share a GPU; allowed: copies, or a GPU for each rank"}
    other = together(transports, "nccl", 2, lambda comm: refused(comm, "packets"))
    assert other[0] == "protocol: 'packets' given; allowed for nccl: auto"


def test_addresses_of_gpus_are_compared_on_one_host_only(transports, monkeypatch):
    monkeypatch.setattr(
        transports.p2p.P2PTransport, "_try", lambda self, _: [p == self.control.rank for p in (0, 1)]
    )
    far = together(transports, "p2p", 2, lambda comm: comm.why_refused("signals"), gpus=[0, 0])
    assert far == ["protocol: some GPUs do not reach others; allowed: copies"] * 2


def _sharing(comm):
    schedule = ring_all_reduce(3, 6)
    with pytest.raises(InputError) as error:
        comm.bind(schedule, buffers_of(comm, schedule, "float32"), "signals")
    return str(error.value)


def test_a_rank_that_does_not_come_is_named(transports):
    schedule = ring_all_reduce(2, 8)

    def work(comm):
        buffers = buffers_of(comm, schedule, "float32")
        exchange = comm.bind(schedule, buffers, "signals")
        exchange.check()
        exchange._timeout._late[0] = 1 + 1  # what the kernel writes
        for call in (exchange.check, exchange.run, exchange.start):
            with pytest.raises(
                RuntimeError, match="ring all-reduce: rank 1 did not come to the exchange in time"
            ):
                call()
        return True

    assert all(together(transports, "p2p", 2, work))


def test_a_late_rank_is_named_again_and_nothing_is_under_way(transports):
    schedule = ring_all_reduce(2, 8)

    def work(comm):
        exchange = comm.bind(schedule, buffers_of(comm, schedule, "float32"), "signals")
        exchange._timeout._late[0] = 1
        for _ in range(2):
            with pytest.raises(transports.p2p_plan.LateRank, match="rank 0 did not come"):
                exchange.start()
        return True

    assert all(together(transports, "p2p", 2, work))


def test_the_communicator_knows_of_late_ranks(transports):
    """Of exchanges that are not run again, and of calls, as long as they are bound."""
    schedule = ring_all_reduce(2, 8)

    def work(comm):
        exchange = comm.bind(schedule, buffers_of(comm, schedule, "float32"), "signals")
        other = comm.bind(schedule, buffers_of(comm, schedule, "float32"), "packets")
        comm.bind(schedule, buffers_of(comm, schedule, "float32"), "copies")
        comm.check()
        other._timeout._late[0] = 2
        with pytest.raises(transports.p2p_plan.LateRank, match="rank 1 did not come"):
            comm.check()
        del other
        gc.collect()
        comm.check()
        exchange.run()
        return True

    assert all(together(transports, "p2p", 2, work))


def test_one_call_at_a_time(transports):
    schedule = ring_all_reduce(2, 8)

    def work(comm):
        exchange = comm.bind(schedule, buffers_of(comm, schedule, "float32"), "signals")
        exchange.start()
        for call, words in ((exchange.start, "started again"), (exchange.run, "run before")):
            with pytest.raises(RuntimeError, match=words):
                call()
        exchange.finish()
        exchange.run()
        return True

    assert all(together(transports, "p2p", 2, work))


def test_what_kernels_read_outlives_their_exchange(transports, monkeypatch):
    """A kernel that still runs finds no number of others where it looks whether to give up."""
    module, waits = transports.p2p_plan, []
    monkeypatch.setattr(module.Timeout, "_free", [])
    monkeypatch.setattr(module.cupy.cuda.runtime, "deviceSynchronize", lambda: waits.append(1))
    first, second = module.Timeout("one"), module.Timeout("other")
    assert first.arguments[0] != second.arguments[0]
    address = first.arguments[0]
    first._late[0] = 7
    del first
    assert len(module.Timeout._free) == 1
    assert waits == []
    again = module.Timeout("one")
    assert (again.arguments[0], again._late[0], waits) == (address, 0, [1])


def test_tables_are_there_before_calls_in_other_streams(transports, monkeypatch):
    schedule = ring_all_reduce(2, 8)

    def work(comm):
        device, done = comm.device, []
        asarray = device.asarray
        device.asarray = lambda array: done.append("table") or asarray(array)
        device.synchronize = lambda: done.append("wait")
        comm.bind(schedule, buffers_of(comm, schedule, "float32"), "signals")
        return done

    assert together(transports, "p2p", 2, work) == [["wait", "table", "wait"]] * 2


def test_blocks_follow_from_the_largest_piece(transports):
    blocks = transports.p2p_plan.blocks_for
    sizes = {1: 1, 1 << 14: 1, 1 << 15: 2, 1 << 18: 16, 1 << 21: 128, 1 << 28: 128}
    for elements, wanted in sizes.items():  # float32, halves
        assert blocks(compile_plan(build("direct", "all-gather", 2, elements)), 4, 128) == wanted
    assert blocks(compile_plan(build("direct", "all-gather", 2, 1 << 28)), 4, 20) == 20
    packets = {1: 1, 1 << 9: 1, 1 << 10: 2, 1 << 14: 32, 1 << 16: 128, 1 << 28: 128}
    for elements, wanted in packets.items():
        assert blocks(compile_plan(build("direct", "all-gather", 2, elements), "packets"), 4, 128) == wanted


@pytest.mark.parametrize(
    ("elements", "protocol", "wanted"),
    # Of an all-reduce of two halves one arrives, to be added, in one slot; with packets both, twice as large,
    # in two slots.
    [
        (1 << 12, "signals", 1 << 13),
        (1 << 12, "packets", 1 << 16),
        ((1 << 12) + 2, "signals", 1 << 14),
        (2, "signals", 128),
    ],
)
def test_memory_of_staging_buffers_is_a_power_of_two(elements, protocol, wanted):
    plan = compile_plan(build("recursive", "all-reduce", 2, elements), protocol)
    assert [staging_bytes(plan, rank, 4) for rank in range(2)] == [wanted] * 2


def test_staging_buffers_count_as_memory(transports):
    """128 MiB of expected values, 3 of buffers; for packets 4 MiB of staging buffers and all smaller ones."""

    def work(comm):
        def run(*protocols):
            ranks = ranks_of(comm, (1 << 27) + (9 << 20))
            schedule = build("direct", "all-reduce", 2, 1 << 18)
            return run_schedule.run(ranks, schedule, protocols=protocols, repeats=1)["cases"]

        with pytest.raises(InputError, match="sizes: 1048576 bytes need"):
            run("copies", "packets")
        return [case["rows"][0]["wrong"] for case in run("copies")]

    assert together(transports, "p2p", 2, work) == [[0], [0]]


@pytest.mark.slow
def test_each_protocol_is_a_case_of_a_measurement(transports):
    def work(comm):
        options = {"protocols": ("copies", "signals", "packets"), "blocks": 2, "graph": True}
        return run_schedule.run(
            ranks_of(comm),
            lambda n: build("ring", "all-reduce", 2, n),
            [4096, 8192],
            repeats=1,
            nccl=True,
            **options,
        )

    result = together(transports, "p2p", 2, work)[0]
    assert [case["protocol"] for case in result["cases"]] == ["copies", "signals", "packets"]
    rows = [row for case in result["cases"] for row in case["rows"]]
    assert [row["wrong"] for row in rows] == [0] * 6
    assert [row.get("graph_us", 0) > 0 for row in rows] == [False] * 2 + [True] * 4
    shown = run_schedule.table(result)
    assert [table.title for table in shown[:3]] == [
        f"ring all-reduce, P2P, {protocol}, 2 ranks" for protocol in ("copies", "signals", "packets")
    ]
    assert "not here" in str(shown[3])
    shared = together(transports, "p2p", 2, work, gpus=[0, 0])[0]
    assert [case["protocol"] for case in shared["cases"]] == ["copies"]


@pytest.mark.parametrize(
    "model", ["auto", *(pytest.param(each, marks=pytest.mark.slow) for each in ("kernel", "alpha-beta"))]
)
def test_each_prediction_is_of_what_moved_the_data(transports, model):
    """By itself p2p takes packets for the small one, signals for the large one, copies on a shared GPU."""
    times = KernelTimes(2e-6, 3e-6, 1e-6, 50e9, 1e15)
    links = tuple(Link(a, b, 100e9, 1e-6) for a, b in (("GPU0", "GPU1"), ("GPU1", "GPU0")))
    fabric = Fabric("pair", ("GPU0", "GPU1"), (), links, alpha=20e-6, kernels=times)
    sizes = [1 << 12, 1 << 20]

    def work(comm):
        schedule_of = partial(build, "ring", "all-reduce", 2)
        options = {"protocols": ("auto", "copies"), "fabric": fabric, "model": model, "graph": True}
        return run_schedule.run(ranks_of(comm), schedule_of, sizes, repeats=1, **options)

    def predicted(case):
        return [row["predicted_us"] for row in case["rows"]]

    def expected(named, *protocols):
        by = [{"protocol": protocol} for protocol in protocols] or [{}, {}]
        made = [build("ring", "all-reduce", 2, size // 4) for size in sizes]
        return [cost(one, fabric, 4, named, **more).seconds * 1e6 for one, more in zip(made, by, strict=True)]

    kernels, copies = together(transports, "p2p", 2, work)[0]["cases"]
    assert [row["protocol"] for row in kernels["rows"]] == ["packets", "signals"]
    assert [row["graph_us"] > 0 for row in kernels["rows"]] == [True, True]
    nothing = [None, None]
    by_kernels = nothing if model == "alpha-beta" else pytest.approx(expected("kernel", "packets", "signals"))
    by_copies = nothing if model == "kernel" else pytest.approx(expected("alpha-beta"))
    assert (predicted(kernels), predicted(copies)) == (by_kernels, by_copies)
    shared, _ = together(transports, "p2p", 2, work, gpus=[0, 0])[0]["cases"]
    assert {row["protocol"] for row in shared["rows"]} == {"copies"}
    assert predicted(shared) == by_copies


@pytest.mark.parametrize(
    ("elements", "dtype", "gpus", "wanted"),
    [
        (1 << 14, "float32", None, "packets"),
        (1 << 17, "float32", None, "packets"),  # transfers of 256 KiB
        ((1 << 17) + 2, "float32", None, "signals"),
        (1 << 14, "int16", None, "copies"),  # kernels add up no such numbers
        (1 << 14, "float32", [0, 0], "copies"),  # nor wait for ranks that share their GPU
    ],
)
def test_by_itself_an_exchange_takes_what_is_fastest(transports, elements, dtype, gpus, wanted):
    schedule = ring_all_reduce(2, elements)

    def work(comm):
        chosen = comm.bind(schedule, buffers_of(comm, schedule, dtype)).protocol
        return chosen, comm.one_sided, comm.label

    alone = gpus is None
    label = "p2p, signals" if alone else "p2p"
    assert together(transports, "p2p", 2, work, gpus=gpus) == [(wanted, alone, label)] * 2


def test_exchanges_that_are_under_way_at_once_divide_the_gpu(transports):
    schedule = ring_all_reduce(2, 1 << 18)

    def work(comm):
        buffers = buffers_of(comm, schedule, "float32")
        blocks = [comm.bind(schedule, buffers, "signals", concurrent=n).blocks for n in (1, 2, 3, 9)]
        told = []
        for wrong in (0, 2 + comm.rank):
            with pytest.raises(InputError) as error:
                comm.bind(schedule, buffers, "signals", concurrent=wrong)
            told.append(str(error.value))
        return blocks, told

    (blocks, told), second = together(transports, "p2p", 2, work)
    assert (blocks, told) == second
    assert blocks == [4, 2, 1, 1]  # of a GPU of four multiprocessors
    assert told[0] == "concurrent: 0 given; allowed: 1 or more"
    assert told[1].startswith("concurrent: rank 0 has 2, rank 1 has 3;")


def test_a_plan_is_made_once_however_often_it_is_bound(transports, monkeypatch):
    schedule, made = ring_all_reduce(2, 8), []
    compiled = transports.p2p_plan.compile_plan
    monkeypatch.setattr(transports.p2p_plan, "compile_plan", lambda *a: made.append(a[1]) or compiled(*a))

    def work(comm):
        for protocol in ("packets", "signals") * 3:
            comm.bind(schedule, buffers_of(comm, schedule, "float32"), protocol)

    together(transports, "p2p", 2, work)
    assert {"packets", "signals"} == set(made)
    assert len(made) <= 4  # two threads may begin at once


def test_the_environment_chooses_for_exchanges_that_do_not(transports, monkeypatch):
    schedule = ring_all_reduce(2, 8)

    def work(comm):
        buffers = buffers_of(comm, schedule, "int32")
        result = [comm.bind(schedule, buffers, *options) for options in ((), ("packets",), ("copies",))]
        fill(comm, schedule, buffers, "int32")
        result[0].run()
        assert count_wrong(comm, schedule, buffers, "int32") == 0
        assert (comm.all_reduce(np.full(3, comm.rank + 1, "int32")) == 3).all()
        result += [bound for bound, *_ in comm._prepared._bound.values()]
        return [each.protocol for each in result]

    for value, wanted in (("signals", "signals"), ("copies", "copies"), ("auto", "packets")):
        monkeypatch.setenv("WAVEFABRIC_PROTOCOL", value)
        assert together(transports, "p2p", 2, work) == [[wanted, "packets", "copies", wanted]] * 2
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "LL")
    with pytest.raises(
        InputError, match="WAVEFABRIC_PROTOCOL: 'LL' given; allowed: auto, copies, packets, sig"
    ):
        together(transports, "p2p", 2, work)


def test_ranks_with_other_environments_are_refused(transports, monkeypatch):
    def get(name, default):
        return "signals" if _Gpu.own.number == 1 else default

    monkeypatch.setattr(transports.p2p, "os", SimpleNamespace(environ=SimpleNamespace(get=get)))
    with pytest.raises(InputError, match="WAVEFABRIC_PROTOCOL: rank 0 has auto, rank 1 has signals;"):
        together(transports, "p2p", 2, lambda comm: comm.rank)


@pytest.mark.parametrize("opens", ["open", "automatic"])
def test_ranks_that_share_a_gpu_hear_of_it_when_they_begin(transports, monkeypatch, opens):
    """By the name of what asks for kernels, before anything is made."""
    monkeypatch.setattr(transports.p2p, "StagedTransport", lambda *_: None)

    def work(comm):
        mpi = SimpleNamespace(Dup=lambda: None)
        group = RankGroup(mpi, [True] * comm.size, comm.control, comm.device)
        return getattr(transports.p2p.P2PTransport, opens)(group).protocol

    assert together(transports, "p2p", 2, work, gpus=[0, 0]) == ["auto"] * 2
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    assert together(transports, "p2p", 2, work) == ["signals"] * 2
    with pytest.raises(InputError, match=r"^WAVEFABRIC_PROTOCOL: 'signals' given; ranks 0, 1 share a GPU;"):
        together(transports, "p2p", 2, work, gpus=[0, 0])
