"""Read untrusted input files, only regular ones, since a pipe may block and a device may never end."""

import errno
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from wavefabric.base.errors import InputError, ensure, show

#: Maximum bytes of an ordinary text file: run files, fabrics, topologies, tables, placements.
MOST_TEXT = 16 << 20
#: Maximum bytes of a schedule in JSON or XML: a ring all-reduce of 1024 ranks takes 0.3 GiB.
MOST_SCHEDULE = 1 << 29

_HDF5 = b"\x89HDF\r\n\x1a\n"
_Content = TypeVar("_Content")

#: Maximum parts of a dotted TOML key. The time of tomllib grows with their square.
DEEPEST = 100
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEEPEST}}}")

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_KINDS |= {stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def check_regular(path: str | Path) -> None:
    """Raise OSError, whose ``strerror`` says why, for a pipe, a device, a socket, or a missing file.

    Files in /proc and /sys, whose reader may wait for ever, are refused too.
    """
    _check(os.stat(path).st_mode, path)
    if os.path.realpath(path).startswith(("/proc/", "/sys/")):
        raise OSError(errno.EINVAL, "is of the kernel, not a regular file", str(path))


def read_bytes(path: str | Path, most: int = MOST_TEXT) -> bytes:
    """Return a file's content; OSError if unreadable, not regular (`check_regular`) or above ``most``."""
    content = read_start(path, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"is larger than {most >> 20} MiB", str(path))
    return content


def read_start(path: str | Path, most: int) -> bytes:
    """Return the first ``most`` bytes of a file; OSError if unreadable or not regular (`check_regular`)."""
    check_regular(path)
    # O_NONBLOCK: if the file has become a pipe meanwhile, opening does not wait.
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(number, "rb") as file:
        _check(os.fstat(number).st_mode, path)
        return file.read(most)


def begins_as_hdf5(path: str | Path) -> bool:
    """Return whether a file begins with HDF5's signature; OSError as for `read_start`."""
    return read_start(path, len(_HDF5)) == _HDF5


def _check(mode: int, path: str | Path) -> None:
    if what := _KINDS.get(stat.S_IFMT(mode)):
        raise OSError(errno.EINVAL, f"is {what}, not a regular file", str(path))


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Put a file's path in front of the message of an `InputError` that the block raises."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def read_text(path: str | Path, key: str, most: int = MOST_TEXT) -> str:
    """Return the text of a file of at most ``most`` bytes; ``key`` names the option or format in errors.

    `InputError` if the file cannot be read, is not regular, is larger, or is not UTF-8.
    """
    path = Path(path)
    try:
        return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise InputError(f"{key}: {path} is not UTF-8 text; allowed: a text file") from None
    except OSError as error:
        raise InputError(f"{key}: {path} ({error.strerror}); allowed: a file that can be read") from None
    except ValueError:  # a name with a null byte
        raise InputError(f"{key}: not the name of a file; allowed: a file that can be read") from None


def parsed(path: str | Path, key: str, parse: Callable[[str], _Content], most: int = MOST_TEXT) -> _Content:
    """Read a text file and return ``parse`` of its text; errors of ``parse`` get the path in front."""
    text = read_text(path, key, most)
    with naming(path):
        return parse(text)


def parse_toml(text: str, key: str) -> dict[str, Any]:
    """Return the content of TOML text; `InputError` if it is invalid, or exceeds Python's limits."""
    import tomllib

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
    raise InputError(f"{key}: not TOML ({fault}); allowed: a TOML file")


def parse_json(text: str, key: str, numbers: str = "finite numbers", allowed: str = "") -> Any:
    """Return the content of JSON text, stricter than Python: unique keys per object, no NaN, no infinity.

    ``key`` names the format and ``numbers`` the allowed numbers in errors. `InputError` if the text is not
    such JSON, or exceeds Python's limits; or, with the words ``allowed``, if it is no object.
    """

    def refuse_constant(word: str) -> None:
        raise InputError(f"{key}: {word}; allowed: {numbers}")

    try:
        content = json.loads(text, object_pairs_hook=_object, parse_constant=refuse_constant)
        if _SURROGATE.search(text):  # a surrogate without its pair cannot be written or printed
            json.dumps(content, ensure_ascii=False).encode()
        ensure(not allowed or isinstance(content, dict), key, "no JSON object given", allowed)
        return content
    except UnicodeEncodeError as error:
        actual = f"half a character, \\u{ord(error.object[error.start]):04x}"
        raise InputError(f"{key}: {actual}; allowed: text in Unicode") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{key}: not JSON ({error.msg} at {where}); allowed: a JSON object") from None
    except RecursionError:
        raise InputError(f"{key}: nested too deeply; allowed: a JSON object like that of to_json") from None
    except InputError:
        raise
    except ValueError:  # Python reads no whole number of more than 4300 digits
        raise InputError(f"{key}: a number with too many digits; allowed: numbers below 2^63") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dictionary; `InputError` if a key occurs twice."""
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InputError(f"{show(twice)}: given twice in one object; allowed: once")
    return content
