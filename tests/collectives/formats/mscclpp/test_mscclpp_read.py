"""Public plans of MSCCL++, plans by hand, and what is refused: with the key, or rank, block and operation."""

import json
from functools import reduce
from pathlib import Path

import pytest
from mscclpp_machine import wrong

from wavefabric.base.errors import InputError
from wavefabric.collectives import kind
from wavefabric.collectives.formats.mscclpp.read import from_mscclpp, load_mscclpp

PLANS = Path(__file__).parents[3] / "data" / "mscclpp"
#: Rounds, transfers.
PUBLIC = {"allreduce": (2, 4), "allreduce_packet": (2, 4), "allreduce_pipeline": (4, 40), "reduce": (4, 9)}
PUBLIC |= {
    "reduce_pack": (3, 5),
    "reduce_pack_tbg": (3, 5),
    "transfer_pack": (1, 2),
    "transfer_pack_tbg": (1, 2),
}
LATE = "the caller of rank 0 writes data[1] of rank 0, written by rank 1, thread block 0, operation"
FLAWED = {
    "reduce_nvls": f"{LATE} 5 (glres), and nothing orders them",
    "reduce_nvls_pipeline": f"{LATE} 5.0 (glres), and nothing orders them",
    "reduce_tbg": "rank 0, thread block 0, operation 7 (get) reads scratch[1] of rank 1, written by rank 1, "
    "thread block 1, operation 0 (copy), and nothing orders them",
}


def plan(name):
    return json.loads((PLANS / f"{name}.json").read_text())


def read(content):
    return from_mscclpp(json.dumps(content))


