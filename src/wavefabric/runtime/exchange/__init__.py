"""Communicate between ranks: communicators, transports, running schedules, and starting ranks.

May import ``device``, ``collectives``, ``results``, ``files``, ``system`` and ``errors``. No other package
imports MPI or NCCL.
"""

from wavefabric.base.lazy import lazy

#: Loaded late: every command asks `environment` whether it is a rank, and most need nothing heavier.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "transports": ("TRANSPORTS",),
        "communicator": ("Communicator", "solo", "world"),
        "transports.base": ("Exchange",),
    },
)
