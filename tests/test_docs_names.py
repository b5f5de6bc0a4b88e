"""Modules, functions and classes that the docs name are there."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import wavefabric

ROOT = Path(__file__).parents[1]
LINKED = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "papers").rglob("*.md")]
INSIDE = [ROOT / "docs" / "architecture.md", *sorted((ROOT / "docs" / "inside").glob("*.md"))]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *INSIDE[1:], ROOT / "README.md"]
PACKAGES = {module.name for module in pkgutil.iter_modules(wavefabric.__path__) if module.ispkg}


def result(name):
    """The object of a dotted name, or None."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:split]))
        except ImportError:
            continue
        for part in parts[split:]:
            thing = getattr(thing, part, None)
        return thing
    return None


@pytest.mark.parametrize("page", INSIDE, ids=lambda page: page.name)
def test_files_that_pages_about_the_code_name(page):
    folders = ("src", "tests", "benchmarks", "papers", "tools")
    files = [str(path) for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [str(path) for path in ROOT.iterdir()]
    named = set(re.findall(r"`([\w/.-]+\.(?:py|cu|cpp|h|toml))`", page.read_text("utf-8")))
    assert [
        name for name in sorted(named) if not any(f"/{file}".endswith(f"/{name}") for file in files)
    ] == []
    assert named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_the_text(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    names = re.findall(r"`(wavefabric(?:\.\w+)+)", prose)
    assert [name for name in names if result(name) is None] == []
    # A module, and in parentheses what of it.
    for name, listed in re.findall(r"`(wavefabric(?:\.\w+)+)` \(((?:`\w+`(?:, )?)+)\)", prose):
        assert [
            f"{name}.{part}" for part in re.findall(r"\w+", listed) if not hasattr(result(name), part)
        ] == []


def test_the_page_on_formats_gives_whole_names():
    prose = re.sub(r"```.*?```", "", (ROOT / "docs" / "formats.md").read_text(), flags=re.S)
    named = re.findall(r"`([a-z_]+)\.\w+[.\w]*`", prose)
    assert not PACKAGES & set(named)
    assert "`wavefabric.collectives.formats.msccl.read` (`from_msccl`, `load_msccl`)" in prose


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_imports_in_examples(page):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        for module, names in re.findall(r"^from (wavefabric[\w.]*) import ([\w, ]+)$", block, re.M):
            assert [f"{module}.{n}" for n in names.split(", ") if result(f"{module}.{n}") is None] == []


def test_articles():
    for page in PAGES:
        assert not re.search(r"\ba (?:electrical|all-|array|integer|optimal)", page.read_text()), page.name


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "reference").glob("*.md")), ids=lambda page: page.stem
)
def test_the_reference_names_what_there_is(page):
    for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE):
        module, _, thing = name.rpartition(".")
        assert getattr(importlib.import_module(module), thing).__module__ == module, name


def test_the_glossary_says_where_things_are():
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    names = re.findall(rf"`((?:{'|'.join(PACKAGES)}|errors)(?:\.\w+)+)`", page)
    assert len(names) > 50
    assert [name for name in names if result(f"wavefabric.{name}") is None] == []


def without_code(page):
    return re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)


def anchors(page, hyphens):
    """Anchors of the headings: GitHub keeps a hyphen for each space, MkDocs joins ``hyphens`` into one."""
    result = set()
    for heading in re.findall(r"^#+ (.*)$", without_code(page), re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        words = "".join(c for c in heading if c in " -_" or c.isalnum())
        result.add(re.sub(hyphens, "-", words))
    return result


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_to_headings_on_github_and_in_mkdocs(page):
    for path, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", without_code(page)):
        if "://" in path or path.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor and target.suffix == ".md":
            for hyphens in (" ", "[ -]+"):
                assert anchor in anchors(target, hyphens), f"{path}#{anchor}"
