"""Data-parallel least squares: collective operations on arrays, between all ranks that were started.

Alone: python examples/collectives.py
Four ranks: mpiexec -n 4 python examples/collectives.py

NumPy on CPUs, CuPy where there are GPUs. PyTorch's tensors are given as they are, on CPUs and GPUs:
``comm.all_reduce(weights.grad)``.
"""

import time

from wavefabric.collectives import build
from wavefabric.runtime.exchange import world

comm = world()  # all ranks; tuning="tuning.json" says which algorithm is fastest for which size
xp = comm.device.xp  # numpy or cupy

# Everybody has 1000 equations of his own, and begins with the weights of rank 0.
random = xp.random.default_rng(comm.rank)
truth = xp.linspace(-1, 1, 64)
inputs = random.standard_normal((1000, 64))
outputs = inputs @ truth
weights = comm.broadcast(random.standard_normal(64), root=0)
for _ in range(100):
    gradient = inputs.T @ (inputs @ weights - outputs) / len(inputs)
    weights -= 0.5 * comm.all_reduce(gradient) / comm.size  # in place: the sum of all, to the same bits
error = abs(weights - truth).max()
everybody = comm.all_gather(xp.asarray(error))  # shape (ranks,)
assert (everybody == error).all()

# Entry r of an array goes to rank r; the entries that come are from ranks 0, 1, …
received = comm.all_to_all(xp.arange(comm.size) + 100 * comm.rank)
assert (received == 100 * xp.arange(comm.size) + comm.rank).all()
part = comm.reduce_scatter(xp.ones((comm.size, 3)))  # this rank's entry of the sum
assert (part == comm.size).all()

# Algorithms by name, or any schedule of one's own: here a ring that is pipelined more finely.
array = xp.zeros(1 << 20, "float32")
mine = build("ring", "all-reduce", comm.size, 4 * comm.size, pieces=4)
for algorithm in ("auto", "ring", "direct", mine):
    comm.all_reduce(array, algorithm=algorithm)  # the first call makes it ready
    comm.device.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        comm.all_reduce(array, algorithm=algorithm)
    comm.device.synchronize()
    if comm.rank == 0:
        name = algorithm if isinstance(algorithm, str) else "a schedule of one's own"
        print(f"all-reduce of 4 MiB, {name}: {(time.perf_counter() - start) * 100:.2f} ms")
if comm.rank == 0:
    print(f"{comm.size} ranks by {comm.transport} on {comm.device.name}: weights off by {float(error):.1e}")
