"""Tunings: the nearest size, the rule without a file, files there and back, and what is wrong with them."""

import json
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import ALGORITHMS, build, kind, verify, why_refused
from wavefabric.collectives.candidates import VARIANTS, Choice, refused
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.sizes import MOST_RANKS
from wavefabric.collectives.tuning import (
    SMALL,
    TimedChoice,
    TunedCollective,
    TunedSize,
    Tuning,
    default_choice,
    load_tuning,
    save_tuning,
    tuning_from_json,
    tuning_to_json,
)

#: Each may be chosen for 8 ranks.
_CHOICES = {
    collective: [
        choice
        for name, each in ALGORITHMS.items()
        if collective in each.collectives
        for choice in (
            *(Choice(name), Choice(name, 4), Choice(name, 8, 3), Choice(name, None, 2)),
            Choice(name, grid=(2, 4)),
            *(Choice(name, protocol=protocol) for protocol in VARIANTS[1:]),
        )
        if refused(choice, collective, 8) is None
    ]
    for collective in COLLECTIVES
}
_TIMES = st.none() | st.floats(0, 1e9)


@st.composite
def tunings(draw):
    keys = st.tuples(st.sampled_from(COLLECTIVES), st.none() | st.sampled_from(["mpi", "p2p"]))
    tables = []
    for collective, transport in draw(st.lists(keys, min_size=1, max_size=4, unique=True)):
        choices = st.lists(st.sampled_from(_CHOICES[collective]), min_size=1, max_size=4, unique=True)
        sizes = [
            TunedSize(size, tuple(TimedChoice(c, draw(_TIMES), draw(_TIMES)) for c in draw(choices)))
            for size in sorted(draw(st.sets(st.integers(1, 1 << 40), min_size=1, max_size=4)))
        ]
        tables.append(TunedCollective(collective, tuple(sizes), transport))
    text = st.none() | st.text(max_size=9)
    return Tuning(8, tuple(tables), *(draw(text) for _ in range(5)))


def of(*algorithms, collective="all-reduce", transport=None):
    """Sizes of 1 KiB, 4 KiB, 16 KiB, … with these algorithms."""
    sizes = [TunedSize(1024 * 4**k, (TimedChoice(Choice(a)),)) for k, a in enumerate(algorithms)]
    return TunedCollective(collective, tuple(sizes), transport)


@settings(max_examples=50)
@given(tuning=tunings())
def test_round_trip(tuning):
    assert tuning_from_json(tuning_to_json(tuning)) == tuning


@pytest.mark.slow
@settings(max_examples=100)
@given(tuning=tunings(), nbytes=st.integers(0, 1 << 41))
def test_the_nearest_size_counts(tuning, nbytes):
    table = tuning.tables[0]
    result = tuning.choose(table.collective, nbytes, table.transport)
    far = [abs(log(max(nbytes, 1) / size.bytes)) for size in table.sizes]
    near = {
        s.best.choice for s, f in zip(table.sizes, far, strict=True) if f <= min(far) * (1 + 1e-9) + 1e-12
    }
    assert result in near


def test_ends_and_the_middle():
    tuning = Tuning(8, (of("direct", "recursive", "ring"),))
    for nbytes, name in (
        *((0, "direct"), (1, "direct"), (1024, "direct"), (2047, "direct"), (2048, "recursive")),
        *((4096, "recursive"), (8191, "recursive"), (8192, "ring"), (1 << 40, "ring")),
    ):
        assert tuning.choose("all-reduce", nbytes) == Choice(name), nbytes


def test_the_transport_counts_where_there_are_several():
    tables = of("ring", transport="mpi"), of("direct", transport="p2p"), of("bruck", collective="all-gather")
    tuning = Tuning(8, tables)
    chosen = [
        tuning.choose("all-reduce", 9, transport).algorithm for transport in (None, "mpi", "p2p", "nccl")
    ]
    assert chosen == ["ring", "ring", "direct", "ring"]
    assert tuning.choose("all-gather", 9, "p2p") == Choice("bruck")
    with pytest.raises(InputError, match=r'"reduce" given; allowed: all-reduce, all-gather \(what'):
        tuning.choose("reduce", 9)


