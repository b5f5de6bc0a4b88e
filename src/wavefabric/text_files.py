"""Text files, read whole, and written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from wavefabric.errors import InputError


def read_text(path: str | Path, what: str) -> str:
    """The text of a file.

    Raises
    ------
    InputError
        If it cannot be read, or is not UTF-8.
    """
    path = Path(path)
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{what}: {path} is not UTF-8 text; allowed: a text file") from None
    except OSError as error:
        raise InputError(f"{what}: {path} ({error.strerror}); allowed: a file that can be read") from None
    except ValueError:  # a name with a null byte
        raise InputError(f"{what}: not the name of a file; allowed: a file that can be read") from None


def write_text(path: str | Path, text: str, what: str, force: bool = False) -> Path:
    """Write a file under another name and rename it.

    Raises
    ------
    InputError
        If it exists (without `force`), is a folder, or cannot be written.
    """
    path = Path(path)
    partial: Path | None = None
    try:
        if path.is_dir():
            raise InputError(f"{what}: {path} is a folder; allowed: the name of a file")
        if path.exists() and not force:
            raise InputError(f"{what}: {path} exists; allowed: another name, or force")
        try:
            # A name that nobody else has: no file of the user's, nor another process's.
            number, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".partial", dir=path.parent)
            partial = Path(name)
            with open(number, "w", encoding="utf-8") as file:
                os.chmod(partial, (path.stat().st_mode & 0o777) if path.exists() else 0o666 & ~_umask())
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            if partial is not None:
                partial.unlink(missing_ok=True)
    except OSError as error:
        fault = f"{path} cannot be written ({error.strerror})"
        raise InputError(f"{what}: {fault}; allowed: a name in a folder that can be written") from None
    return path


def _umask() -> int:
    """Permissions that new files must not have."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
