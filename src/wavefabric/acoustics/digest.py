"""A digest of all that a run was given, by which ranks and checkpoints are compared."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def identity(*parts: Any) -> str:
    """SHA-256 of dataclasses with arrays, such as a `Problem` and a `Recording`."""
    digest = hashlib.sha256()
    for part in parts:
        _update(digest, part)
    return digest.hexdigest()


def _update(digest, value) -> None:
    """Arrays count by their CRC, which is enough against mistakes."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            digest.update(field.name.encode())
            _update(digest, getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        digest.update(f"{data.dtype}{data.shape}{zlib.crc32(data.view(np.uint8).reshape(-1).data)}".encode())
    elif isinstance(value, tuple):
        for part in value:
            _update(digest, part)
    else:
        digest.update(repr(value).encode())
