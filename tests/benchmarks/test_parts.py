"""The parts of the suite: commands that there are, in an order, for any machine."""

import re
from dataclasses import replace
from itertools import pairwise

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import benchmarks.__main__  # noqa: F401 (adds its commands)
from benchmarks.parts import COUNTS, ROOT, Part, choose, filled, make_parts
from wavefabric.base.errors import InputError
from wavefabric.cli import app

ALL = ("p2p", "nccl", "mpi-cuda", "mpi")


def transports(available):
    return {name: {"available": name in available, "detail": "not here"} for name in ALL}


def parsed(words):
    """The options of the command that these words call; Click raises for what is unknown."""
    program = click.Context(app)
    name, command, words = app.resolve_command(program, list(words))
    return command.make_context(name, words, program).params


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("available", [ALL, ("mpi",), ("nccl", "mpi")], ids=" ".join)
def test_every_command_is_one_of_the_program(tmp_path, available, small):
    result = make_parts(8, transports(available), small)
    for part in result:
        words = filled(part.now(tmp_path, complete=True), tmp_path / "out", tmp_path, ["wavefabric"])
        assert not any("{" in word or not word for word in words)
        words = words[words.index("wavefabric") + 1 :]
        assert part.ranks == 1 or parsed(words)["ranks"] == part.ranks
        copies = "-copies-" in part.name or re.match("all-(reduce|gather)-(?!.*-kernels)", part.name)
        assert part.line(tmp_path).startswith("WAVEFABRIC_PROTOCOL=copies ") == bool(copies)
    assert len({part.name for part in result}) == len(result)
    with pytest.raises(Exception, match="no-such"):
        parsed(["bench", "fibre-scaling", "--no-such", "1"])


def test_the_most_valuable_parts_come_first():
    names = [part.name for part in make_parts(8, transports(ALL), small=False)]
    assert names[:5] == ["fibre-8", "ultrasound-1d-8", "fibre-copies-8", "ultrasound-copies-8", "fabric-8"]
    assert names.index("link-8") < names.index("fibre-6") < names.index("fibre-2") < names.index("cuts-8")
    for ranks in (2, 4, 6, 8):
        run = [name for name in names if name.startswith(("all-", "broad")) and name.endswith(f"-{ranks}")]
        assert len(run) == 17
        assert all(names.index(f"fabric-{ranks}") < names.index(name) for name in run)


@settings(max_examples=30)
@given(st.integers(1, 8), st.sets(st.sampled_from(ALL)).map(lambda names: names | {"mpi"}), st.booleans())
def test_any_machine_has_parts(most, available, small):
    result = make_parts(most, transports(available), small)
    assert {part.ranks for part in result} == {*(count for count in COUNTS if count < most), most}
    for part in result:
        assert 0 < part.seconds <= 600
        via = [word for last, word in pairwise(part.words) if "--transport" in last]
        missing = [name for words in via for name in words.split(",") if name not in available]
        # Ranks that are no product of numbers up to the radix.
        none = {"-recursive-": (3, 5, 6, 7), "-radix-4-": (5, 7)}
        refused = any(name in part.name and part.ranks in ranks for name, ranks in none.items())
        if missing:
            assert part.left_out == f"{missing[0]}: not here"
        else:
            assert ("allowed: products of numbers up to" in part.left_out) == refused == bool(part.left_out)


def test_cuts_in_one_two_and_three_dimensions():
    grids = {
        part.name[11:]: part.words[part.words.index("--grid") + 1]
        for part in make_parts(8, transports(ALL), small=False)
        if part.name[:14] in ("ultrasound-1d-", "ultrasound-2d-", "ultrasound-3d-")
    }
    assert grids == {f"1d-{k}": f"1x1x{k}" for k in (2, 4, 6, 8)} | {
        **{"2d-4": "1x2x2", "2d-6": "1x2x3", "2d-8": "1x2x4", "3d-8": "2x2x2"},
    }


@pytest.mark.parametrize("small", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sizes_can_be_divided_among_the_ranks(small, tmp_path):
    from benchmarks.ultrasound_breakdown import parse_blocks
    from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
    from wavefabric.cli.bench.app import parse_points
    from wavefabric.optics.link.build import check_start
    from wavefabric.optics.run_file import load

    tried = 0
    for part in make_parts(8, transports(ALL), small):
        words = [*part.words]
        values = {last: word for last, word in pairwise(words) if last.startswith("--")}
        blocks = parse_blocks(values["--grid"]) if "--grid" in values else None
        shapes = []
        if part.ranks > 1 and "ultrasound-scaling" in words:
            shapes = [
                tuple(int(values["--block"]) * count for count in blocks),
                (int(values["--total"]),) * 3,
            ]
        elif part.ranks > 1 and "local-vs-global" in words:
            shapes = [parse_points(word) for last, word in pairwise(words) if last == "--size"]
        for shape in shapes:
            for options in (
                Decomposition("local", blocks, int(values.get("--overlap", 16))),
                Decomposition(),
            ):
                assert decompose(shape, part.ranks, options).ranks == part.ranks
                tried += 1
        if words[0] == "run":
            check_start(load.load(words[1].replace("{root}", str(ROOT))), part.ranks)
    assert tried > 80


def test_a_fabric_is_used_once_it_is_there(tmp_path):
    plain = Part("a-2", 2, ("run",), 1, ("--fabric", "{parts}/fabric-2/fabric.toml"))
    kernel = Part("b-2", 2, ("run",), 1, (*plain.on_fabric, "--model", "kernel"))
    assert plain.now(tmp_path) == kernel.now(tmp_path) == ("run",)
    fabric = tmp_path / "fabric-2" / "fabric.toml"
    fabric.parent.mkdir()
    for text, both in (('name = "x"\n', False), ("[kernels]\n", True)):
        fabric.write_text(text)
        assert plain.now(tmp_path) == ("run", *plain.on_fabric)
        assert kernel.now(tmp_path) == ("run", *(kernel.on_fabric if both else ()))
    assert plain.line(tmp_path) == f"wavefabric run --fabric {fabric}"
    printing = replace(plain, prints="x.json").line(tmp_path)
    assert printing.startswith(f"mkdir -p {tmp_path}/a-2 && wavefabric run")
    assert printing.endswith(f" > {tmp_path}/a-2/x.json")


def test_parts_by_name_and_pattern():
    result = make_parts(2, transports(("mpi",)), small=True)
    chosen = choose(result, ["fibre-*", "cuts-2"], ["*step*", "fibre-mpi*", "*copies*"])
    assert [part.name for part in chosen] == ["fibre-2", "cuts-2"]
    assert choose(result, [], []) == result
    for only, skip, key in ((["fiber-*"], [], "--only"), ([], ["nothing"], "--skip")):
        with pytest.raises(InputError, match=f"{key}: .* given, which is no part"):
            choose(result, only, skip)
