"""What kind of result a file or folder is, and its content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.errors import InputError
from wavefabric.files.input import MOST_SCHEDULE, check_regular, naming, parse_json, read_text
from wavefabric.report.content import Content

if TYPE_CHECKING:
    from wavefabric.fabric import AnyFabric
    from wavefabric.results import Result

ALLOWED = "a result of a fibre link, a sweep or ultrasound (HDF5), a schedule, a tuning, a plan or a result of train (JSON), or a folder"
SUFFIXES = (".h5", ".hdf5", ".json")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class Setting:
    """What schedules are timed on, and the bytes of their whole array."""

    fabric: AnyFabric | None = None
    nbytes: float = 64 << 20


def read_content(path: Path, setting: Setting) -> Content:
    """The content of the page of a file; InputError in one line if it is damaged, or none of our results."""
    if _is_hdf5(path):
        return _hdf5(path)
    content = parse_json(read_text(path, "result", MOST_SCHEDULE), f"{path}")
    if not isinstance(content, dict):
        raise InputError(f"{path}: JSON, but no result; allowed: {ALLOWED}")
    with naming(path):
        return _json(content, path, setting)


def _is_hdf5(path: Path) -> bool:
    try:
        check_regular(path)
        with open(path, "rb") as file:
            return file.read(len(_SIGNATURE)) == _SIGNATURE
    except OSError as error:
        fault = f"{path} ({error.strerror})"
        if Path(f"{path}.checkpoint").exists():
            fault = f"{path} is not there, but its checkpoint is: the run was interrupted, the same command goes on"
        raise InputError(f"result: {fault}; allowed: {ALLOWED}") from None
    except ValueError:
        raise InputError(f"result: not the name of a file; allowed: {ALLOWED}") from None


def _hdf5(path: Path) -> Content:
    from wavefabric.acoustics.pictures.recorded import open_recorded

    if (recorded := open_recorded(path)) is not None:
        from wavefabric.report.ultrasound import ultrasound_content

        with recorded:
            return ultrasound_content(recorded)
    from wavefabric.report.fibre import fibre_content, sweep_content
    from wavefabric.results import plots, read_result
    from wavefabric.results.sweeps import SweepResult

    result = read_result(path)
    if "axes" in result.attrs():
        return sweep_content(SweepResult(result))
    return fibre_content(result) if plots.received(result) else _other(result)


def _other(result: Result) -> Content:
    """A result of another kind: what it holds."""
    from wavefabric.report.content import pairs
    from wavefabric.report.figures import pairs_table, table

    content = Content("result", result.path.stem, f"Holds {len(result)} datasets")
    rows = [(key, *(str(result.attrs(key).get(name, "")) for name in ("units", "description"))) for key in result]
    content.add("Datasets", table(("name", "unit", "what it is"), rows))
    content.add("Provenance", pairs_table(pairs(result.attrs())))
    return content


def _json(content: dict[str, Any], path: Path, setting: Setting) -> Content:
    form, kind = content.get("format"), content.get("kind")
    if form == "wavefabric schedule":
        from wavefabric.collectives import load
        from wavefabric.report.schedule import schedule_content

        return schedule_content(load(path), setting.fabric, setting.nbytes)
    if form == "wavefabric tuning":
        from wavefabric.collectives.tuning import load_tuning
        from wavefabric.report.tuning import tuning_content

        return tuning_content(load_tuning(path), path.stem)
    if kind == "wavefabric plan":
        from wavefabric.report.plan import plan_content

        return plan_content(content, path.stem)
    if "work" in content and ("cases" in content or "samples_per_second" in content):
        from wavefabric.report.training import training_content

        return training_content(content, path.stem)
    raise InputError(f"no result that has a page; allowed: {ALLOWED}")
