"""Several files written together: all of them, or none."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from wavefabric.errors import InputError
from wavefabric.files.output import check_output
from wavefabric.files.text import write_text


def write_all(texts: Mapping[Path, str], force: bool = False, key: str = "--output") -> list[Path]:
    """Write files; nothing is replaced before all of them are whole on the disk.

    Parameters
    ----------
    texts : dict of Path to str
    force : bool
        Replace files that are there.
    key : str
        Of the option, for errors.

    Raises
    ------
    InputError
        If one exists (without `force`), is a folder, or cannot be written.
    """
    paths = list(texts)
    if len(paths) == 1:
        return [write_text(paths[0], texts[paths[0]], key, force)]
    for path in paths:
        check_output(path, force, key)
    at = paths[0] if paths else Path()
    try:
        with contextlib.ExitStack() as stack:
            whole = []
            for at in paths:
                # In the same folder: a file is renamed from there, not copied.
                beside = tempfile.TemporaryDirectory(prefix=".wavefabric-", dir=at.parent)
                folder = stack.enter_context(beside)
                whole.append(write_text(Path(folder, at.name), texts[at], key))
            for at, partial in zip(paths, whole, strict=True):
                partial.replace(at)
    except OSError as error:
        fault = f"{at} cannot be written ({error.strerror})"
        raise InputError(f"{key}: {fault}; allowed: a name in a folder that can be written") from None
    return paths
