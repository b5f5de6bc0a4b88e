"""Assemble the text of CUDA sources for NVRTC, with the headers that they include."""

import re
from functools import cache
from importlib.resources import files

_INCLUDE = re.compile(r'^#include "([\w.]+)"\n', re.MULTILINE)


@cache
def cuda_text(*sources: str) -> str:
    """Return the text of CUDA files (``"package/file.cu"``) in order, with each included header once."""
    included: set[str] = set()

    def header(match: re.Match[str]) -> str:
        if match[1] in included:
            return ""
        included.add(match[1])
        return expanded(__package__ or "", match[1])

    def expanded(package: str, name: str) -> str:
        text = files(package).joinpath(name).read_text(encoding="utf-8")
        return _INCLUDE.sub(header, text.replace("#pragma once\n", ""))

    return "\n".join(expanded(*path.rsplit("/", 1)) for path in sources)
