"""Ways to move data between ranks: none, MPI from host memory, MPI from device memory, NCCL, peer copies."""