def test_times_that_decide():
    assert TimedChoice(Choice("ring"), 3.0, 0.0).us == 0.0
    assert TimedChoice(Choice("ring"), 3.0).us == 3.0
    assert TimedChoice(Choice("ring")).us == float("inf")
    assert str(Choice("tree", None, 4)) == "tree, 4 pieces"
    assert str(Choice("recursive", 8)) == "recursive, radix 8"
    assert str(Choice("recursive", 4, protocol="packets")) == "recursive, radix 4, packets"
    assert str(Choice("tree", None, 4, "copies")) == "tree, 4 pieces, copies"


# --- without a file -------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    collective=st.sampled_from(COLLECTIVES),
    ranks=st.integers(1, 40) | st.integers(1, MOST_RANKS) | st.sampled_from([2**k for k in range(13)]),
    nbytes=st.sampled_from([0, 4, SMALL, SMALL + 1, 1 << 30]),
)
def test_the_default_is_never_refused(collective, ranks, nbytes):
    names = [name for name, each in ALGORITHMS.items() if collective in each.collectives]
    if all(why_refused(name, collective, ranks) for name in names):
        with pytest.raises(InputError, match=f"{ranks} given"):
            default_choice(collective, ranks, nbytes)
        return
    choice = default_choice(collective, ranks, nbytes)
    assert refused(choice, collective, ranks) is None
    if 1 < ranks < 17:
        schedule = build(
            choice.algorithm, collective, ranks, nbytes, radix=choice.radix, pieces=choice.pieces
        )
        verify(schedule)
        assert not nbytes or kind(schedule)[0] == collective


@pytest.mark.parametrize(
    ("collective", "ranks", "small", "large"),
    [
        ("all-reduce", 8, "recursive-exchange", "recursive"),
        ("all-reduce", 6, "direct", "ring"),
        ("all-gather", 4, "recursive", "recursive"),
        ("reduce-scatter", 5, "direct", "ring"),
        ("all-to-all", 8, "direct", "direct"),
        ("broadcast", 7, "binomial", "double-tree"),
        ("all-reduce", 3000, "tree", "tree"),
    ],
)
def test_the_default_has_few_rounds_or_few_bytes(collective, ranks, small, large):
    assert str(default_choice(collective, ranks, SMALL)) == small
    assert str(default_choice(collective, ranks, SMALL + 1)) == large


def test_no_default_for_other_operations():
    with pytest.raises(InputError, match='collective: "halo" given; allowed: all-reduce, '):
        default_choice("halo", 4, 100)


# --- files ----------------------------------------------------------------------------------------------


def test_files(tmp_path):
    path, tuning = tmp_path / "mine.json", Tuning(8, (of("ring", "direct"),), dtype="float32", fabric="dgx-1")
    assert save_tuning(path, tuning) == path
    assert load_tuning(path) == tuning
    with pytest.raises(InputError, match="exists"):
        save_tuning(path, tuning)
    save_tuning(path, Tuning(4, ()), force=True)
    assert load_tuning(str(path)).tables == ()
    with pytest.raises(InputError, match=r"none\.json \(No such file"):
        load_tuning(tmp_path / "none.json")


def test_a_short_file_that_a_person_wrote():
    row = {"bytes": 4096, "choice": {"algorithm": "recursive", "radix": 4}, "measured_us": 7}
    head = {"format": "wavefabric tuning", "version": 1, "ranks": 8}
    text = json.dumps(head | {"tables": [{"collective": "all-gather", "sizes": [row]}]})
    tuning = tuning_from_json(text)
    assert tuning.choose("all-gather", 1) == Choice("recursive", 4, 1, "auto")
    assert tuning.tables[0].sizes[0].best.us == 7
    assert "protocol" not in tuning_to_json(tuning)  # nor radix and pieces, where they say nothing
    row["choice"]["protocol"] = "signals"
    text = json.dumps(head | {"tables": [{"collective": "all-gather", "sizes": [row]}]})
    assert tuning_from_json(text).choose("all-gather", 1) == Choice("recursive", 4, 1, "signals")


@pytest.mark.parametrize("protocol", ["packets", "signals"])
def test_execution_plans_are_for_few_ranks(protocol):
    choice = Choice("ring", protocol=protocol)
    assert refused(choice, "all-reduce", 64) is None
    assert refused(choice, "all-reduce", 73) == f"protocol: {protocol} given for 73 ranks; allowed: up to 72"
    assert refused(Choice("ring", protocol="copies"), "all-reduce", 65) is None


