"""TOML text, read without trust: every fault of the text is a `tomllib.TOMLDecodeError`."""

from __future__ import annotations

import re
import tomllib
from typing import Any

#: Parts of a dotted key. The time that tomllib takes grows with their square.
DEEPEST = 100
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEEPEST}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """The content of TOML text; faults are also keys of over `DEEPEST` parts, and what Python cannot read."""
    too_deep = _DOTTED.search(text)
    if too_deep:
        line = text.count("\n", 0, too_deep.start()) + 1
        raise tomllib.TOMLDecodeError(f"Key of more than {DEEPEST} parts (at line {line})")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError("Values nested too deeply") from None
    except ValueError:  # Python reads no whole number of more than 4300 digits
        raise tomllib.TOMLDecodeError("Number with too many digits") from None
