"""P2P and NCCL without GPUs: ranks are threads, and host memory stands in for the devices'."""

import pytest
from stand_in_gpus import buffers_of, stand_in, together

from wavefabric.collectives import point_to_point
from wavefabric.collectives.conditions import COLLECTIVES, ROOTED
from wavefabric.collectives.registry import ALGORITHMS, build, why_refused
from wavefabric.errors import InputError
from wavefabric.execution.timed_schedule import count_wrong, fill


@pytest.fixture(scope="module")
def transports():
    with stand_in() as modules:
        yield modules


def _wrong(comm, schedule, protocol, dtype="float32"):
    buffers = buffers_of(comm, schedule, dtype)
    exchange = comm.bind(schedule, buffers, protocol)
    wrong = 0
    for _ in range(2):
        fill(comm, schedule, buffers, dtype)
        exchange.start()
        exchange.finish()
        wrong += count_wrong(comm, schedule, buffers, dtype)
    return wrong


def _schedules(ranks):
    for algorithm in ALGORITHMS.values():
        for collective in algorithm.collectives:
            options = {"root": ranks - 1} if collective in ROOTED and "root" in algorithm.options else {}
            options |= {"radix": 4} if "radix" in algorithm.options else {}
            options |= {"pieces": 2} if "pieces" in algorithm.options else {}
            if why_refused(algorithm.name, collective, ranks, **options) is None:
                yield build(algorithm.name, collective, ranks, 3 * ranks + 2, **options)
    # Even shares, of one chunk and of several: NCCL gathers them itself.
    for pieces in (1, 3):
        yield build("direct", "all-gather", ranks, 6 * ranks, pieces=pieces)
    yield point_to_point("twice", ranks, [(0, 1, 3), (0, 1, 4), (1, 0, 5), (1, 1, 2)])


@pytest.mark.parametrize(
    ("transport", "protocol"),
    [("p2p", "copies"), ("p2p", "signals"), ("p2p", "packets"), ("p2p", "auto"), ("nccl", "auto")],
)
@pytest.mark.parametrize("size", [2, 4])
def test_every_algorithm_moves_and_adds_the_right_data(transports, transport, protocol, size):
    schedules = list(_schedules(size))
    assert len({schedule.name for schedule in schedules}) > 20

    def work(comm):
        found = [(schedule.name, _wrong(comm, schedule, protocol)) for schedule in schedules]
        return [each for each in found if each[1]]

    assert together(transports, transport, size, work) == [[]] * size


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_nccls_own_operations_do_what_ours_do(transports, collective):
    root = 2 if collective in ROOTED else 0
    schedule = build("direct", collective, 3, 12, root=root)

    def work(comm):
        buffers = buffers_of(comm, schedule, "float32")
        # Scratch is ours alone.
        own = {name: buffers[name] for name in ("data", "send", "recv") if name in buffers}
        fill(comm, schedule, own, "float32")
        run = comm.own_collective(collective, list(own.values()), root)
        run()
        return count_wrong(comm, schedule, own, "float32")

    assert together(transports, "nccl", 3, work) == [0, 0, 0]


def test_what_nccl_has_no_operation_for_is_refused(transports):
    def work(comm):
        found = []
        for collective, elements, dtype in (
            ("all-gather", 7, "float32"),
            ("all-reduce", 8, "complex64"),
            ("halo", 8, "float32"),
        ):
            with pytest.raises(InputError) as refused:
                comm.own_collective(collective, [comm.allocate((elements,), dtype)])
            found.append(str(refused.value))
        return found

    uneven, complex_, halo = together(transports, "nccl", 2, work)[1]
    assert uneven == "elements: 7 on 2 ranks; allowed for NCCL: equal shares"
    assert complex_.startswith("dtype: complex64 given; allowed for NCCL's sums: float16,")
    assert halo.startswith("collective: 'halo' given; allowed for NCCL: all-gather,")

    def other(comm):
        with pytest.raises(InputError, match="transport: 'p2p' has no collective operations of its own"):
            comm.own_collective("all-gather", [comm.allocate((8,), "float32")])

    together(transports, "p2p", 2, other)
