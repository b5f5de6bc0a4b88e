"""MSCCL algorithms of other programs as schedules."""

import pytest
from msccl_cases import (
    NONE,
    algo,
    block,
    exchange,
    fused_ring,
    halves,
    hierarchical,
    out_of_place,
    swap,
)
from msccl_machine import Machine, numbers, traffic

from wavefabric.base.errors import InputError
from wavefabric.collectives import levels, verify
from wavefabric.collectives.conditions import kind, operation, whole_elements
from wavefabric.collectives.formats.msccl.read import from_msccl
from wavefabric.collectives.formats.msccl.write import to_msccl


def test_exchange_of_halves():
    schedule = from_msccl(exchange(), elements=4)
    verify(schedule)
    assert kind(schedule) == ("all-reduce", None)
    assert (schedule.name, schedule.buffers, schedule.rounds) == ("by hand", ("data",), 2)
    assert schedule.sizes[0].tolist() == [[4, 4], [4, 4]]
    assert traffic(schedule) == {(0, 1): 2, (1, 0): 2}


@pytest.mark.parametrize("ranks", [3, 4, 7])
def test_receives_that_send_on(ranks):
    text = fused_ring(ranks)
    machine = Machine(text, 2)
    for r in range(ranks):
        machine.memory[r]["i"][:] = [numbers(r, c) for c in range(ranks)]
    machine.run()
    total = [sum(numbers(r, c) for r in range(ranks)) for c in range(ranks)]
    assert all(machine.memory[r]["i"] == total for r in range(ranks))
    schedule = from_msccl(text)
    assert kind(schedule) == ("all-reduce", None)
    assert schedule.communication_rounds == 2 * (ranks - 1)
    assert traffic(schedule) == machine.sent
    # Sums on their way stay in no buffer of the algorithm.
    assert schedule.buffers == ("data", "relay")
    assert schedule.sizes[1].tolist() == [[1] * (ranks - 2)] * ranks


def test_two_levels():
    gathered = from_msccl(hierarchical())
    assert gathered.communication_rounds == 2
    assert traffic(gathered) == {(g, p): 8 if p == g ^ 1 else 4 for g in range(4) for p in (g ^ 1, g ^ 2)}
    summed = from_msccl(halves())
    assert kind(summed) == ("all-reduce", None)
    assert (summed.communication_rounds, summed.buffers) == (3, ("data", "scratch"))


def test_out_of_place_with_nops_and_residuals():
    schedule = from_msccl(out_of_place())
    assert schedule.buffers == ("input", "output", "scratch")
    assert schedule.post == {(r, 1, c): (c, 3) for r in range(2) for c in range(2)}
    assert schedule.communication_rounds == 1


def test_what_is_overwritten_under_way_goes_through_a_relay():
    schedule = from_msccl(swap())
    assert "relay" in schedule.buffers
    held = {at: value for at, value in schedule.pre.items()}
    assert schedule.post == {(0, 0, 0): held[1, 0, 0], (1, 0, 0): held[0, 0, 0]}
    assert traffic(schedule) == {(0, 1): 1, (1, 0): 1}
    assert levels(schedule).max() < schedule.rounds


def all_gather(inplace):
    """Two GPUs: each sends its share, and copies it unless it is there."""
    gpus = []
    for g in range(2):
        source = ("i", 0)
        steps = [("s", source), ("r", NONE, ("o", 1 - g))]
        if not inplace:
            steps.append(("cpy", source, ("o", g)))
        gpus.append(((1, 2, 0), [block(0, 1 - g, 1 - g, steps)]))
    return algo("allgather", gpus, 2, inplace)


def reduce_scatter(inplace):
    gpus = []
    for g in range(2):
        blocks = [
            block(0, 1 - g, -1, [("s", ("i", 1 - g))]),
            block(1, -1, 1 - g, [("rrc", ("i", g), ("o", 0))]),
        ]
        gpus.append(((2, 1, 0), blocks))
    return algo("reduce_scatter", gpus, 2, inplace)


@pytest.mark.parametrize("build", [all_gather, reduce_scatter])
def test_input_is_a_share_of_output_in_place(build):
    apart, within = from_msccl(build(0)), from_msccl(build(1))
    assert apart.buffers == ("input", "output")
    assert within.buffers == ("data",)
    assert kind(within)[0] == build.__name__.replace("_", "-")
    assert traffic(apart) == traffic(within) == {(0, 1): 1, (1, 0): 1}


