"""Whether all ranks were given the same, and the control plane on its own for those that fail early."""

from __future__ import annotations

import sys
from functools import lru_cache

from wavefabric.errors import InputError, MissingExtra
from wavefabric.exchange.control import Control, MPIControl
from wavefabric.exchange.launch import environment

#: Characters of a value that a message shows.
_SHOWN = 60
#: Seconds that a rank with an uncaught error waits for the others to come to one as well.
_PATIENCE = 5.0
_guarded: list[Control] = []


def check_agreement(control: Control, facts: dict[str, str]) -> None:
    """Compare facts between ranks, such as versions, digests of the input, options; collective.

    `InputError` on all ranks alike names the first key that differs, two ranks and their values.
    """
    gathered = control.all_gather(facts)
    for key in dict.fromkeys(key for each in gathered for key in each):
        values = [each.get(key, "nothing") for each in gathered]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            differ = f"rank 0 has {values[0][:_SHOWN]}, rank {other} has {values[other][:_SHOWN]}"
            raise InputError(f"{key}: {differ}; allowed: the same on all ranks")


def mpi_world():
    """mpi4py's communicator of all ranks; `MissingExtra` without it, `InputError` if it sees others."""
    started = environment.expected_ranks() or environment.ranks()
    fault = "they do not see one another" if environment.ranks() == 1 else ""
    if not fault:
        try:
            from mpi4py import MPI
        except ImportError:
            raise MissingExtra("more than one rank", "mpi") from None
        if MPI.COMM_WORLD.Get_size() == started:
            return MPI.COMM_WORLD
        fault = f"mpi4py sees {MPI.COMM_WORLD.Get_size()}"
    raise InputError(
        f"ranks: {started} were started, but {fault}; mpiexec and mpi4py must belong to the same MPI"
    )


@lru_cache(maxsize=1)
def world_control() -> Control:
    """The control plane of all ranks without devices; collective the first time; errors of `mpi_world`."""
    return Control() if environment.ranks() == 1 else MPIControl(mpi_world())


def abort_on_uncaught_error(control: Control) -> None:
    """From now on an uncaught error of one rank's script ends all ranks; they would wait for it for ever."""
    if _guarded:
        return
    _guarded.append(control)
    before = sys.excepthook

    def hook(kind, error, trace) -> None:
        before(kind, error, trace)
        sys.stderr.flush()
        if control.gather_failures("", 1, _PATIENCE) is None:
            control.abort(1)

    sys.excepthook = hook
