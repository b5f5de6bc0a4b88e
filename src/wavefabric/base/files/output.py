"""Write output files completely or not at all, and check before a run whether they may be written."""

import contextlib
import errno
import io
import json
import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError

_PARTIAL = ".partial"
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: Errors of a full disk, or of a file size limit.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Names of partial files are cut to this length: file systems allow 255 bytes.
_LONG_NAME = 100


def check_output(
    path: str | Path,
    force: bool = False,
    key: str = "output",
    *,
    inputs: Sequence[str | Path | None] = (),
    endings: Sequence[str] = (),
) -> Path:
    """Return the path of an output file; `InputError` if it cannot or must not be written. Writes nothing.

    Errors refer to the file by ``key``; ``force`` allows a regular file to be replaced; ``inputs`` are files
    that the run reads (or None); ``endings`` are allowed suffixes, in lower case with the dot (none: all).
    """
    path = Path(path)
    try:
        fault, allowed = _fault(path, force, inputs, endings)
        if not fault:
            _try_folder(path)
    except OSError as error:
        raise unwritable(path, key, error) from None
    if fault:
        raise InputError(f"{key}: {fault}; allowed: {allowed}")
    return path


def _fault(path: Path, force: bool, inputs: Sequence, endings: Sequence[str]) -> tuple[str, str]:
    """Return two texts: what is wrong with an output path, and what is allowed; both empty if it is right."""
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
    """Raise OSError if no file can be created in the folder of ``path``."""
    folder = path.parent
    if not folder.is_dir():
        fault = "is not a folder" if folder.exists() else "does not exist"
        raise OSError(errno.ENOTDIR, f"the folder {folder} {fault}")
    # Permission bits say nothing about read-only disks or root, so create a file under an unused name.
    # Its name is as long as the longest temporary name, which must fit too.
    tempfile.NamedTemporaryFile(prefix=f"{path.name}.checkpoint.", suffix=_PARTIAL, dir=folder).close()


def unwritable(path: Path, key: str, error: OSError) -> InputError:
    """Return the `InputError` for a file that cannot be written; its message begins with ``key``."""
    why = error.strerror or str(error)
    if error.filename is not None and Path(error.filename).parent != path.parent:
        why = f"{error.filename}: {why}"
    allowed = "a disk with more space" if error.errno in _FULL else "a name in a folder that can be written"
    return InputError(f"{key}: {path} cannot be written ({why}); allowed: {allowed}")


@contextlib.contextmanager
def replacing(path: Path, key: str = "output") -> Iterator[Path]:
    """Write a file atomically: yield a temporary path in the same folder, rename it to ``path`` at the end.

    If the block fails, the temporary file is deleted and ``path`` stays unchanged. An OSError, such as a full
    disk, is raised as an `InputError` that refers to the file by ``key``.
    """
    partial = path.with_name(f".{path.name[:_LONG_NAME]}.{os.urandom(8).hex()}{_PARTIAL}")
    try:
        partial.touch(exist_ok=False)
        if path.exists():
            partial.chmod(path.stat().st_mode & 0o777)
        yield partial
        with open(partial, "rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):
            raise unwritable(path, key, error) from None
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def made_folder(folder: Path, key: str = "output") -> Iterator[None]:
    """Create a folder and its parents for the block; if the block fails, remove the new folders if empty.

    An OSError is raised as an `InputError` that refers to the folder by ``key``.
    """
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            for each in new:
                each.rmdir()
        if isinstance(error, OSError):
            raise InputError(f"{key}: {folder} cannot be used as a folder ({error.strerror})") from None
        raise


def write_text(path: str | Path, text: str, key: str, force: bool = False) -> Path:
    """Write a UTF-8 file atomically; `InputError` if it exists without ``force``, or cannot be written."""
    return write_bytes(path, text.encode("utf-8"), key, force)


def write_bytes(path: str | Path, content: bytes, key: str, force: bool = False) -> Path:
    """Write a binary file atomically and return its path; errors as for `write_text`."""
    path = check_output(path, force, key)
    with replacing(path, key) as partial:
        partial.write_bytes(content)
    return path


def save_figure(figure: Any, path: str | Path, key: str = "output", **options: Any) -> Path:
    """Write a Matplotlib figure atomically, in the format of the path's suffix; replace an existing file.

    A path without a suffix gets ``.png``. Errors are as for `write_text`; ``options`` are for ``savefig``.
    """
    path = Path(path) if Path(path).suffix else Path(f"{path}.png")
    # Image libraries do not say why a file cannot be written.
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lower().removeprefix("."), **options)
    return write_bytes(path, picture.getvalue(), key, force=True)


def json_rows(content: Mapping[str, Any], rows: Collection[str]) -> str:
    """Return ``content`` as JSON text with a line per key; values of keys in ``rows`` have a line per entry.

    These values may be mappings, or any iterables of JSON values. Keys of mappings among their entries may be
    in ``rows`` too.

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
    if mapped := isinstance(value, Mapping):
        lines = [f"{_dump(name)}: {_entry(each, rows, indent + 2)}" for name, each in value.items()]
    else:
        lines = [_entry(each, rows, indent + 2) for each in value]
    first, last = "{}" if mapped else "[]"
    entries = f",{space}  ".join(lines)
    return f"{first}{space}  {entries}{space}{last}" if entries else first + last


def _entry(value: Any, rows: Collection[str], indent: int) -> str:
    if not isinstance(value, Mapping) or value.keys().isdisjoint(rows):
        return _dump(value)
    pairs = (f"{_dump(key)}: {_value(key, each, rows, indent)}" for key, each in value.items())
    return "{" + ", ".join(pairs) + "}"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def remove_partials(path: Path) -> None:
    """Remove temporary files that killed writers of ``path`` left; call this only with the file locked."""
    if len(path.name) > _LONG_NAME:
        return  # cut names may be those of another file
    for file in path.parent.iterdir():
        middle = file.name.removeprefix(f".{path.name}.").removesuffix(_PARTIAL)
        if file.name == f".{path.name}.{middle}{_PARTIAL}" and "." not in middle:
            with contextlib.suppress(OSError):
                file.unlink()


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, where the system supports it, so that a rename survives a power failure."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
