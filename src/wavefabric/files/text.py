"""Text files, read whole, and written whole or not at all; TOML, read without trust."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from wavefabric.errors import InputError
from wavefabric.files.input import MOST_TEXT, read_bytes
from wavefabric.files.output import check_output, replacing, unwritable

#: Parts of a dotted key of TOML. The time that tomllib takes grows with their square.
DEEPEST = 100
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEEPEST}}}")


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


def parse_toml(text: str, what: str) -> dict[str, Any]:
    """The content of TOML text; `InputError` if it is none, or asks for more than Python can read."""
    if too_deep := _DOTTED.search(text):
        fault = f"Key of more than {DEEPEST} parts (at line {text.count(chr(10), 0, too_deep.start()) + 1})"
    else:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            fault = " ".join(str(error).split())
        except RecursionError:
            fault = "Values nested too deeply"
        except ValueError:  # Python reads no whole number of more than 4300 digits
            fault = "Number with too many digits"
    raise InputError(f"{what}: not TOML ({fault}); allowed: a TOML file")
