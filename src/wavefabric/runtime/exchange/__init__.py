"""Communicate between ranks: communicators, transports, running schedules, and starting ranks.

This package may import ``device``, ``collectives``, ``results``, ``files``, ``system`` and ``errors``. No
other package imports MPI or NCCL.
"""

from wavefabric.base.lazy import lazy

#: Imported on first use: every command asks `environment` whether it is a rank, and most need no more.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "transports": ("TRANSPORTS",),
        "communicator": ("Communicator", "solo", "world"),
        "transports.base": ("Exchange",),
    },
)
