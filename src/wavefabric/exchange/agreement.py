"""Whether all ranks were given the same, and the control plane on its own for those that fail early."""

from __future__ import annotations

import sys
from functools import lru_cache

from wavefabric.errors import InputError, MissingExtra
from wavefabric.exchange.control import Control, SoloControl
from wavefabric.exchange.launch import environment

#: Characters of a value that a message shows.
_SHOWN = 60
#: Seconds that a rank with an uncaught error waits for the others to come to one as well.
_PATIENCE = 5.0
_guarded: list[Control] = []


def check_agreement(control: Control, facts: dict[str, str]) -> None:
    """Compare facts between ranks; collective.

    Parameters
    ----------
    control : Control
    facts : dict of str to str
        What must be the same on all ranks, such as versions, digests of the input, options.

    Raises
    ------
    InputError
        On all ranks alike, naming the first key that differs, two ranks and their values.
    """
    given = control.all_gather(facts)
    for key in dict.fromkeys(key for each in given for key in each):
        values = [each.get(key, "nothing") for each in given]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            first, second = (value[:_SHOWN] for value in (values[0], values[other]))
            raise InputError(
                f"{key}: rank 0 has {first}, rank {other} has {second}; allowed: the same on all ranks"
            )


@lru_cache(maxsize=1)
def bare_control() -> Control:
    """The control plane of all ranks without devices; collective the first time.

    Raises
    ------
    MissingExtra
        If there are several ranks, but no mpi4py.
    InputError
        If the ranks do not see one another.
    """
    if environment.ranks() == 1:
        return SoloControl()
    try:
        from mpi4py import MPI
    except ImportError:
        raise MissingExtra("more than one rank", "mpi") from None
    if MPI.COMM_WORLD.Get_size() != environment.ranks():
        raise InputError(
            f"ranks: {environment.ranks()} were started, but mpi4py sees {MPI.COMM_WORLD.Get_size()}; "
            "mpiexec and mpi4py must belong to the same MPI"
        )
    from wavefabric.exchange.control import MPIControl

    return MPIControl(MPI.COMM_WORLD)


def end_together(control: Control) -> None:
    """From now on an uncaught error of one rank's script ends all ranks; they would wait for it for ever."""
    if _guarded:
        return
    _guarded.append(control)
    before = sys.excepthook

    def hook(kind, error, trace) -> None:
        before(kind, error, trace)
        sys.stderr.flush()
        if control.settle("", 1, _PATIENCE) is None:
            control.abort(1)

    sys.excepthook = hook