def refused(content):
    with pytest.raises(InputError) as caught:
        read(content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_plans(name):
    schedule = load_mscclpp(PLANS / f"{name}.json")  # which proves it
    assert kind(schedule)[0] == ("all-gather" if "transfer" in name else "all-reduce")
    assert (schedule.rounds, schedule.transfers.size) == PUBLIC[name]
    assert wrong(plan(name), 6) is None


@pytest.mark.parametrize("name", FLAWED)
def test_public_plans_with_races(name):
    with pytest.raises(InputError, match=r"^/.*json: ") as caught:
        load_mscclpp(PLANS / f"{name}.json")
    assert str(caught.value).endswith(FLAWED[name])
    assert wrong(plan(name), 60)  # and so it happens


def test_relaxed_signals_made_strict():
    text = (PLANS / "reduce_nvls.json").read_text().replace("rlx", "")
    schedule = from_mscclpp(text)
    # Each GPU adds up its chunk, and multicasts it.
    rows = schedule.transfers[["round", "src", "dst", "src_chunk"]].tolist()
    sums = [(0, src, dst, dst) for src in range(2) for dst in range(2)]
    assert sorted(rows) == sums + [(1, src, dst, src) for src in range(2) for dst in range(2)]
    assert schedule.transfers["switch"].tolist() == [1, 1, 2, 2] * 2


def test_pipelines_repeat_beyond_their_scratch():
    slow = plan("allreduce_pipeline")
    for gpu in slow["gpus"]:
        gpu["semaphores"][2]["init_value"] = 33  # units of scratch: 32
    assert "(copy) writes scratch[0] of rank" in refused(slow)
    for gpu in slow["gpus"]:
        gpu["semaphores"][2]["init_value"] = 1
    read(slow)
    slow["gpus"][1]["threadblocks"][2]["ops"][0]["ops"].pop()  # its release
    assert refused(slow).endswith("waits for ever")


def _by_port(*ops):
    """An all-gather of two GPUs that put their chunk through a port."""
    through = {"channel_type": "port", "channel_ids": [0]}
    refs = [{"access_channel_type": "port", "remote_buffer_ids": [0]}]
    gpus = []
    for rank in range(2):
        ends = {"src_buff": [{"type": "o"}], "dst_buff": [{"buffer_id": 0}]}
        ends = {side: [buffers[0] | {"index": rank, "size": 1}] for side, buffers in ends.items()}
        code = [
            {"name": name} | through | (ends if name[0] == "p" else {}) for name in ("signal", "wait", *ops)
        ]
        block = {"id": 0, "ops": [*code[:2], {"name": "nop"}, *code[2:]], "channels": [through]}
        gpu = {"id": rank, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 0}
        gpu |= {"threadblocks": [block | {"remote_buffer_refs": refs}]}
        gpu["channels"] = [{"channel_type": "port", "connected_to": [1 - rank]}]
        gpus.append(gpu | {"remote_buffers": [{"rank": 1 - rank, "type": "o"}]})
    head = {"name": "ports", "collective": "allgather", "protocol": "Simple", "inplace": True}
    return head | {"gpus": gpus}


def test_ports_read_until_they_are_flushed():
    for ops in (("pwsf", "wait"), ("pws", "flush", "wait"), ("put", "signal", "flush", "wait")):
        assert kind(read(_by_port(*ops)))[0] == "all-gather"
    early = (
        "ports: the caller of rank 0 writes data[0] of rank 0, read by rank 0, thread block 0, operation 3"
    )
    assert refused(_by_port("pws", "wait")).startswith(early)
    assert "nothing orders them" in refused(_by_port("put", "flush", "signal"))


def test_a_packet_tells_that_the_packets_it_is_made_of_were_read():
    """Of earlier calls too: a rank ends its call when it has read the answer to what it sent."""
    for name in ("packets_plain_scratch", "two_nodes_packets"):
        schedule = load_mscclpp(PLANS / f"{name}.json")
        assert (kind(schedule)[0], schedule.ranks) == ("all-reduce", 2)
        assert wrong(plan(name), 60) is None


def _answered(*meets):
    """Rank 0 sends a packet; one block of rank 1 reads it, another one then overwrites its source."""
    memory = {"channel_type": "memory", "channel_ids": [0]}
    refs = [{"access_channel_type": "memory", "remote_buffer_ids": [0]}]
    here, there = ({**at, "index": 0, "size": 1} for at in ({"type": "o"}, {"buffer_id": 0}))
    packet, output = here | {"type": "s"}, here | {"index": 1}
    send = [{"name": "ppkt", "src_buff": [here], "dst_buff": [there]} | memory, {"name": "wait"} | memory]
    read = [{"name": "upkt", "src_buff": [packet], "dst_buff": [output]}, *meets]
    read.append({"name": "sem_release", "semaphore_ids": [0]})
    answer = [{"name": "sem_acquire", "semaphore_ids": [0]}, {"name": "nop"}]
    answer += [{"name": "put", "src_buff": [here], "dst_buff": [there]} | memory, {"name": "nop"}]
    gpus = []
    for rank, blocks in enumerate(([send], [read, [*answer, {"name": "signal"} | memory]])):
        gpu = {"id": rank, "input_chunks": 0, "output_chunks": 2, "scratch_chunks": 2}
        gpu["threadblocks"] = [
            {"id": n, "ops": ops, "channels": [memory], "remote_buffer_refs": refs}
            for n, ops in enumerate(blocks)
        ]
        gpu["channels"] = [{"channel_type": "memory", "connected_to": [1 - rank]}]
        gpu["remote_buffers"] = [{"rank": 1 - rank, "type": "so"[rank]}]
        gpus.append(gpu | {"semaphores": [{"init_value": 0}] * rank})
    head = {"name": "answer", "collective": "custom", "protocol": "LL", "inplace": True}
    return head | {"gpus": gpus}


def test_signals_pass_on_what_a_packet_tells():
    """That its source was read; only once all threads of the block know it."""
    schedule = read(_answered({"name": "nop"}))
    assert schedule.transfers[["src", "dst"]].tolist() == [(0, 1), (1, 0)]
    early = "answer: rank 1, thread block 1, operation 2 (put) writes data[0] of rank 0, "
    assert refused(_answered()).startswith(early)


@pytest.mark.parametrize("flush", [False, True])
def test_packets_without_an_answer_need_two_buffers(flush):
    """A rank may be in its next call when the other one has not read its packet of this call."""
    pair = plan("two_nodes_packets") | {"use_double_scratch_buffer": False}
    for gpu in pair["gpus"]:
        gpu["threadblocks"][0]["ops"] += [
            {"name": "flush", "channel_type": "port", "channel_ids": [0]}
        ] * flush
    assert refused(pair).endswith(
        "(rppkt), and nothing orders them" if not flush else "(repkt), and nothing orders them"
    )
    if flush:
        assert wrong(pair, 60)


def test_thread_blocks_meet_at_barriers():
    pair = plan("allreduce_packet")
    for gpu in pair["gpus"]:
        for block in gpu["threadblocks"]:
            block["ops"].append({"name": "barrier", "barrier_id": 0, "num_threadblocks": 2})
    read(pair)
    pair["gpus"][0]["threadblocks"][1]["ops"].pop()
    assert refused(pair).endswith("operation 2 (barrier) waits for 2 blocks, and 1 come")


BLOCK = "gpus[0].threadblocks[0]"
BAD = {
    ("ops", 3, "name"): ("hug", '.ops[3].name: "hug" given; allowed: '),
    ("ops", 3, "reduce_op"): ("min", '.ops[3].reduce_op: "min" given; '),
    ("ops", 3, "src_buff", 0, "index"): (16, ".ops[3].src_buff[0].index: 16, size 1; allowed: within 16 of"),
    ("ops", 3, "src_buff", 1, "buffer_id"): (7, ".ops[3].src_buff[1].buffer_id: 7; allowed: below 1"),
    ("ops", 3, "dst_buff", 0, "size"): (2, ".ops[3].src_buff: size unlike that of"),
    ("ops", 0, "channel_ids", 0): (1, ".ops[0].channel_ids: 1; allowed: below 1"),
    ("id",): (3, ".id: (0, 3); allowed: as they are listed"),
}


@pytest.mark.parametrize("path", BAD)
def test_bad_files_name_the_key(path):
    content = plan("allreduce")
    value, message = BAD[path]
    reduce(lambda table, key: table[key], path[:-1], content["gpus"][0]["threadblocks"][0])[path[-1]] = value
    assert refused(content).startswith(BLOCK + message)
