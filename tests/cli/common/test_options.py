"""Messages name only options that the command has which shows them."""

import ast
import re
from pathlib import Path

import pytest

import wavefabric
from wavefabric.cli import app

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
            drawn = path.name in ("plot_recorded.py", "movie.py", "sweep_plots.py")
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
