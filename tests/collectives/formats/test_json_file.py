"""Schedules as JSON: nothing is lost, and whatever is wrong is named in one line."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_cases import SCHEDULES, joined

from wavefabric.base.errors import InputError
from wavefabric.collectives import (
    TRANSFER,
    Schedule,
    ScheduleError,
    direct_all_reduce,
    from_json,
    load,
    point_to_point,
    ring_all_reduce,
    save,
    to_json,
    verify,
)
from wavefabric.collectives.schedule import MscclOrigin


def same(a, b):
    assert (a.name, a.ranks, a.buffers, a.pre, a.post) == (b.name, b.ranks, b.buffers, b.pre, b.post)
    assert len(a.sizes) == len(b.sizes)
    for x, y in zip((*a.sizes, a.transfers), (*b.sizes, b.transfers), strict=True):
        assert x.dtype == y.dtype
        assert np.array_equal(x, y)


@settings(max_examples=60)
@given(schedule=SCHEDULES, join=st.booleans())
def test_round_trip(schedule, join):
    schedule = joined(schedule) if join else schedule
    text = to_json(schedule)
    again = from_json(text)
    same(schedule, again)
    assert to_json(again) == text


def test_more_ranks_than_bits_of_a_word():
    schedule = ring_all_reduce(70, 70)
    schedule.post[3, 0, 5] = (5, (1 << 69) | (1 << 64) | 1)
    schedule.post[4, 0, 5] = (5, (1 << 69) - 1)
    text = to_json(schedule)
    assert '{"at": [2, "data", 5], "item": 5, "origins": "all"}' in text
    assert '{"at": [3, "data", 5], "item": 5, "origins": [0, 64, 69]}' in text
    assert '{"at": [4, "data", 5], "item": 5, "origins": "0x1fffffffffffffffff"}' in text
    same(schedule, from_json(text))


def test_files(tmp_path):
    path = tmp_path / "ring.json"
    schedule = ring_all_reduce(3, 7)
    assert save(path, schedule) == path
    same(schedule, load(path))
    with pytest.raises(InputError) as error:
        save(path, point_to_point("other", 1, []))
    assert str(error.value) == f"schedule: {path} exists; allowed: another name, or --force (force=True)"
    same(schedule, load(path))
    save(path, point_to_point("other", 1, []), force=True)
    assert load(str(path)).name == "other"
    assert [p.name for p in tmp_path.iterdir()] == ["ring.json"]


def test_what_an_msccl_file_says_is_kept():
    plain = direct_all_reduce(2, 3)
    assert '"msccl"' not in to_json(plain)
    schedule = replace(plain, msccl=MscclOrigin("LL", 2, 8192))
    assert from_json(to_json(schedule)).msccl == schedule.msccl
    assert from_json(to_json(plain)).msccl is None


def test_places_that_cannot_be_written(tmp_path):
    schedule = ring_all_reduce(2, 2)
    with pytest.raises(InputError, match="is a folder; allowed: the name of a file"):
        save(tmp_path, schedule, force=True)
    for path in (tmp_path / "missing" / "a.json", tmp_path / ("a" * 300)):
        with pytest.raises(InputError, match=r"cannot be written \(.*\); allowed: a name in a folder"):
            save(path, schedule)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save(tmp_path / "file" / "a.json", schedule)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    schedule = ring_all_reduce(2, 2)
    schedule.transfers["src"][0] = 5
    with pytest.raises(ScheduleError, match=r"transfers\[0\]\.src: 5"):
        save(tmp_path / "a.json", schedule)
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"none\.json \(No such file or directory\); allowed: a file"):
        load(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"\(Is a directory\)"):
        load(tmp_path)
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(InputError, match="is not UTF-8 text; allowed: a text file"):
        load(path)
    path.write_text("{")
    with pytest.raises(InputError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: schedule: not JSON (")


def test_a_schedule_may_be_wrong_and_still_be_read():
    content = json.loads(to_json(ring_all_reduce(2, 2)))
    del content["transfers"][0]
    schedule = from_json(json.dumps(content))
    with pytest.raises(ScheduleError):
        verify(schedule)


NOT_OBJECTS = {
    "": "schedule: not JSON (Expecting value at line 1, column 1); allowed: a JSON object",
    '{"a": 1,}': "schedule: not JSON (",
    "[1]": "schedule: [1]; allowed: an object with the keys format, version, name, ranks, buffers, ",
    "null": "schedule: null; allowed: an object with the keys",
    "{}": 'format: null; allowed: "wavefabric schedule"',
    '{"format": "k"}': 'format: "k"; allowed: "wavefabric schedule"',
    '{"format": "wavefabric schedule", "version": 2}': "version: 2; allowed: 1",
    '{"format": "wavefabric schedule", "version": true}': "version: true; allowed: 1",
    '{"format": "wavefabric schedule", "version": 1}': 'schedule: no key "name"; allowed: format, ',
    '{"a": 1, "b": 2, "a": 1}': '"a": given twice in one object; allowed: once',
    '{"a": NaN}': "schedule: NaN; allowed: whole numbers",
    '{"a": ' + "9" * 5000 + "}": "schedule: a number with too many digits; allowed: numbers below 2^63",
    "[" * 100_000: "schedule: nested too deeply; allowed: a JSON object like that of to_json",
}


@pytest.mark.parametrize("text", NOT_OBJECTS, ids=range(len(NOT_OBJECTS)))
def test_text_that_is_no_schedule(text):
    with pytest.raises(InputError) as error:
        from_json(text)
    assert str(error.value).startswith(NOT_OBJECTS[text])
    assert "\n" not in str(error.value)


def put(*keys, value):
    """Sets an entry of the content of a file, given the way to it."""

    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


def drop(*keys):
    def change(content):
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return change


LONG = list(range(100))
SUM_OF_TWO = Schedule(
    name="direct all-reduce",
    ranks=2,
    buffers=("data", "scratch"),
    sizes=(np.array([[3], [3]]), np.array([[0, 3], [3, 0]])),
    transfers=np.array(
        [
            (0, 0, 1, 0, 0, 1, 0, 1, False, 0),
            (0, 1, 0, 0, 0, 1, 1, 1, False, 0),
            (1, 0, 0, 1, 1, 0, 0, 1, True, 0),
            (1, 1, 1, 1, 0, 0, 0, 1, True, 0),
        ],
        TRANSFER,
    ),
    pre={(r, 0, 0): (0, 1 << r) for r in range(2)},
    post={(r, 0, 0): (0, 3) for r in range(2)},
)
MALFORMED = {
    'name: "a\\nb"; allowed: text of one line, not empty': put("name", value="a\nb"),
    'name: ""; allowed: text of one line, not empty': put("name", value=""),
    "name: 3; allowed: text of one line, not empty": put("name", value=3),
    'schedule: half a character, \\ud800; allowed: text in Unicode': put("name", value="\ud800"),
    'schedule: unknown key "nmae"; allowed: format, version, name, ranks, buffers, transfers, pre, post, '
    "msccl, element_bytes": put("nmae", value=1),
    "element_bytes: 0; allowed: whole numbers from 1 to 2147483647": put("element_bytes", value=0),
    "element_bytes: null; allowed: whole numbers from 1 to 2147483647": put("element_bytes", value=None),
    "msccl: null; allowed: an object with the keys protocol, channels, most_bytes": put("msccl", value=None),
    'msccl.protocol: ["LL"]; allowed: Simple, LL, LL128': put(
        "msccl", value={"protocol": ["LL"], "channels": 1, "most_bytes": None}
    ),
    "msccl.channels: -1; allowed: whole numbers from 0 to 2147483647": put(
        "msccl", value={"protocol": "LL", "channels": -1, "most_bytes": None}
    ),
    "msccl.most_bytes: 0.5; allowed: whole numbers from 0 to 9223372036854775807": put(
        "msccl", value={"protocol": "LL", "channels": 1, "most_bytes": 0.5}
    ),
    "ranks: 0; allowed: whole numbers from 1 to 4096": put("ranks", value=0),
    "ranks: true; allowed: whole numbers from 1 to 4096": put("ranks", value=True),
    "ranks: 2.0; allowed: whole numbers from 1 to 4096": put("ranks", value=2.0),
    "ranks: 2147483647; allowed: whole numbers from 1 to 4096": put("ranks", value=2**31 - 1),
    "buffers[0].sizes: 2 rows; allowed: one row a rank, 4096": put("ranks", value=4096),
    "buffers: {}; allowed: a list": put("buffers", value={}),
    "buffers: 0 given; allowed: 1 to 32767": put("buffers", value=[]),
    'buffers[1].name: "data"; allowed: each name once': put("buffers", 1, "name", value="data"),
    'buffers[1]: no key "sizes"; allowed: name, sizes': drop("buffers", 1, "sizes"),
    "buffers[1].sizes[1]: 1 numbers; allowed: as many as in the first row, 2": put(
        "buffers", 1, "sizes", 1, value=[3]
    ),
    "buffers[1].sizes[1]: null; allowed: a list": put("buffers", 1, "sizes", 1, value=None),
    "buffers[0].sizes[1][0]: -3; allowed: whole numbers from 0 to 9223372036854775807": put(
        "buffers", 0, "sizes", 1, 0, value=-3
    ),
    "buffers[0].sizes[1][0]: 9223372036854775808; allowed: whole numbers from 0 to 9223372036854775807": put(
        "buffers", 0, "sizes", 1, 0, value=2**63
    ),
    "direct all-reduce: sizes of scratch: 2^63 elements or more on a rank; allowed: fewer": put(
        "buffers", 1, "sizes", 1, value=[2**62, 2**62]
    ),
    "transfers: null; allowed: a list": put("transfers", value=None),
    "transfers[0]: 7; allowed: an object with the keys round, src, dst, count, reduce, switch": put(
        "transfers", 0, value=7
    ),
    "transfers[1]: no key \"dst\"; allowed: round, src, dst, count, reduce, switch": drop(
        "transfers", 1, "dst"
    ),
    "transfers[1].round: -1; allowed: whole numbers from 0 to 2147483647": put(
        "transfers", 1, "round", value=-1
    ),
    "direct all-reduce: transfers[1].round: 0; allowed: from 9 (in order)": put(
        "transfers", 0, "round", value=9
    ),
    "transfers[0].src: [0, 1]; allowed: [rank, buffer, chunk]": put("transfers", 0, "src", value=[0, 1]),
    f"transfers[0].src: {str(LONG)[:57]}...; allowed: [rank, buffer, chunk]": put(
        "transfers", 0, "src", value=LONG
    ),
    "transfers[0].src[0]: 2; allowed: whole numbers from 0 to 1": put("transfers", 0, "src", 0, value=2),
    'transfers[0].dst[1]: "dta"; allowed: data, scratch': put("transfers", 0, "dst", 1, value="dta"),
    "transfers[0].dst[1]: []; allowed: data, scratch": put("transfers", 0, "dst", 1, value=[]),
    "transfers[0].dst[2]: 2; allowed: whole numbers from 0 to 1": put("transfers", 0, "dst", 2, value=2),
    "transfers[0].count: 0; allowed: whole numbers from 1 to 2147483647": put(
        "transfers", 0, "count", value=0
    ),
    "direct all-reduce: transfers[0].count: 2; allowed: 1 to 1": put("transfers", 0, "count", value=2),
    "transfers[0].reduce: 1; allowed: true or false": put("transfers", 0, "reduce", value=1),
    "direct all-reduce: transfer 0 (round 0, copy data[0] of rank 0 to scratch[1] of rank 1): "
    "the source has 3 elements, the destination 0": put("transfers", 0, "dst", 2, value=1),
    "pre[1].at: [0, \"data\", 0]; allowed: each chunk once": put("pre", 1, "at", 0, value=0),
    "pre[0].at[2]: 1; allowed: whole numbers from 0 to 0": put("pre", 0, "at", 2, value=1),
    "pre[0].item: -1; allowed: whole numbers from 0 to 9223372036854775807": put("pre", 0, "item", value=-1),
    'pre[0].origins: []; allowed: a list of ranks from 0 to 1, "all", or "0x..." of these ranks': put(
        "pre", 0, "origins", value=[]
    ),
    'pre[0].origins: "0x4"; allowed: a list of ranks from 0 to 1, "all", or "0x..." of these ranks': put(
        "pre", 0, "origins", value="0x4"
    ),
    'pre[0].origins: 1; allowed: a list of ranks from 0 to 1, "all", or "0x..." of these ranks': put(
        "pre", 0, "origins", value=1
    ),
    "pre[0].origins[1]: 2; allowed: whole numbers from 0 to 1": put("pre", 0, "origins", value=[0, 2]),
    "post: {}; allowed: a list": put("post", value={}),
    'post[0]: no key "item"; allowed: at, item, origins': drop("post", 0, "item"),
}  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_content_is_named(text):
    content = json.loads(to_json(SUM_OF_TWO))
    MALFORMED[text](content)
    with pytest.raises(InputError) as error:
        from_json(json.dumps(content))
    assert str(error.value) == text


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("data"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100)
@given(data=st.data(), value=ANYTHING)
def test_whatever_is_put_anywhere_is_read_or_named(data, value):
    content = json.loads(to_json(SUM_OF_TWO))
    at = content
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = value
    try:
        schedule = from_json(json.dumps(content))
    except InputError as error:
        text = str(error)
        assert text.isprintable()
        assert "; allowed: " in text or ": transfer " in text
    else:
        assert from_json(to_json(schedule)).name == schedule.name


def test_a_file_of_the_same_name_with_another_ending_is_left_alone(tmp_path):
    path, mine = tmp_path / "s.json", tmp_path / "s.json.partial"
    mine.write_text("mine", encoding="utf-8")
    save(path, direct_all_reduce(2, 3))
    assert mine.read_text(encoding="utf-8") == "mine"
    assert {p.name for p in tmp_path.iterdir()} == {path.name, mine.name}
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    save(path, direct_all_reduce(2, 4), force=True)
    assert path.stat().st_mode & 0o777 == 0o640
