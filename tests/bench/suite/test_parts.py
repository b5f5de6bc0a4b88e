"""The parts of the suite: commands that there are, in an order, for any machine."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import typer.main
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.bench.suite import parts as module
from wavefabric.bench.suite.parts import Part, choose, command_line, counts, filled, make_parts
from wavefabric.cli import app
from wavefabric.errors import InputError

ALL = ("p2p", "nccl", "mpi-cuda", "mpi")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def commands():
    """The program's own commands, built once."""
    return typer.main.get_command(app)


def parsed(commands, words):
    """The command that these words call, and its options; Click raises for what is unknown."""
    context, command = None, commands
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, list(words))
        context = typer.Context(command, parent=context, info_name=name)
    return command, command.make_context("part", list(words), parent=context).params


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("available", [ALL, ("mpi",), ("nccl", "mpi")], ids=" ".join)
def test_every_command_is_one_of_the_program(commands, available, small):
    found = make_parts(8, available, {}, small)
    for part in found:
        words = filled([*part.arguments, *part.on_fabric], Path("out"), Path("all"), small)
        assert not any("{" in word or not word for word in words)
        _, options = parsed(commands, words)
        assert options.get("ranks") == part.ranks or (part.ranks == 1 and options.get("ranks") is None)
    names = [part.name for part in found]
    assert len(set(names)) == len(names)


def test_the_tools_of_this_test_see_a_wrong_command(commands):
    with pytest.raises(Exception, match="no-such"):
        parsed(commands, ["bench", "fibre-scaling", "--no-such", "1"])


def test_the_most_valuable_parts_come_first():
    names = [part.name for part in make_parts(8, ALL, {}, small=False)]
    most = ["fibre-8", "ultrasound-1d-8", "fibre-kernels-8", "ultrasound-kernels-8", "fabric-8"]
    assert names[:5] == most
    assert names.index("link-8") < names.index("fibre-6") < names.index("fibre-2") < names.index("cuts-8")
    for ranks in (2, 4, 6, 8):
        run = [name for name in names if name.startswith(("all-", "broad")) and name.endswith(f"-{ranks}")]
        assert len(run) == 17
        assert all(names.index(f"fabric-{ranks}") < names.index(name) for name in run)


@settings(max_examples=30)
@given(st.integers(1, 8), st.sets(st.sampled_from(ALL)).map(lambda names: names | {"mpi"}), st.booleans())
def test_any_machine_has_parts(most, available, small):
    found = make_parts(most, available, {name: "not here" for name in ALL}, small)
    assert {part.ranks for part in found} == set(counts(most))
    for part in found:
        assert 0 < part.seconds <= 600
        via = next(
            (
                part.arguments[k + 1]
                for k, word in enumerate(part.arguments)
                if word.startswith("--transport")
            ),
            "",
        )
        missing = [name for name in via.split(",") if name and name not in available]
        if missing:
            assert part.left_out == f"{missing[0]}: not here"
        else:
            # Ranks that are no product of numbers up to the radix.
            none = {"-recursive-": (3, 5, 6, 7), "-radix-4-": (5, 7)}
            refused = any(name in part.name and part.ranks in ranks for name, ranks in none.items())
            assert bool(part.left_out) == refused
            assert not refused or "allowed: products of numbers up to" in part.left_out


def test_counts_go_up_to_what_is_there():
    assert [counts(most) for most in (1, 2, 3, 8)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4, 6, 8]]


def test_cuts_in_one_two_and_three_dimensions():
    grids = {
        part.name: part.arguments[part.arguments.index("--grid") + 1]
        for part in make_parts(8, ALL, {}, small=False)
        if part.name.startswith("ultrasound-") and part.name[11:13] in ("1d", "2d", "3d")
    }
    assert grids == {
        **{f"ultrasound-1d-{k}": f"1x1x{k}" for k in (2, 4, 6, 8)},
        **{"ultrasound-2d-4": "1x2x2", "ultrasound-2d-6": "1x2x3", "ultrasound-2d-8": "1x2x4"},
        "ultrasound-3d-8": "2x2x2",
    }


