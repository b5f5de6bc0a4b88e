"""Checkpoints of runs over several ranks: each rank writes its own part, a manifest says which parts count.

The manifest lies where the checkpoint of one rank would lie and has its format, without arrays. The parts of
rank r of K are ``NAME.rank{r}of{K}.0`` and ``….1``: two slots. A save fills the slot that the manifest does
not name, and the manifest follows when all parts are on the disk, so that a kill at any moment leaves the old
generation or the new one, whole. With one rank all is as in `wavefabric.results.checkpoint`.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.results import checkpoint
from wavefabric.results.agree import agree, together
from wavefabric.results.checkpoint import Into, Rows

#: Key of the manifest's state that says it is one.
_PARTS = "rank_parts"


def save(
    comm: Any,
    path: str | Path,
    arrays: dict[str, np.ndarray | Rows],
    state: dict[str, Any],
    fingerprint: str,
    layout: str = "",
) -> None:
    """Write the checkpoint of all ranks; collective.

    Parameters
    ----------
    comm : Communicator
    path : str or Path
        The checkpoint, the same on all ranks.
    arrays : dict of ndarray or Rows
        This rank's.
    state : dict
        This rank's; JSON values.
    fingerprint : str
        Of this rank: what `load` must present to get it back.
    layout : str
        How the run is shared among its ranks, in words for whoever goes on in another way.

    Raises
    ------
    OSError
        On all ranks, if one cannot write. The last checkpoint is then untouched.
    """
    path = Path(path)
    if comm.size == 1:
        checkpoint.save(path, arrays, state, fingerprint)
        return
    old = agree(comm, lambda: _slot(path, comm.size))
    slot = 0 if old is None else 1 - old
    token = comm.control.bcast(secrets.token_hex(8))

    def part() -> None:
        mine = _part(path, comm, slot)
        # What is there belongs to no manifest; it would only take room.
        checkpoint.remove(mine)
        checkpoint.save(mine, arrays, {"token": token, "state": state}, fingerprint)

    def manifest() -> None:
        parts = {"ranks": comm.size, "slot": slot, "token": token, "layout": layout}
        checkpoint.save(path, {}, {**state, _PARTS: parts}, fingerprint)

    together(comm, part)
    agree(comm, manifest)
    if old is not None:
        with contextlib.suppress(OSError):
            checkpoint.remove(_part(path, comm, old))


def save_if_possible(
    comm: Any,
    path: str | Path,
    arrays: dict[str, np.ndarray | Rows],
    state: dict[str, Any],
    fingerprint: str,
    layout: str = "",
    *,
    last: bool = False,
) -> None:
    """`save`; where that fails and an earlier checkpoint is there, only warn. Collective.

    Parameters
    ----------
    comm, path, arrays, state, fingerprint, layout
        As for `save`.
    last : bool
        The run ends with this checkpoint.

    Raises
    ------
    OSError
        As `save`, if it is the last one or there is no earlier one.
    """
    try:
        save(comm, path, arrays, state, fingerprint, layout)
    except OSError as error:
        if last or not exists(comm, path):
            raise
        if comm.rank == 0:
            warnings.warn(
                f"{error.filename}: {error.strerror}; the run goes on, its last checkpoint {path} is whole",
                RuntimeWarning,
                stacklevel=2,
            )


def load(
    comm: Any, path: str | Path, fingerprint: str, into: Into | None = None, layout: str = ""
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read this rank's part back; collective.

    Parameters
    ----------
    comm, path, fingerprint, layout
        As for `save`.
    into : callable, optional
        Where each array goes, as for `wavefabric.results.checkpoint.load`.

    Returns
    -------
    arrays : dict of ndarray
    state : dict
        What this rank gave to `save`.

    Raises
    ------
    InputError
        On all ranks alike, if the checkpoint is missing, of another number of ranks or another layout, or if
        one of its parts is missing, damaged or of another run.
    """
    path = Path(path)
    if comm.size == 1:
        _refuse_manifest(path, layout)
        return checkpoint.load(path, fingerprint, into)
    slot, token = agree(comm, lambda: _manifest(path, comm.size, fingerprint, layout))

    def part() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        mine = _there(path, comm, slot)
        arrays, state = checkpoint.load(mine, fingerprint, into)
        return arrays, _own(path, mine, state, token)

    return together(comm, part)


