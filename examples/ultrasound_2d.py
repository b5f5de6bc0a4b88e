"""A pressure disc expands in water and meets a layer that is faster and denser: ultrasound in 2-D."""

import sys

import matplotlib.pyplot as plt
import numpy as np

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
from wavefabric.base.files.output import check_output

path = check_output(sys.argv[1] if len(sys.argv) > 1 else "ultrasound_2d.png", force=True)  # before the work
grid = Grid((128, 128), "0.1 mm", pml_inside=False)  # the absorbing layer lies around these points
x, y = np.meshgrid(*grid.coordinates, indexing="ij")  # m

layer = x > 2e-3
medium = Medium(
    sound_speed=np.where(layer, 1800.0, 1500.0),  # m/s
    density=np.where(layer, 1200.0, 1000.0),  # kg/m³
    alpha_coeff=0.75,  # dB/(MHz^1.5 cm)
    alpha_power=1.5,
)
disc = Source(p0=1e5 * (x**2 + y**2 < 1e-3**2))  # Pa
sensor = Sensor(x == x.min(), record=("p", "p_final"))

results = simulate(grid, medium, disc, sensor, t_end="3 us")
print(results, results.report, sep="\n")

millimetres = [y.min() * 1e3, y.max() * 1e3, x.max() * 1e3, x.min() * 1e3]
plt.imshow(results["p_final"] / 1e3, extent=millimetres, cmap="RdBu_r", vmin=-20, vmax=20)
plt.colorbar(label="pressure / kPa")
plt.axhline(2, color="grey", linestyle=":")
plt.xlabel("y / mm")
plt.ylabel("x / mm")
plt.title(f"{results.time[-1] * 1e6:.1f} µs")
plt.savefig(path, dpi=120)
