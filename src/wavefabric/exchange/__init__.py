"""How ranks talk: communicators, transports, schedules that run on them, and how ranks are started.

May import ``device``, ``collectives``, ``results``, ``files``, ``system`` and ``errors``; alone imports MPI
and NCCL.
"""

from wavefabric.lazy import lazy

#: Late: every command asks `environment` whether it is a rank, and most need nothing heavier.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "transports": ("TRANSPORTS",),
        "communicator": ("Communicator", "solo", "world"),
        "transports.base": ("Exchange",),
    },
)