def rooted(coll, senders, more=""):
    """Of three GPUs, each of `senders` sends its chunk to all others."""
    gpus = []
    for g in range(3):
        blocks = [
            block(n, p, -1, [("s", ("i", 0))])
            for n, p in enumerate(p for p in range(3) if g in senders and p != g)
        ]
        for p in senders:
            if p != g and coll == "broadcast":
                blocks.append(block(len(blocks), -1, p, [("r", NONE, ("i", 0))]))
        gpus.append(((1, 0, 0), blocks))
    return algo(coll, gpus, 1, 1, more=more)


def test_root_of_a_broadcast():
    assert kind(from_msccl(rooted("broadcast", [2]))) == ("broadcast", 2)
    idle = algo("broadcast", [((1, 0, 0), [])] * 2, 1, 1)
    with pytest.raises(InputError, match="root: not given, and 2 GPUs never receive; allowed: 0 to 1"):
        from_msccl(idle)
    with pytest.raises(
        InputError, match=r"post: data\[0\] of rank 1 holds nothing; must hold item 0 of rank 0"
    ):
        from_msccl(idle, root=0)
    with pytest.raises(InputError, match='algo root: "9"; allowed: whole numbers from 0 to 2'):
        from_msccl(rooted("broadcast", [2], 'root="9"'))


def test_custom_sums_are_one_item():
    """GPU 0 adds up what the others hold at other places."""
    blocks = [
        block(
            n - 1,
            -1,
            n,
            [("rrc", ("i", 0), ("o", 0)) if n == 1 else ("rrc", ("o", 0), ("o", 0), {"wait": (0, 0)})],
        )
        for n in (1, 2)
    ]
    blocks[0] = blocks[0].replace('hasdep="0"', 'hasdep="1"')
    gpus = [((3, 3, 0), blocks)]
    gpus += [((3, 3, 0), [block(0, 0, -1, [("s", ("i", g))])]) for g in (1, 2)]
    schedule = from_msccl(algo("custom", gpus, 3))
    assert set(schedule.pre) == {(0, 0, 0), (1, 0, 1), (2, 0, 2)}
    ((at, (item, origins)),) = schedule.post.items()
    assert (at, origins) == ((0, 1, 0), 7)
    assert {held for held, _ in schedule.pre.values()} == {item}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (exchange().replace('type="r"', 'type="rrc"'), "double counting"),
        (exchange().replace('coll="allreduce"', 'coll="reduce_scatter"'), ""),
        (
            algo("alltoall", [((3, 3, 0), [])] * 2, 3),
            "algo nchunksperloop: 3 of all-to-all; allowed: multiples",
        ),
        (algo("allreduce", [((0, 0, 0), [])] * 2, 0), "algo nchunksperloop: 0; allowed: at least one"),
        (
            algo("custom", [((1, 1, 0), [])] * 2, 1, more='collective="hug"'),
            "algo collective: 'hug'; allowed: all",
        ),
        (
            algo("allreduce", [((0, 1, 0), [])] * 2, 1),
            "gpu 0 i_chunks: 0; allowed: what all-reduce out of place",
        ),
    ],
)
def test_what_is_not_what_it_says(text, message):
    if not message:  # an all-reduce does what a reduce-scatter promises
        assert kind(from_msccl(text))[0] == "reduce-scatter"
        return
    with pytest.raises(InputError) as caught:
        from_msccl(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("coll", ["allgather", "reduce_scatter"])
def test_out_of_place_the_whole_array_is_that_of_all_ranks(coll):
    gpus = []
    for g in range(2):
        other = 1 - g
        if coll == "allgather":
            sizes, steps = (1, 2, 0), [("cpy", ("i", 0), ("o", g)), ("s", ("i", 0), ("o", g))]
            steps.append(("r", ("i", 0), ("o", other)))
        else:
            sizes, steps = (2, 1, 0), [("cpy", ("i", g), ("o", 0)), ("s", ("i", other), ("o", 0))]
            steps.append(("rrc", ("o", 0), ("o", 0)))
        gpus.append((sizes, [block(0, other, other, steps)]))
    schedule = from_msccl(algo(coll, gpus, 2), elements=3)
    result = operation(schedule)
    assert (result.collective, result.in_place) == (coll.replace("allg", "all-g").replace("_", "-"), False)
    assert whole_elements(schedule) == 6
    verify(from_msccl(to_msccl(schedule)))
