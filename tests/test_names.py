"""Names of the package: a public class has its own, so that a name says which one is meant."""

import ast
from collections import defaultdict
from pathlib import Path

import wavefabric

ROOT = Path(wavefabric.__file__).parent


def test_public_classes_have_names_of_their_own():
    files = defaultdict(list)
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(file.relative_to(ROOT)))
    assert {name: positions for name, positions in files.items() if len(positions) > 1} == {}


def test_no_folder_is_long_and_each_says_what_is_in_it():
    for folder in (path.parent for path in ROOT.rglob("__init__.py")):
        assert len([path for path in folder.iterdir() if path.is_file()]) <= 20, folder
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))), folder