def test_the_choice_of_a_file_counts_not_its_candidates():
    tuning = Tuning(8, (of("ring"),))
    content = json.loads(tuning_to_json(tuning))
    content["tables"][0]["sizes"][0]["choice"] = {"algorithm": "direct"}
    size = tuning_from_json(json.dumps(content)).tables[0].sizes[0]
    assert [each.choice.algorithm for each in size.candidates] == ["direct", "ring"]


def _broken(path, value):
    """JSON text of a sound tuning with one value replaced, or left out (None)."""
    content = json.loads(
        tuning_to_json(Tuning(8, (of("ring", "direct"), of("bruck", collective="all-gather"))))
    )
    *variant, last = path
    position = content
    for key in variant:
        position = position[key]
    if value is None:
        del position[last]
    else:
        position[last] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("format",),
            "wavefabric schedule",
            'format: "wavefabric schedule" given; allowed: "wavefabric tuning"',
        ),
        (("version",), 2, "version: 2 given; allowed: 1"),
        (("version",), True, "version: true given; allowed: 1"),
        (("version",), None, "version: missing; allowed: 1"),
        (("ranks",), 0, "ranks: 0 given; allowed: from 1"),
        (("ranks",), 8.0, "ranks: 8.0 given; allowed: a whole number"),
        (("tables",), {}, "tables: {} given; allowed: a list"),
        (("tables",), None, "tables: missing"),
        (("more",), 1, "more: unknown key"),
        (("tables", 0, "collective"), "halo", 'tables[0].collective: "halo" given; allowed: all-gather, '),
        (("tables", 1, "collective"), "all-reduce", "tables[1]: all-reduce given twice; allowed: once"),
        (("tables", 0, "sizes"), [], "tables[0].sizes: none given; allowed: one or more"),
        (
            ("tables", 0, "sizes", 1, "bytes"),
            1024,
            "tables[0].sizes[1].bytes: 1024 given; allowed: more than 1024",
        ),
        (
            ("tables", 0, "sizes", 0, "bytes"),
            "1K",
            'tables[0].sizes[0].bytes: "1K" given; allowed: a whole number',
        ),
        (("tables", 0, "sizes", 0, "choice"), None, "tables[0].sizes[0].choice: missing"),
        (
            ("tables", 0, "sizes", 0, "choice", "algorithm"),
            "rings",
            'tables[0].sizes[0].choice: algorithm: "rings" given (did you mean ring?); allowed: ring, ',
        ),
        (
            ("tables", 0, "sizes", 1, "choice", "radix"),
            4,
            "tables[0].sizes[1].choice: radix: 4 given; allowed: none, direct has no radix",
        ),
        (
            ("tables", 0, "sizes", 0, "choice", "protocol"),
            "hope",
            'tables[0].sizes[0].choice: protocol: "hope" given; allowed: auto, copies, packets, signals',
        ),
        (
            ("tables", 0, "sizes", 0, "choice", "protocol"),
            3,
            "tables[0].sizes[0].choice.protocol: 3 given; allowed: text",
        ),
        (
            ("tables", 0, "sizes", 0, "candidates", 0, "protocol"),
            "LL",
            'tables[0].sizes[0].candidates[0]: protocol: "LL" given; allowed: auto, copies, packets, signals',
        ),
        (
            ("tables", 0, "sizes", 0, "candidates"),
            [{"algorithm": "ring"}, {"algorithm": "bruck"}],
            'tables[0].sizes[0].candidates[0]: collective: "all-reduce" given; allowed: all-gather',
        ),
        (
            ("tables", 0, "sizes", 0, "candidates", 0, "measured_us"),
            -1.0,
            "tables[0].sizes[0].candidates[0].measured_us: -1.0 given; allowed: from 0",
        ),
        (("tables", 0, "sizes", 0, "choise"), {}, "unknown table (did you mean [choice]?)"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(path, value, message, tmp_path):
    file = tmp_path / "bad.json"
    file.write_text(_broken(path, value))
    with pytest.raises(InputError) as refusal:
        load_tuning(file)
    assert str(refusal.value).startswith(f"{file}: ")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", "3", '{"format": NaN}', "[" * 9999, '{"a": 1, "a": 2}'])
def test_what_is_no_tuning_is_refused(text):
    with pytest.raises(InputError):
        tuning_from_json(text)
