"""What is known of parts that were run: a record each beside its results."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import wavefabric
from wavefabric.bench.suite.parts import Part
from wavefabric.errors import InputError
from wavefabric.files.input import read_bytes
from wavefabric.files.output import replacing, sync_folder

DONE, FAILED, INTERRUPTED = "done", "failed", "interrupted"
#: Not of the program that measures: how it is started, and how results are put together.
_OUTSIDE = ("cli", "bench/suite")
#: What is kept of `wavefabric info`.
MACHINE = ("wavefabric", "git_commit", "python", "system", "cpu", "gpus", "driver", "cuda", "transports")
MACHINE += ("links", "versions")


@dataclass(frozen=True)
class PartRecord:
    """How a part was run and how it ended; times in s."""

    name: str
    arguments: list[str]
    #: As it can be typed.
    command: str
    #: `DONE`, `FAILED` or `INTERRUPTED`.
    state: str
    exit_code: int
    seconds: float
    started_utc: str
    #: `program_version` then.
    program: str
    #: What `wavefabric info` says.
    machine: dict[str, Any]
    #: Why it failed, and the last lines of its log.
    why: str = ""
    said: list[str] = field(default_factory=list)

    def differs(self, part: Part, parts: Path, machine: dict[str, Any]) -> str:
        """What is not as it would be now: command, version of the program, kind of devices; "" if all is."""
        same = {
            "command": self.arguments == list(part.words(parts)),
            "version": self.program == program_version(),
            "kind of device": devices(self.machine) == devices(machine),
        }
        return " and ".join(f"another {what}" for what, alike in same.items() if not alike)


@cache
def program_version() -> str:
    """Version and a hash of all sources but those of the command line and of the suite."""
    root = Path(wavefabric.__file__).parent
    total = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".cu", ".toml")):
        name = path.relative_to(root).as_posix()
        if path.suffix == ".toml" or not name.startswith(tuple(f"{folder}/" for folder in _OUTSIDE)):
            total.update(f"{name}\0".encode() + path.read_bytes())
    return f"{wavefabric.__version__} {total.hexdigest()[:16]}"


def devices(machine: dict[str, Any]) -> list[str]:
    """Models of the GPUs, each once; without any, of the processor."""
    gpus = sorted({gpu["model"] for gpu in machine.get("gpus", ())})
    return gpus or [machine.get("cpu", {}).get("model", "")]


def record_path(parts: Path, name: str) -> Path:
    """Where the record of a part lies."""
    return parts / f"{name}.json"


def read_record(parts: Path, name: str) -> PartRecord | None:
    """The record of a part, None if there is none that can be read."""
    try:
        found = PartRecord(**json.loads(read_bytes(record_path(parts, name))))
        whole = found.state != DONE or (parts / name).is_dir()
        return found if found.name == name and whole else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def write_record(parts: Path, record: PartRecord) -> None:
    """Write it whole or not at all."""
    write_json(record_path(parts, record.name), asdict(record))


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def keep(parts: Path, made: Path, record: PartRecord) -> None:
    """Put the folder that a part has made in the place of its former one, with its record.

    Whatever moment this is killed at, a record is never beside results of another run.
    """
    record_path(parts, record.name).unlink(missing_ok=True)
    shutil.rmtree(parts / record.name, ignore_errors=True)
    made.rename(parts / record.name)
    sync_folder(parts)
    write_record(parts, record)


def read_result(parts: Path, name: str, file: str) -> dict[str, Any] | None:
    """JSON of a part that is done; None if there is none."""
    record = read_record(parts, name)
    if record is None or record.state != DONE:
        return None
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(read_bytes(parts / name / file))
        return found if isinstance(found, dict) else None
    return None


def read_settings(root: Path) -> dict[str, Any] | None:
    """What the suite in a folder was started with: ``ranks``, ``small``, ``machine``; None for a new folder.

    Raises
    ------
    InputError
        If the folder holds other things.
    """
    path = root / "suite.json"
    try:
        found = json.loads(read_bytes(path))
        whole = isinstance(found["ranks"], int) and isinstance(found["small"], bool)
        if whole and set(MACHINE) <= found["machine"].keys():
            return found
    except FileNotFoundError:
        others = root.is_dir() and any(path.suffix != ".lock" for path in root.iterdir())
        if not root.exists() or (root.is_dir() and not others):
            return None
        given = f"{root} holds no results of a suite"
        raise InputError(f"--output: {given}; allowed: a new or empty folder, or that of a suite") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise InputError(f"--output: {path} cannot be read; allowed: a new or empty folder, or that of a suite")
