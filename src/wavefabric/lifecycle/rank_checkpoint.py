"""Checkpoint files of one rank or several: each rank writes its own part, a manifest says which parts count.

The manifest has the name and format of the checkpoint of one rank, without arrays. The parts of rank r of K
are ``NAME.rank{r}of{K}.0`` and ``….1``: two slots. A save fills the slot that the manifest does not name; the
manifest follows when all parts are on the disk, so that a kill at any moment leaves the old generation or the
new one, whole. With one rank the file is as `wavefabric.results.checkpoint_file` writes it.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.lifecycle.collective_errors import on_all_ranks, on_first_rank
from wavefabric.results import checkpoint_file
from wavefabric.results.checkpoint_file import Into, Rows

if TYPE_CHECKING:
    from wavefabric.exchange import Communicator

#: Key of the state that makes a file a manifest.
_PARTS = "rank_parts"


class RankCheckpoint:
    """The checkpoint files of all ranks of a run; every method is collective.

    Parameters
    ----------
    comm : Communicator
    path : str or Path
        The checkpoint, the same on all ranks.
    fingerprint : str
        Of the run as this rank sees it: files with another one are refused.
    layout : str
        How the run is divided among its ranks, in words for the error message.
    """

    def __init__(self, comm: Communicator, path: str | Path, fingerprint: str, layout: str = ""):
        self.comm, self.path = comm, Path(path)
        self._fingerprint, self._layout = fingerprint, layout

    def exists(self) -> bool:
        """Whether rank 0 sees one."""
        return on_first_rank(self.comm, self.path.exists)

    def save(self, arrays: dict[str, np.ndarray | Rows], state: dict[str, Any]) -> None:
        """Write the arrays and the JSON state of every rank.

        Raises
        ------
        OSError
            On all ranks, if one cannot write. The previous checkpoint is then untouched.
        """
        if self.comm.size == 1:
            checkpoint_file.save(self.path, arrays, state, self._fingerprint)
            return
        old = on_first_rank(self.comm, self._current_slot)
        slot = 0 if old is None else 1 - old
        token = self.comm.control.bcast(secrets.token_hex(8))

        def write_part() -> None:
            part = self._part(slot)
            checkpoint_file.remove(part)  # belongs to no manifest, and would only take room
            checkpoint_file.save(part, arrays, {"token": token, "state": state}, self._fingerprint)

        def write_manifest() -> None:
            parts = {"ranks": self.comm.size, "slot": slot, "token": token, "layout": self._layout}
            checkpoint_file.save(self.path, {}, {**state, _PARTS: parts}, self._fingerprint)

        on_all_ranks(self.comm, write_part)
        on_first_rank(self.comm, write_manifest)
        if old is not None:
            with contextlib.suppress(OSError):
                checkpoint_file.remove(self._part(old))

    def save_if_possible(
        self, arrays: dict[str, np.ndarray | Rows], state: dict[str, Any], last: bool
    ) -> None:
        """`save`; a failure is only warned of if there is an earlier checkpoint and this is not the last."""
        try:
            self.save(arrays, state)
        except OSError as error:
            if last or not self.exists():
                raise
            if self.comm.rank == 0:
                warnings.warn(
                    f"{error.filename}: {error.strerror}; the run goes on, its last checkpoint {self.path} "
                    "is whole",
                    RuntimeWarning,
                    stacklevel=3,
                )

    def load(self, into: Into | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and state that this rank saved; ``into`` as for `wavefabric.results.checkpoint_file.load`.

        Raises
        ------
        InputError
            On all ranks, if the checkpoint is missing, of another number of ranks or another layout, or if
            one of its parts is missing, damaged or of another run.
        """
        return self._read(lambda path: checkpoint_file.load(path, self._fingerprint, into))

    def read_state(self) -> dict[str, Any]:
        """Only the state that this rank saved; errors as for `load`."""
        return self._read(lambda path: ({}, checkpoint_file.read_state(path, self._fingerprint)))[1]

    def remove(self) -> None:
        """Remove the checkpoint, the parts of any number of ranks, and what killed saves left."""
        pattern = re.compile(re.escape(self.path.name) + r"\.rank\d+of\d+\.[01](\.partial)?")

        def remove_parts() -> None:
            for file in list(self.path.parent.iterdir()) if self.path.parent.is_dir() else []:
                if pattern.fullmatch(file.name):
                    file.unlink(missing_ok=True)

        # The manifest first: parts count only with one.
        on_first_rank(self.comm, lambda: checkpoint_file.remove(self.path))
        on_all_ranks(self.comm, remove_parts)

    # --- Parts and manifests ----------------------------------------------------------------------------

    def _part(self, slot: int) -> Path:
        return self.path.with_name(f"{self.path.name}.rank{self.comm.rank}of{self.comm.size}.{slot}")

    def _read(self, read: Callable[[Path], tuple[dict, dict]]) -> tuple[dict, dict]:
        if self.comm.size == 1:
            self._refuse_manifest()
            return read(self.path)
        slot, token = on_first_rank(self.comm, self._read_manifest)

        def read_part() -> tuple[dict, dict]:
            part = self._part(slot)
            if not part.exists():
                raise InputError(f"{self.path}: its part {part.name} is missing; remove it to start anew")
            arrays, state = read(part)
            if state.get("token") != token:
                raise InputError(
                    f"{self.path}: its part {part.name} was saved at another time; remove it to start anew"
                )
            return arrays, state["state"]

        return on_all_ranks(self.comm, read_part)

    def _read_manifest(self) -> tuple[int, str]:
        parts = checkpoint_file.read_state(self.path, None).get(_PARTS, {"ranks": 1, "layout": ""})
        if (parts["ranks"], parts["layout"]) != (self.comm.size, self._layout):
            raise self._other_layout(parts)
        checkpoint_file.read_state(self.path, self._fingerprint)
        return parts["slot"], parts["token"]

    def _refuse_manifest(self) -> None:
        """One rank cannot go on with what several have saved."""
        parts = self._parts_if_readable()
        if parts is not None:
            raise self._other_layout(parts)

    def _current_slot(self) -> int | None:
        """The slot that the manifest names, if there is one of as many ranks."""
        parts = self._parts_if_readable()
        return parts["slot"] if parts is not None and parts["ranks"] == self.comm.size else None

    def _parts_if_readable(self) -> dict[str, Any] | None:
        try:
            return checkpoint_file.read_state(self.path, None).get(_PARTS)
        except (InputError, OSError):
            return None  # whoever reads the whole file says what is wrong

    def _other_layout(self, parts: dict[str, Any]) -> InputError:
        def in_words(ranks: int, layout: str) -> str:
            return f"{ranks} rank{'s' * (ranks > 1)}" + (f" ({layout})" if layout else "")

        saved, here = in_words(parts["ranks"], parts["layout"]), in_words(self.comm.size, self._layout)
        return InputError(
            f"{self.path}: this checkpoint was saved by {saved}, this run has {here}; go on as it was, or "
            "remove it to start anew"
        )