def read_state(comm: Any, path: str | Path, fingerprint: str, layout: str = "") -> dict[str, Any]:
    """Only the ``state`` that this rank saved; arguments and errors as for `load`. Looks at all parts."""
    path = Path(path)
    if comm.size == 1:
        _refuse_manifest(path, layout)
        return checkpoint.read_state(path, fingerprint)
    slot, token = agree(comm, lambda: _manifest(path, comm.size, fingerprint, layout))

    def part() -> dict[str, Any]:
        mine = _there(path, comm, slot)
        return _own(path, mine, checkpoint.read_state(mine, fingerprint), token)

    return together(comm, part)


def exists(comm: Any, path: str | Path) -> bool:
    """Whether there is a checkpoint: what rank 0 sees, so that all ranks do the same; collective."""
    return agree(comm, Path(path).exists)


def remove(comm: Any, path: str | Path) -> None:
    """Remove a checkpoint, the parts of however many ranks, and what killed saves left; collective."""
    path = Path(path)

    def parts() -> None:
        pattern = re.compile(re.escape(path.name) + r"\.rank\d+of\d+\.[01](\.partial)?")
        for found in list(path.parent.iterdir()) if path.parent.is_dir() else []:
            if pattern.fullmatch(found.name):
                found.unlink(missing_ok=True)

    # The manifest first: without it the parts are nothing, while it needs them all.
    agree(comm, lambda: checkpoint.remove(path))
    together(comm, parts)


# --- Names and manifests -------------------------------------------------------------------------------


def _part(path: Path, comm: Any, slot: int) -> Path:
    return path.with_name(f"{path.name}.rank{comm.rank}of{comm.size}.{slot}")


def _there(path: Path, comm: Any, slot: int) -> Path:
    part = _part(path, comm, slot)
    if not part.exists():
        raise InputError(f"{path}: its part {part.name} is missing; remove it to start anew")
    return part


def _own(path: Path, part: Path, state: dict[str, Any], token: str) -> dict[str, Any]:
    if state.get("token") != token:
        raise InputError(f"{path}: its part {part.name} was saved at another time; remove it to start anew")
    return state["state"]


def _slot(path: Path, ranks: int) -> int | None:
    """The slot that the manifest names, if there is one of so many ranks."""
    try:
        parts = checkpoint.read_state(path, None).get(_PARTS)
    except (InputError, OSError):
        return None
    return parts["slot"] if parts is not None and parts["ranks"] == ranks else None


def _manifest(path: Path, ranks: int, fingerprint: str, layout: str) -> tuple[int, str]:
    """Slot and token of a manifest of this run in this layout."""
    parts = checkpoint.read_state(path, None).get(_PARTS, {"ranks": 1, "layout": ""})
    if parts["ranks"] != ranks or parts["layout"] != layout:
        raise _another_layout(path, parts, ranks, layout)
    checkpoint.read_state(path, fingerprint)
    return parts["slot"], parts["token"]


def _refuse_manifest(path: Path, layout: str) -> None:
    """One rank cannot go on with what several have saved."""
    try:
        parts = checkpoint.read_state(path, None).get(_PARTS)
    except (InputError, OSError):
        return  # said again by whoever reads it
    if parts is not None:
        raise _another_layout(path, parts, 1, layout)


def _another_layout(path: Path, parts: dict[str, Any], ranks: int, layout: str) -> InputError:
    def words(ranks: int, layout: str) -> str:
        return f"{ranks} rank{'s' * (ranks > 1)}" + (f" ({layout})" if layout else "")

    return InputError(
        f"{path}: this checkpoint was saved by {words(parts['ranks'], parts['layout'])}, this run has "
        f"{words(ranks, layout)}; go on as it was, or remove it to start anew"
    )
