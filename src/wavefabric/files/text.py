"""Text files, read whole, and written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from wavefabric.errors import InputError
from wavefabric.files.input import MOST_TEXT, read_bytes
from wavefabric.files.output import check_output, replacing, unwritable


def read_text(path: str | Path, what: str, most: int = MOST_TEXT) -> str:
    """The text of a file of at most so many bytes; ``what`` names the option or the format, for errors.

    `InputError` if it cannot be read, is no regular file, is larger, or is not UTF-8.
    """
    path = Path(path)
    try:
        return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise InputError(f"{what}: {path} is not UTF-8 text; allowed: a text file") from None
    except OSError as error:
        raise InputError(f"{what}: {path} ({error.strerror}); allowed: a file that can be read") from None
    except ValueError:  # a name with a null byte
        raise InputError(f"{what}: not the name of a file; allowed: a file that can be read") from None


def write_text(path: str | Path, text: str, what: str, force: bool = False) -> Path:
    """Write a file whole; `InputError` if it exists (without `force`) or cannot be written."""
    path = check_output(path, force, what)
    try:
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(unwritable(path, what, str(error.strerror))) from None
    return path
