"""What is imported is declared in pyproject.toml, and what is declared is imported."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Distributions whose module has another name.
MODULES = {
    "pillow": "PIL",
    "protobuf": "google",
    "cupy-cuda13x": "cupy",
    "cupy-cuda12x": "cupy",
    "pyyaml": "yaml",
}
#: Modules that come with another one.
WITH = {"cupyx": "cupy"}
#: Programs and plug-ins, which nothing imports.
TOOLS = {
    "editables",
    "h5netcdf",
    "hatchling",
    "import-linter",
    "mkdocs-material",
    "mkdocstrings-python",
    "mpich",
    "nvidia-cuda-nvrtc",
    "pyright",
    "pytest-xdist",
    "ruff",
}


def imported(*folders):
    """Third-party modules, each with a file that imports it."""
    here = {path.stem for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")}
    known = {*sys.stdlib_module_names, *here, "wavefabric", "papers", "benchmarks", "plugins"}
    result = {}
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        if "data" in path.parts and folders == ("tests",):
            continue  # how test data were made, with other programs
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                if top not in known:
                    result[WITH.get(top, top)] = path.relative_to(ROOT)
    return result


def modules(requirements):
    names = [re.match(r"[\w-]+", text)[0].lower() for text in requirements]
    return {MODULES.get(name, name.replace("-", "_")) for name in names if name not in TOOLS}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def users(project):
    """Modules that a user may have: needed, and by extra."""
    extras = project["optional-dependencies"]
    optional = [
        text
        for name, texts in extras.items()
        if name not in ("dev", "docs", "kwave", "lint")
        for text in texts
    ]
    return modules(project["dependencies"]), modules(optional)


def test_the_program_imports_what_it_declares(users):
    needed, optional = users
    result = imported("src")
    assert {name: path for name, path in result.items() if name not in needed | optional} == {}
    assert (needed | optional) - result.keys() == set()


def test_tests_and_examples_import_what_is_declared(project, users):
    development = modules(project["optional-dependencies"]["dev"])
    result = imported("tests") | imported("examples")
    declared = set().union(*users, development)
    assert {name: path for name, path in result.items() if name not in declared} == {}
    assert development - result.keys() == set()
