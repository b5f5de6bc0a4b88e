"""Output files: whether one may be written, asked before a run; and writing it whole or not at all."""

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wavefabric.errors import InputError

_PARTIAL = ".partial"
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# Names of partial files are cut here: file systems allow 255 bytes.
_LONG_NAME = 100


def check_output(
    path: str | Path,
    force: bool = False,
    key: str = "output",
    *,
    inputs: Sequence[str | Path | None] = (),
    endings: Sequence[str] = (),
) -> Path:
    """Refuse an output file that cannot or must not be written; nothing on the disk changes.

    ``key`` is what an error calls it; ``force`` allows to replace a regular file; ``inputs`` are files that
    the run reads (or None); ``endings`` are those allowed, in lower case with the dot, or all.
    """
    path = Path(path)
    try:
        fault, allowed = _fault(path, force, inputs, endings)
        if not fault:
            _try_folder(path)
    except OSError as error:
        raise InputError(unwritable(path, key, error.strerror or str(error))) from None
    if fault:
        raise InputError(f"{key}: {fault}; allowed: {allowed}")
    return path


def _fault(path: Path, force: bool, inputs: Sequence, endings: Sequence[str]) -> tuple[str, str]:
    """What is wrong with a name or with what is there, and what is allowed; twice nothing if it will do."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        return f"{str(path)!a} is not UTF-8", "a name in UTF-8"
    if "\0" in str(path):
        return f"{str(path)!a} has a null character", "the name of a file"
    if endings and path.suffix.lower() not in endings:
        return f"{path} given", f"a name that ends in {', '.join(endings)}"
    if not path.name or path.is_dir():
        return f"{path} is a folder", "the name of a file"
    if not os.path.lexists(path):
        return "", ""
    if any(name and path.exists() and os.path.exists(name) and path.samefile(name) for name in inputs):
        return f"{path} is an input of this run", "another name"
    kind = stat.S_IFMT(path.lstat().st_mode)
    if kind != stat.S_IFREG:
        return f"{path} is {_KINDS.get(kind, 'no regular file')}", "a new name, or that of a regular file"
    return ("", "") if force else (f"{path} exists", "another name, or --force (force=True)")


def _try_folder(path: Path) -> None:
    """Raise OSError if no file can be made beside this one."""
    folder = path.parent
    if not folder.is_dir():
        fault = "is not a folder" if folder.exists() else "does not exist"
        raise OSError(errno.ENOTDIR, f"the folder {folder} {fault}")
    # Permission bits do not tell about read-only disks or root; writing does, under a name that nobody has.
    # The longest name in use while a file is made must fit too.
    tempfile.NamedTemporaryFile(prefix=f"{path.name}.checkpoint.", suffix=_PARTIAL, dir=folder).close()


def unwritable(path: Path, key: str, why: str) -> str:
    """The error of a file that cannot be written."""
    return f"{key}: {path} cannot be written ({why}); allowed: a name in a folder that can be written"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file whole or not at all: gives a new name in the same folder that becomes ``path`` at the end.

    If the block fails, the file is removed and ``path`` stays as it was.
    """
    prefix = f".{path.name[:_LONG_NAME]}."
    number, name = tempfile.mkstemp(prefix=prefix, suffix=_PARTIAL, dir=path.parent)
    os.close(number)
    partial = Path(name)
    try:
        os.chmod(partial, (path.stat().st_mode & 0o777) if path.exists() else 0o666 & ~_umask())
        yield partial
        with open(partial, "rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    sync_folder(path.parent)


def write_text(path: str | Path, text: str, what: str, force: bool = False) -> Path:
    """Write a file whole; `InputError` if it exists (without `force`) or cannot be written."""
    path = check_output(path, force, what)
    try:
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(unwritable(path, what, str(error.strerror))) from None
    return path


def json_rows(content: Mapping[str, Any], rows: Collection[str]) -> str:
    """JSON text: a key a line, and an entry a line of what is listed under the keys ``rows``, however deep.

    What is listed may be any iterable of JSON values.

    >>> print(json_rows({"ranks": 2, "pairs": [[0, 1], [1, 0]]}, ("pairs",)), end="")
    {
      "ranks": 2,
      "pairs": [
        [0, 1],
        [1, 0]
      ]
    }
    """
    lines = [f"  {_dump(key)}: {_value(key, value, rows, 2)}" for key, value in content.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _value(key: str, value: Any, rows: Collection[str], indent: int) -> str:
    if key not in rows:
        return _dump(value)
    space = "\n" + " " * indent
    entries = f",{space}  ".join(_entry(each, rows, indent + 2) for each in value)
    return f"[{space}  {entries}{space}]" if entries else "[]"


def _entry(value: Any, rows: Collection[str], indent: int) -> str:
    if not isinstance(value, Mapping) or value.keys().isdisjoint(rows):
        return _dump(value)
    pairs = (f"{_dump(key)}: {_value(key, each, rows, indent)}" for key, each in value.items())
    return "{" + ", ".join(pairs) + "}"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def remove_partials(path: Path) -> None:
    """Remove what processes that were killed while writing ``path`` left; for the holder of its lock."""
    if len(path.name) > _LONG_NAME:
        return  # its partial files cannot be told from those of others
    for file in path.parent.iterdir():
        middle = file.name.removeprefix(f".{path.name}.").removesuffix(_PARTIAL)
        if file.name == f".{path.name}.{middle}{_PARTIAL}" and "." not in middle:
            with contextlib.suppress(OSError):
                file.unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
