"""A pressure ball in water, on all ranks that were started: one Fourier basis for the grid, then one a block.

Alone: python examples/ranks_ultrasound.py
Four ranks: mpiexec -n 4 python examples/ranks_ultrasound.py
"""

import numpy as np

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.runtime.exchange import world

comm = world()  # all ranks; one if this was started alone

# Every rank gives the whole problem, the same on all.
grid = Grid((64, 64, 64), "0.2 mm", pml_size=8)
x, y, z = np.meshgrid(*grid.coordinates, indexing="ij", sparse=True)  # m
ball = 1e5 * np.exp(-(x**2 + y**2 + z**2) / (2 * 0.5e-3**2))  # Pa, where blocks meet
water, source = Medium(1500.0, 1000.0), Source(p0=ball, smooth=False)

fields = []  # local is the same as global on one rank
for options in (Decomposition("global"), Decomposition("local", overlap=8))[: comm.size]:
    results = simulate(
        grid, water, source, Sensor(record="p_final"), t_end="2 us", comm=comm, decomposition=options
    )
    fields.append(results["p_final"])  # all of it, on every rank
    report = results.report
    if comm.rank == 0:
        seconds = f"{report.steps} steps in {report.seconds['simulation']:.1f} s"
        print(f"ranks: {report.ranks}, {report.decomposition or 'undivided'}: {seconds}")

if comm.rank == 0 and comm.size > 1:
    apart = np.linalg.norm(fields[1] - fields[0]) / np.linalg.norm(fields[0])
    print(f"final pressure, local against global: {apart:.1e} apart (relative L2)")
