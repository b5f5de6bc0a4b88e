"""Ways to move data between ranks: MPI from host memory, MPI from device memory, NCCL, peer copies.

A transport is a module with an `Exchange` and a `Transport`, a name in `TRANSPORTS`, and a line in `select`.
May import `exchange` below the communicator, and alone CuPy and NCCL.
"""

#: Transports by name, with what tables and figures call them. ``auto`` takes ``mpi`` on CPUs; on GPUs ``p2p``
#: where all can reach one another, else ``nccl``, else ``mpi``.
TRANSPORTS = {
    "auto": "automatic",
    "mpi": "MPI",
    "mpi-cuda": "MPI, device memory",
    "nccl": "NCCL",
    "p2p": "P2P",
}
#: Those that a kind of device can use, fastest first.
BY_DEVICE = {"cpu": ("mpi",), "cuda": ("p2p", "nccl", "mpi-cuda", "mpi")}
