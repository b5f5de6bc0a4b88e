"""What kind of result a file is, and its content."""

from __future__ import annotations

from pathlib import Path

from wavefabric.acoustics.pictures.recorded import open_recorded
from wavefabric.collectives import load
from wavefabric.collectives.tuning import load_tuning
from wavefabric.errors import InputError
from wavefabric.fabric import AnyFabric
from wavefabric.files.hdf5 import attributes, open_hdf5
from wavefabric.files.input import MOST_SCHEDULE, check_regular, naming, parse_json, read_text
from wavefabric.report.content import Content
from wavefabric.report.fibre import fibre_content, sweep_content
from wavefabric.report.plan import plan_content
from wavefabric.report.schedule import schedule_content
from wavefabric.report.training import training_content
from wavefabric.report.tuning import tuning_content
from wavefabric.report.ultrasound import ultrasound_content
from wavefabric.results import plots, read_result
from wavefabric.results.file import FORMAT
from wavefabric.results.sweeps import SweepResult

ALLOWED = "allowed: a result of a link, a sweep or ultrasound, a schedule, a tuning, a plan, JSON of train"
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class NoResult(InputError):
    """A file of something else."""


def read_content(path: Path, fabric: AnyFabric | None = None, nbytes: float = 64 << 20) -> Content:
    """The content of a file's page; schedules of so many bytes are timed on a fabric.

    InputError if it cannot be read or is damaged; `NoResult` if it is none of our results.
    """
    try:
        check_regular(path)
        with open(path, "rb") as file:
            binary = file.read(len(_SIGNATURE)) == _SIGNATURE
    except (OSError, ValueError) as error:  # of a name with a null byte ValueError
        why, allowed = getattr(error, "strerror", error), ALLOWED
        if isinstance(error, OSError) and Path(f"{path}.checkpoint").exists():
            why = "the run was interrupted, and its checkpoint is there"
            allowed = "allowed: a result; repeat the command"
        raise InputError(f"{path}: {why}; {allowed}") from None
    if binary:
        return _hdf5(path)
    with naming(path):
        facts = parse_json(read_text(path, "result", MOST_SCHEDULE), "result")
        facts = facts if isinstance(facts, dict) else {}
        match facts.get("format") or facts.get("kind"):
            case "wavefabric schedule":
                return schedule_content(load(path), fabric, nbytes)
            case "wavefabric tuning":
                return tuning_content(load_tuning(path), path.stem)
            case "wavefabric plan":
                return plan_content(facts, path.stem)
        if "work" in facts and not facts.keys().isdisjoint(("cases", "samples_per_second")):
            return training_content(facts, path.stem)
        raise NoResult(f"JSON, but no result that has a page; {ALLOWED}")


def _hdf5(path: Path) -> Content:
    with open_hdf5(path, "a result file (HDF5)") as file:
        attrs = attributes(file)
    if attrs.get("format") != FORMAT and attrs.get("file_type") not in ("output", b"output"):
        raise NoResult(f"{path}: HDF5, but no result that has a page; {ALLOWED}")
    if (recorded := open_recorded(path)) is not None:
        with recorded:
            return ultrasound_content(recorded)
    result = read_result(path)
    if "axes" in result.attrs():
        return sweep_content(SweepResult(result))
    if plots.received(result):
        return fibre_content(result)
    raise NoResult(f"{path}: holds no received signals and no recorded fields; {ALLOWED}")
