"""Messages name only options that the command has which shows them."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest

import wavefabric
from wavefabric.cli import app
from wavefabric.cli.common.options import Group, argument, option, register
from wavefabric.cli.common.options import options as options_class

ROOT = Path(wavefabric.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
#: What a module of the command line belongs to; "a b" stands for the subcommand b of a.
COMMANDS = {
    **{name: [name] for name in ("kwave", "run", "plot", "info")},
    "run_fibre": ["run"],
    "common/decomposition": ["run", "kwave"],
    "common/ranks": ["run", "kwave"],
    **{
        f"collective/{name}": [f"collective {name}"]
        for name in ("make", "verify", "cost", "draw", "export", "run")
    },
    **{f"fabric/{name}": [f"fabric {name}"] for name in ("show", "routes", "measure")},
}


def options(command, name=""):
    """Options by name of the command."""
    result = {name: {word for p in command.params for word in (*p.opts, *p.secondary_opts)}}
    for word in getattr(command, "commands", ()):
        result |= options(command.get_command(None, word), f"{name} {word}".strip())
    return result


def raised(path):
    """Options in the texts of the errors that a module raises, with their line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("InputError", "MissingExtra"):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    for word in OPTION.findall(part.value):
                        yield word, part.lineno


def check(path, allowed, all_of):
    for word, line in raised(path):
        having = [word in names for names in allowed]
        assert all(having) if all_of else any(having), f"{path.name}:{line}: {word}"


ALL = options(app)


CLI = ROOT / "cli"


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda path: str(path.relative_to(CLI)))
def test_options_of_a_command(path):
    name = path.relative_to(CLI).with_suffix("").as_posix()
    if name in COMMANDS:
        check(path, [ALL[command] for command in COMMANDS[name]], all_of=True)
    else:  # shared by the commands of a group, or by all
        group = name.partition("/")[0]
        shared = [result for command, result in ALL.items() if command.startswith(group)]
        check(path, shared or list(ALL.values()), all_of=False)


def test_options_that_simulations_name():
    """What `run`, `kwave` and Python share says nothing that one of them does not have."""
    for package in ("acoustics", "optics", "results", "device", "exchange", "spectral"):
        for path in sorted((ROOT / package).rglob("*.py")):
            drawn = path.name in ("plot_recorded.py", "movie.py", "figures.py")
            own = [ALL["plot"]] if drawn else [ALL["sweep"]] if path.parent.name == "sweeps" else []
            check(path, own or [ALL["run"], ALL["kwave"]], all_of=True)


def test_options_of_benchmarks_and_fabrics():
    for package in ("bench", "fabric", "collectives"):
        for path in sorted((ROOT / package).rglob("*.py")):
            check(
                path, [result for name, result in ALL.items() if name not in ("run", "kwave")], all_of=False
            )


def test_no_resume_is_named_where_it_is_an_option(command, run_text, tmp_path):
    (tmp_path / "run.toml").write_text(run_text)
    (tmp_path / "run.h5.checkpoint").write_bytes(b"not a checkpoint")
    code, _, err = command("run", "run.toml", "--device", "cpu")
    assert code == 2
    assert err.endswith("; remove it to start anew (--no-resume)\n")


@options_class("Shapes")
class ShapeOptions:
    """Options of every type."""

    sizes: list[int] | None = option("Sizes.", "--size", "-s")
    kind: Literal["round", "flat"] | None = option("Kind.")
    draw: bool | None = option("Draw.", "--draw/--no-draw")
    seed: int = option("Seed.", default=0)
    depth: float = option("Depth.", default=1.5, panel="Depths")
    word: str = option("{this_module_is_absent:WORDS}.", default="even")
    plain: int = 7


@pytest.fixture
def called(capsys):
    """Call a command of all kinds of parameters; gives what its function was given, or what was printed."""
    calls = []

    def command(files: Annotated[list[Path], argument("Files.", "FILE...")], shape: ShapeOptions) -> None:
        """Do it."""
        calls.append((files, shape))

    group = Group("group", context_settings={"help_option_names": ["-h", "--help"]})
    register(group, "do", command)

    def call(*words):
        group.main(["do", *words], standalone_mode=False)
        return calls.pop() if calls else capsys.readouterr().out

    return call


def test_a_command_is_called_with_its_classes(called):
    assert called("a", "b") == ([Path("a"), Path("b")], ShapeOptions())
    words = ("-s", "2", "--size", "3", "--kind", "flat", "--no-draw", "--seed", "4", "--depth", "2")
    expected = ShapeOptions(sizes=[2, 3], kind="flat", draw=False, seed=4, depth=2.0)
    assert called("a", *words) == ([Path("a")], expected)


def test_words_of_the_library_are_imported_for_help_and_to_check(called):
    assert called("a", "--word", "even")[1].word == "even"
    for words in (("a", "--word", "odd"), ("--help",)):
        with pytest.raises(ModuleNotFoundError, match="this_module_is_absent"):
            called(*words)


def test_help_has_sections_and_defaults(called, monkeypatch):
    monkeypatch.setitem(sys.modules, "this_module_is_absent", type("", (), {"WORDS": ("even", "odd")}))
    lines = [line.split() for line in called("-h").splitlines()]
    titles = [" ".join(words) for words in lines if words and words[-1].endswith(":")]
    assert titles == ["Arguments:", "Options:", "Shapes:", "Depths:"]
    for text in ("FILE... Files.", "Seed. [default: 0]", "Depth. [default: 1.5]", "odd. [default: even]"):
        assert any(text in " ".join(words) for words in lines), text
    assert not any("plain" in word for words in lines for word in words)


STARTED = {"numpy", "pydantic", "rich", "asyncio", "difflib", "tempfile", "subprocess", "shutil", "http"}
SHARED = {
    f".common.{path.stem}": {"numpy", "h5py", "pydantic", "rich"} for path in CLI.glob("common/[a-z]*.py")
}


@pytest.mark.parametrize(("module", "heavy"), [("", STARTED), *sorted(SHARED.items())])
def test_what_commands_share_imports_nothing_heavy(module, heavy):
    program = f"import sys, wavefabric.cli{module}; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
