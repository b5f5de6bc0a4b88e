"""Files import each other in one direction, imports for type checking and those inside functions included."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import wavefabric

SOURCE = Path(wavefabric.__file__).parents[1]


def module_files():
    """Every module, by its dotted name."""
    result = {}
    for file in (SOURCE / "wavefabric").rglob("*.py"):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return result


def imported(text, modules):
    """Modules of the package that a file imports, wherever in it: a submodule, else what defines the name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in names)


def circle(texts):
    """Modules that import each other in turn, the first also last; None if there is no circle."""
    graph = {name: {each for each in imported(text, texts) if each in texts} for name, text in texts.items()}
    try:
        TopologicalSorter({name: targets - {name} for name, targets in graph.items()}).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_no_files_import_each_other_in_a_circle():
    assert circle({name: file.read_text("utf-8") for name, file in module_files().items()}) is None


def test_hidden_imports_count():
    hidden = "if TYPE_CHECKING:\n    from a.two import Two"
    local = "def f():\n    import a.one"
    assert circle({"a.one": hidden, "a.two": local}) is not None
    assert circle({"a.one": hidden, "a.two": ""}) is None
    assert circle({"a": "", "a.one": "from a import two", "a.two": "from a.one import name"}) is not None
