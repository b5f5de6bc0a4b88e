"""What the commands of ``commands.txt`` put out: exit codes, JSON, and datasets of files, as hashes."""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

HERE = Path(__file__).parent
FOLDERS = {
    "kwave": HERE.parent / "data" / "kwave",
    "data": HERE.parent / "data",
    "examples": HERE.parents[1] / "examples",
    "goldens": HERE,
}
#: Names of when and where something was done, which differ from one call to the next.
_ALWAYS = re.compile(
    r"^run$|fingerprint|utc|checkpoint$|date|created|host|version|commit|processor|python|platform|user"
)
#: Besides, of what a run took; and the commands that run or search. What others print of times they predict.
_TAKEN = re.compile(rf"{_ALWAYS.pattern}|second|time|memory|_ms\b|ms_per|device_bytes|rate$")
_RUNNING = (
    "run",
    "sweep",
    "kwave",
    "transcranial",
    "report",
    "info",
    "bench",
    "make",
    "tune",
    "measure",
    "routes",
)
#: Longest that a command may take, s.
_LONGEST = 600


class Command(NamedTuple):
    """A line of ``commands.txt``."""

    words: list[str]
    ranks: int
    timed: bool
    refused: bool
    unsure: bool

    @property
    def text(self) -> str:
        """The command as it is typed."""
        return shlex.join(self.words)

    @property
    def volatile(self) -> re.Pattern[str]:
        """Names of what is not compared."""
        return _TAKEN if set(self.words[:2]) & set(_RUNNING) or self.timed else _ALWAYS


class Output(NamedTuple):
    """What one command put out, by name: files with their parts, standard output, exit code."""

    parts: dict[str, str]


@cache
def groups() -> dict[str, list[Command]]:
    """Commands by group, in their order."""
    result: dict[str, list[Command]] = {}
    lines = (HERE / "commands.txt").read_text().splitlines()
    for line in filter(lambda line: line and not line.startswith("#"), lines):
        if group := re.fullmatch(r"\[(.+)\]", line):
            commands = result.setdefault(group[1], [])
            continue
        ranks, mark, words = re.fullmatch(r"(?:(\d+): )?([~!?]?)(.+)", line).groups()
        words = shlex.split(words.format(**FOLDERS))
        commands.append(Command(words, int(ranks or 1), mark == "~", mark == "!", mark == "?"))
    return result


def environment(source: Path) -> dict[str, str]:
    """Return the environment of a command that the code of a tree runs."""
    return os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def run_group(name: str, source: Path, folder: Path) -> dict[str, Output]:
    """Run the commands of a group in a new folder, with the code of a tree."""
    folder.mkdir(parents=True)
    result: dict[str, Output] = {}
    for number, command in enumerate(groups()[name]):
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
        launch = ["mpiexec", "-n", str(command.ranks)] * (command.ranks > 1)
        script = command.words[0] == "python"
        words = command.words[1:] if script else ["-m", "wavefabric", *command.words]
        ended = subprocess.run(
            [*launch, sys.executable, *words], cwd=folder, env=environment(source), capture_output=True,
            text=True, timeout=_LONGEST, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        parts: dict[str, str] = {}
        if command.unsure:
            result[f"{name} {number + 1}: {command.text}"] = Output(parts)
            continue
        parts["exit code"] = str(ended.returncode)
        if ended.returncode not in (0, 2 if command.refused else 0):
            parts["error"] = ended.stderr[-1000:]
        if command.refused:
            line = ended.stderr.strip().rpartition("\n")[2]
            parts["line"] = line.replace(str(HERE.parents[1]), "").replace(str(source), "")
        if script and not command.timed:
            parts["printed"] = _digest(ended.stdout.encode())
        if "--json" in command.words and ended.returncode == 0:
            parts |= _of_json("stdout", ended.stdout, command)
        for path in sorted(folder.rglob("*")):
            if path.is_file() and before.get(path) != path.stat().st_mtime_ns:
                parts |= _of_file(path, str(path.relative_to(folder)), command)
        result[f"{name} {number + 1}: {command.text}"] = Output(parts)
    return result


def compared(one: dict[str, Output], two: dict[str, Output]) -> list[str]:
    """Lines that name what differs."""
    lines = []
    for name in sorted(one.keys() | two.keys()):
        a, b = (each.get(name, Output({})).parts for each in (one, two))
        differ = [part for part in sorted(a.keys() | b.keys()) if a.get(part) != b.get(part)]
        lines += [f"{name}\n    {part}: {a.get(part)} → {b.get(part)}" for part in differ[:5]]
        lines += [f"    and {len(differ) - 5} more"] * (len(differ) > 5)
    return lines


def _of_file(path: Path, name: str, command: Command) -> dict[str, str]:
    """Hashes of the parts of a file: of HDF5 datasets and attributes, of JSON; of others that it is there."""
    if h5py.is_hdf5(path):
        return _of_hdf5(path, name, command.volatile)
    text = path.read_bytes()
    if path.suffix == ".json":
        return _of_json(name, text.decode(), command)
    if path.suffix in (".xml", ".toml") and not command.timed:
        return {name: _digest(text)}
    return {name: "is there" if text else "is empty"}


def _of_hdf5(path: Path, name: str, volatile: re.Pattern[str]) -> dict[str, str]:
    parts = {}

    def visit(key: str, item: Any) -> None:
        for attribute, value in item.attrs.items():
            if not volatile.search(f"{key}/{attribute}".lower()):
                parts[f"{name}:{key}@{attribute}"] = _digest(repr(np.asarray(value).tolist()).encode())
        if isinstance(item, h5py.Dataset) and not volatile.search(key.lower()):
            array = np.asarray(item[()])
            content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
            parts[f"{name}:{key}"] = f"{array.dtype} {array.shape} {_digest(content)}"

    with h5py.File(path) as file:
        file.visititems(visit)
    return parts


def _of_json(name: str, text: str, command: Command) -> dict[str, str]:
    try:
        value = json.loads(text)
    except ValueError:
        return {name: f"no JSON: {text[:200]}"}
    leaves = dict(_leaves(value, command))
    if len(leaves) > 2000:  # schedules, timelines
        return {name: _digest(repr(sorted(leaves.items())).encode())}
    return {f"{name}:{key}": each for key, each in leaves.items()}


def _leaves(value: Any, command: Command, key: str = "") -> Any:
    """Names and values in JSON; of what is timed names and types, of lists one entry."""
    if isinstance(value, dict):
        for name, each in value.items():
            if not command.volatile.search(name.lower()):
                yield from _leaves(each, command, f"{key}.{name}")
    elif isinstance(value, list):
        for number, each in enumerate(value[:1] if command.timed else value):
            yield from _leaves(each, command, f"{key}[{number}]")
    else:
        yield key, type(value).__name__ if command.timed else repr(value)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
