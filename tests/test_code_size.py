"""Functions take few arguments and folders hold few files, so that a reader keeps each in mind."""

import ast
from collections import Counter
from pathlib import Path

import wavefabric

PACKAGE = Path(wavefabric.__file__).parent
MOST_PARAMETERS, MOST_FILES = 8, 20


def parameters(function: ast.FunctionDef) -> int:
    """How many, without ``self`` and ``cls``; ``*arguments`` and ``**options`` count as one each."""
    each = function.args
    names = [argument.arg for argument in (*each.posonlyargs, *each.args, *each.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")]) + bool(each.vararg) + bool(each.kwarg)


def functions(text: str):
    """Functions of a file; nested ones too."""
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))


def launches_kernels(file: Path) -> bool:
    """Kernels take what the hardware needs, one by one: launches of CUDA's and of C++."""
    return file.stem.endswith("_cuda") or "= kernel_table(" in file.read_text("utf-8")


def test_no_function_has_many_parameters():
    many = [
        f"{file.relative_to(PACKAGE)}: {function.name} {parameters(function)}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if not launches_kernels(file)
        for function in functions(file.read_text("utf-8"))
        if parameters(function) > MOST_PARAMETERS
    ]
    assert not many


def test_no_folder_has_many_files():
    files = Counter(
        file.parent.relative_to(PACKAGE) for file in PACKAGE.rglob("*") if file.suffix in (".py", ".cu")
    )
    assert not {folder: count for folder, count in files.items() if count > MOST_FILES}


def test_parameters_are_counted():
    (method,) = functions("class A:\n def f(self, a, /, b, *c, d=1, **e): ...")
    assert parameters(method) == 5