def test_the_link_is_that_of_the_example():
    folder = Path(module.__file__).parent
    whole = tomllib.loads((folder / "link.toml").read_text("utf-8"))
    assert whole == tomllib.loads((ROOT / "examples" / "mdm-120-modes.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", ["link.toml", "link-small.toml"])
def test_links_can_be_run_on_all_numbers_of_ranks(name):
    from wavefabric.optics.link.build import check_ranks
    from wavefabric.optics.run_file import load

    settings = load.load(Path(module.__file__).with_name(name))
    for ranks in (2, 4, 6, 8):
        check_ranks(settings, ranks)


def test_a_fabric_is_used_once_it_is_there(tmp_path):
    plain = Part("a-2", 2, ("run",), 1, ("--fabric", "{parts}/fabric-2/fabric.toml"))
    kernel = Part("b-2", 2, ("run",), 1, (*plain.on_fabric, "--model", "kernel"))
    assert plain.words(tmp_path) == kernel.words(tmp_path) == ("run",)
    fabric = tmp_path / "fabric-2" / "fabric.toml"
    fabric.parent.mkdir()
    fabric.write_text('name = "x"\n')
    assert plain.words(tmp_path) == ("run", *plain.on_fabric)
    assert kernel.words(tmp_path) == ("run",)
    fabric.write_text("[kernels]\n")
    assert kernel.words(tmp_path) == ("run", *kernel.on_fabric)
    assert command_line(plain, tmp_path, small=True) == f"wavefabric run --fabric {fabric}"
    printing = command_line(replace(plain, prints="x.json"), tmp_path, small=True)
    assert printing.startswith(f"mkdir -p {tmp_path}/a-2 && wavefabric run")
    assert printing.endswith(f" > {tmp_path}/a-2/x.json")
    stored = command_line(replace(plain, settings=("NAME=x y",)), tmp_path, small=True)
    assert stored == f"NAME='x y' wavefabric run --fabric {fabric}"


def test_kernels_are_asked_for_by_the_environment():
    found = {part.name: part for part in make_parts(2, ALL, {}, small=False)}
    kernels = [part for part in found.values() if part.settings]
    assert {part.name for part in kernels} == {
        f"{name}-2" for name in ("fibre-kernels", "ultrasound-kernels", "local-vs-global-kernels")
    }
    for part in kernels:
        assert part.settings == ("WAVEFABRIC_PROTOCOL=signals",)
        assert part.arguments[0] == "bench"


def test_parts_by_name_and_pattern():
    found = make_parts(2, ("mpi",), {}, small=True)
    assert [part.name for part in choose(found, ["fibre-2"], [])] == ["fibre-2"]
    chosen = [
        part.name for part in choose(found, ["fibre-*", "cuts-2"], ["*step*", "fibre-mpi*", "*kernels*"])
    ]
    assert chosen == ["fibre-2", "cuts-2"]
    assert choose(found, [], []) == found
    for only, skip, key in ((["fiber-*"], [], "--only"), ([], ["nothing"], "--skip")):
        with pytest.raises(InputError, match=f"{key}: .* given, which is no part"):
            choose(found, only, skip)


def value(part, option, default=None):
    """What an option of a part's command says."""
    given = [part.arguments[k + 1] for k, word in enumerate(part.arguments) if word == option]
    return given if default is list else given[0] if given else default


@pytest.mark.parametrize("small", [False, True])
def test_grids_can_be_divided_among_the_ranks(small):
    from wavefabric.acoustics.decomposition.decompose import Options, decompose
    from wavefabric.cli.bench.app import parse_blocks, parse_points

    tried = 0
    for part in make_parts(8, ALL, {}, small):
        command = part.arguments[1]
        if part.ranks == 1 or command not in ("ultrasound-scaling", "local-vs-global"):
            continue
        grid = value(part, "--grid")
        blocks = None if grid is None else parse_blocks(grid)
        shapes = [parse_points(size) for size in value(part, "--size", list)]
        if command == "ultrasound-scaling":
            shapes = [tuple(int(value(part, "--block")) * count for count in blocks)]
            shapes += [(int(value(part, "--total")),) * 3]
        for shape in shapes:
            for options in (Options("local", blocks, int(value(part, "--overlap", 16))), Options()):
                assert decompose(shape, part.ranks, options).ranks == part.ranks
                tried += 1
    assert tried > 80
