"""What the commands say of schedules that come from MSCCL files."""

import json

from wavefabric.collectives import build, ring_all_gather
from wavefabric.collectives.formats.msccl.write import to_msccl
from wavefabric.collectives.formats.mscclpp.write import to_mscclpp

COST = ("collective", "cost", "ll.xml", "--fabric", "switch:4", "--bytes", "64K,32M")


def big_sends(sends, count):
    """Two GPUs that send all before they receive any; 64 chunks in all."""
    gpus = []
    for g in range(2):
        steps = "".join(
            f'<step s="{s}" type="{kind}" srcbuf="i" srcoff="{n * count}" dstbuf="o" dstoff="{n * count}" '
            f'cnt="{count}" depid="-1" deps="-1" hasdep="0"/>'
            for s, (kind, n) in enumerate((kind, n) for kind in "sr" for n in range(sends))
        )
        tb = f'<tb id="0" send="{1 - g}" recv="{1 - g}" chan="0">{steps}</tb>'
        gpus.append(f'<gpu id="{g}" i_chunks="64" o_chunks="64" s_chunks="0">{tb}</gpu>')
    head = 'name="eager" proto="LL" nchannels="1" nchunksperloop="64" ngpus="2" coll="custom" inplace="0"'
    return f'<algo {head} minBytes="0" maxBytes="65536">{"".join(gpus)}</algo>'


def test_protocol_and_channels_are_not_counted(command, tmp_path):
    (tmp_path / "ll.xml").write_text(to_msccl(ring_all_gather([8] * 4), proto="LL"))
    (tmp_path / "simple.xml").write_text(to_msccl(ring_all_gather([8] * 4), instances=2))
    code, out, err = command(*COST)
    assert (code, err) == (0, "")
    assert (
        "not counted: LL, 1 channel of the MSCCL file; with LL or few channels it may take many times" in out
    )
    rows = json.loads(command(*COST, "--json")[1])["costs"]
    other = [word.replace("ll.xml", "simple.xml") for word in COST]
    assert "not counted: Simple, 2 channels of the MSCCL file" in command(*other)[1]
    others = json.loads(command(*other, "--json")[1])["costs"]
    assert [r["seconds"] for r in rows] == [r["seconds"] for r in others]
    assert rows[0]["msccl"] == {"protocol": "LL", "channels": 1, "most_bytes": None}
    assert rows[0]["not_counted"] == ["protocol", "channels"]
    # Still so when the schedule went through our JSON; and nothing of the kind for one that was built.
    assert command("collective", "export", "ll.xml", "-o", "ll.json")[0] == 0
    assert "not counted: LL, 1 channel" in command(*(w.replace(".xml", ".json") for w in COST))[1]
    built = ("collective", "cost", "ring", "all-gather", "--fabric", "switch:4", "--bytes", "64K")
    assert "not counted" not in command(*built)[1]
    assert "not_counted" not in json.loads(command(*built, "--json")[1])["costs"][0]


def test_the_largest_array_is_reported(command, tmp_path):
    (tmp_path / "ll.xml").write_text(to_msccl(ring_all_gather([8] * 4), proto="LL"))
    (tmp_path / "eager.xml").write_text(big_sends(2, 32))
    code, out, err = command("collective", "verify", "ll.xml", "eager.xml")
    assert (code, err) == (0, "")
    assert "transfers; MSCCL: LL, 1 channel, arrays of any size" in out
    # Eight slots for two steps: four messages each, so eight chunks in 32 KiB, and 64 chunks.
    assert "transfers; MSCCL: LL, 1 channel, arrays up to 256 KiB" in out
    result = json.loads(command("collective", "verify", "eager.xml", "--json")[1])
    assert result[0]["msccl"]["most_bytes"] == 262144
    words = ("collective", "cost", "eager.xml", "--fabric", "switch:2", "--bytes")
    assert "hangs" not in command(*words, "256K")[1]
    assert "the MSCCL file hangs above 256 KiB: its buffers are full then" in command(*words, "64K,1M")[1]
    (tmp_path / "eager.xml").write_text(big_sends(2, 32).replace("65536", "262145"))
    code, out, err = command("collective", "verify", "eager.xml")
    assert (code, out) == (2, "")
    assert "eager.xml: deadlock with 8 slots a connection, 1 a message under LL, above 262144 bytes" in err


def test_plans_on_the_command_line(command, tmp_path):
    (tmp_path / "plan.json").write_text(to_mscclpp(build("ring", "all-gather", 4, 4), proto="LL"))
    for words in ("-o x.xml", "-o ours.json", "--format mscclpp --proto LL -o b.json"):
        assert command("collective", "export", "plan.json", *words.split())[0] == 0
    assert (tmp_path / "b.json").read_text() == (tmp_path / "plan.json").read_text()
    code, _, err = command(
        "collective", "export", "b.json", "--format", "mscclpp", "--slots", "3", "-o", "c.json"
    )
    assert (code, "--slots: 3 given with c.json" in err) == (2, True)
    assert command("collective", "cost", "b.json", "--fabric", "switch:4", "--bytes", "1M")[0] == 0
