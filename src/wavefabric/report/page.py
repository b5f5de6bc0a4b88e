"""Pages written: of one result, or of all in a folder with an index."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import wavefabric
from markupsafe import Markup
from wavefabric.errors import InputError
from wavefabric.fabric import load
from wavefabric.files.output import check_output, write_text
from wavefabric.report.content import Content
from wavefabric.report.figures import environment, stacked
from wavefabric.report.recognise import ALLOWED, SUFFIXES, Setting, read_content
from wavefabric.report.suite import FILE as SUITE
from wavefabric.report.suite import suite_content
from wavefabric.results.provenance import stamp

#: Other files that an index leads to.
_PICTURES = (".png", ".svg", ".pdf", ".gif", ".html", ".md")
#: Results of one folder, at most.
_MOST = 200


@dataclass(frozen=True)
class Report:
    """Pages that were written, the one to open first, and what each says."""

    pages: tuple[Path, ...]
    contents: tuple[Content, ...]


def write_report(
    path: str | Path,
    output: str | Path | None = None,
    force: bool = False,
    fabric: str | None = None,
    nbytes: float = 64 << 20,
) -> Report:
    """Write one HTML page about a result, with everything inside; of a folder one a result, and an index.

    Parameters
    ----------
    path : path
        A result of a fibre link, a sweep or ultrasound (HDF5), a schedule, a tuning, a plan or what ``wavefabric
        train --json`` printed (JSON); a folder of these, or of the benchmark suite.
    output : path, optional
        The page, ending in ``.html``; by default beside the result, of its name. Of a folder the index, by
        default ``index.html`` in it; the other pages lie beside the index.
    force : bool, optional
        Replace pages that are there.
    fabric : str, optional
        Fabric, name or file, on which schedules are timed.
    nbytes : float, optional
        Of the whole array of schedules.

    Returns
    -------
    Report
        The pages, first the one to open.

    Raises
    ------
    InputError
        If there is no result, or a page exists or cannot be written; then none is written.
    """
    path = Path(path)
    setting = Setting(None if fabric is None else load(fabric), nbytes)
    if not path.is_dir():
        target = _check(output or path.with_suffix(".html"), force, path)
        content = read_content(path, setting)
        return _write({target: (content, _page(content))}, force)
    if (path / SUITE).exists():
        target = _check(output or path / "index.html", force, path / SUITE)
        content = suite_content(path)
        return _write({target: (content, _page(content))}, force)
    index = _check(output or path / "index.html", force, path)
    return _write(_folder(path, index, force, setting), force)


def _check(target: str | Path, force: bool, source: Path) -> Path:
    return check_output(target, force, "--output", inputs=[source], endings=(".html", ".htm"))


def _folder(path: Path, index: Path, force: bool, setting: Setting) -> dict[Path, tuple[Content | None, str]]:
    """All pages of a folder by their paths, the index first."""
    contents: dict[Path, Content] = {}
    for file in sorted(each for each in path.iterdir() if each.suffix.lower() in SUFFIXES):
        try:
            contents[file] = read_content(file, setting)
        except InputError as error:
            # Files of other things are none of ours; what is damaged is.
            if "; allowed: a result" not in str(error) and "no result file of" not in str(error):
                contents[file] = Content("damaged", file.name, str(error).removeprefix(f"{file}: "), "bad")
        if len(contents) > _MOST:
            raise InputError(f"{path}: more than {_MOST} results; allowed: fewer in a folder")
    if not contents:
        raise InputError(f"{path}: no result in this folder; allowed: {ALLOWED}")
    stems = [file.stem for file in contents]
    targets: dict[Path, Path] = {}
    for file in contents:
        # Two results of one name, or a result that is called index.
        plain = stems.count(file.stem) == 1 and file.stem != index.stem
        targets[file] = _check(index.parent / f"{file.stem if plain else file.name}.html", force, file)
    cards = [{"c": content, "link": quote(targets[file].name)} for file, content in contents.items()]
    made = {*targets.values(), index}
    beside = (each for each in sorted(path.iterdir()) if each.suffix.lower() in _PICTURES)
    others = [
        (each.name, quote(os.path.relpath(each, index.parent)))
        for each in beside
        if not any(each.resolve() == page.resolve() for page in made)
    ]
    words = {"title": path.resolve().name, "kind": f"{len(cards)} results", "cards": cards, "others": others}
    pages: dict[Path, tuple[Content | None, str]] = {index: (None, _render("index.html", **words))}
    back = quote(index.name)
    return pages | {targets[file]: (content, _page(content, back)) for file, content in contents.items()}


def _page(content: Content, back: str = "") -> str:
    words = {"title": content.title, "kind": content.kind, "c": content, "back": back}
    return _render("result.html", **words, stacked=stacked(content.parts))


def _render(template: str, **words) -> str:
    made = environment()
    # Our own files, which go into the page as they are.
    style, script = (Markup(_source(name)) for name in ("page.css", "page.js"))
    footer = f"wavefabric {wavefabric.__version__}, page written {stamp()}"
    words = {"back": ""} | words | {"style": style, "script": script, "footer": footer}
    return made.get_template(template).render(**words)


def _source(name: str) -> str:
    made = environment()
    assert made.loader is not None
    return made.loader.get_source(made, name)[0]


def _write(pages: dict[Path, tuple[Content | None, str]], force: bool) -> Report:
    for target, (_, text) in pages.items():
        write_text(target, text, "--output", force)
    return Report(tuple(pages), tuple(content for content, _ in pages.values() if content is not None))
