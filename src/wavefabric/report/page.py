"""Write HTML report pages: one about a single result, or one per result in a folder and an index."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wavefabric import __version__, collectives
from wavefabric.acoustics.pictures.recorded import open_recorded
from wavefabric.base.errors import InputError
from wavefabric.base.files.hdf5 import attributes, open_hdf5, plain, reading
from wavefabric.base.files.input import MOST_SCHEDULE, begins_as_hdf5, naming, parse_json, read_text
from wavefabric.base.files.output import check_output, write_text
from wavefabric.base.results import read_result
from wavefabric.base.results.file import FORMAT
from wavefabric.base.results.provenance import stamp
from wavefabric.collectives.tuning import load_tuning
from wavefabric.fabric import AnyFabric, load
from wavefabric.optics.link.received_signals import received
from wavefabric.optics.sweeps.result import SweepResult
from wavefabric.report.content import BAD, Content
from wavefabric.report.fibre import fibre_content, sweep_content
from wavefabric.report.figures import environment
from wavefabric.report.plan import plan_content
from wavefabric.report.schedule import schedule_content
from wavefabric.report.training import training_content
from wavefabric.report.tuning import tuning_content
from wavefabric.report.ultrasound import ultrasound_content

ALLOWED = "allowed: a result of a link, a sweep or ultrasound, a schedule, a tuning, a plan, JSON of train"
_RESULTS, _OTHERS = (".h5", ".hdf5", ".json"), (".png", ".svg", ".pdf", ".gif", ".html", ".md")


@dataclass(frozen=True)
class ReportPages:
    """Holds the paths of written pages, main page first, and the contents of all pages but the index."""

    pages: tuple[Path, ...]
    contents: tuple[Content, ...]


def write_report(
    path: str | Path,
    output: str | Path | None = None,
    force: bool = False,
    fabric: str | None = None,
    nbytes: float = 64 << 20,
) -> ReportPages:
    """Write one self-contained HTML page about a result; for a folder a page per result, and an index.

    ``path`` is a result of a fibre link, a sweep or ultrasound (HDF5), a schedule, a tuning, a plan or the
    output of ``wavefabric train --json`` (JSON); or a folder of these. ``output`` is the page or the index,
    by default next to the result, and ``index.html`` in a folder; ``force`` replaces pages. Schedules are
    timed for ``nbytes`` bytes on a ``fabric`` (name or file). `InputError` if there is no result, or a page
    exists or cannot be written; then none is written.
    """
    path, timed = Path(path), (None if fabric is None else load(fabric), nbytes)
    whole = path.is_dir()
    index = _check(
        output or (path / "index.html" if whole else path.with_name(f"{plain(path.stem)}.html")), force, path
    )
    if whole:
        pages, contents = _folder(path, index, force, timed)
    else:
        contents = [read_content(path, *timed)]
        pages = {index: _render("result.html", contents[0])}
    for target, words in pages.items():
        write_text(target, words, "--output", force)
    return ReportPages(tuple(pages), tuple(contents))


def _check(target: str | Path, force: bool, source: Path) -> Path:
    return check_output(target, force, "--output", inputs=[source], endings=(".html",))


def _folder(
    path: Path, index: Path, force: bool, timed: tuple[AnyFabric | None, float]
) -> tuple[dict[Path, str], list[Content]]:
    """Return the HTML of a folder's pages by path, the index first, and the contents of the results."""
    contents: dict[Path, Content] = {}
    files = sorted(path.iterdir())
    for file in (each for each in files if each.suffix.lower() in _RESULTS and each.is_file()):
        try:
            contents[file] = read_content(file, *timed)
        except NoResult:
            continue
        except InputError as error:
            contents[file] = Content("damaged", file.name, str(error).removeprefix(f"{file}: "), BAD)
    if not contents:
        raise InputError(f"{path}: no result in this folder; {ALLOWED}")
    # Pages of results with the same stem, or with the index's stem, keep the file's ending in their names.
    stems = Counter([index.stem, *(file.stem for file in contents)])
    names = {file: plain(f"{file.stem if stems[file.stem] == 1 else file.name}.html") for file in contents}
    targets = {file: _check(index.parent / name, force, file) for file, name in names.items()}
    cards = [(content, quote(names[file])) for file, content in contents.items()]
    made = {target.resolve() for target in (index, *targets.values())}
    beside = [each for each in files if each.suffix.lower() in _OTHERS and each.resolve() not in made]
    others = [(each.name, quote(os.path.relpath(each, index.parent))) for each in beside]
    listed = Content(f"{len(cards)} results", path.resolve().name)
    pages = {index: _render("index.html", listed, cards=cards, others=others)}
    back = quote(index.name)
    pages |= {targets[file]: _render("result.html", each, back) for file, each in contents.items()}
    return pages, list(contents.values())


def _render(template: str, content: Content, back: str = "", **words: Any) -> str:
    footer = f"wavefabric {__version__}, page written {stamp()}"
    return plain(environment().get_template(template).render(c=content, back=back, footer=footer, **words))


class NoResult(InputError):
    """Raised for a file that is not a result."""


def read_content(path: Path, fabric: AnyFabric | None = None, nbytes: float = 64 << 20) -> Content:
    """Return the content of a file's page; schedules are timed for ``nbytes`` bytes on ``fabric``.

    `InputError` if the file cannot be read or is damaged; `NoResult` if it is no result of Wavefabric.
    """
    try:
        binary = begins_as_hdf5(path)
    except OSError as error:
        begun = "the run was interrupted, and its checkpoint is there; allowed: a result; repeat the command"
        why = begun if Path(f"{path}.checkpoint").exists() else f"{error.strerror}; {ALLOWED}"
        raise InputError(f"{path}: {why}") from None
    with reading(path):
        return _hdf5(path) if binary else _json(path, fabric, nbytes)


def _json(path: Path, fabric: AnyFabric | None, nbytes: float) -> Content:
    with naming(path):
        content = parse_json(read_text(path, "result", MOST_SCHEDULE), "result")
        content = content if isinstance(content, dict) else {}
        match content.get("format") or content.get("kind"):
            case "wavefabric schedule":
                return schedule_content(collectives.load(path), fabric, nbytes)
            case "wavefabric tuning":
                return tuning_content(load_tuning(path), path.stem)
            case "wavefabric plan":
                return plan_content(content, path.stem)
        if "work" in content and not content.keys().isdisjoint(("cases", "samples_per_second")):
            return training_content(content, path.stem)
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
    if received(result):
        return fibre_content(result)
    raise NoResult(f"{path}: holds no received signals and no recorded fields; {ALLOWED}")
