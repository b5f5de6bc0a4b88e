"""Table of the fused CPU kernels of the time step, each of which accesses every array once.

A 3-D transform consists of one along x and y in every z plane and one along z in columns of a few vectors,
with a barrier in between. All pointwise work happens while its rows or columns are in cache. A lossless step
takes four passes over memory, a step with power-law absorption six; with whole-array transforms it would take
10 or 14 transforms of two passes each, and the pointwise kernels. ∂x and ∂y share their transform along z. In
two dimensions the second axis replaces z (Ny is 1), so a plane is a single row; in one dimension Nz is 1 too.

Between kernels arrays are transformed only along x and y. κ and the derivatives multiply a spectrum as it is
transformed back. ``kernels/cpu/planes.cpp`` explains the kernels; the kernels of
`wavefabric.acoustics.solver.kernels` are their reference.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from wavefabric.runtime.kernels.cpu_launch import address, medium_words
from wavefabric.runtime.kernels.table import kernel_table

#: Codes of derivatives, at points half a spacing up or down, and of absorption.
NONE, UP, DOWN = range(3)
LOSSLESS, STOKES, POWER_LAW = range(3)

TABLE = kernel_table(
    """
    once transform_planes(plan lines, array real, array spectrum)
    once transform_planes_back(plan lines, array real, array spectrum, int by_x, int by_y)
    once add_derivatives(plan lines, array out, array a, optional array b)
    once multiply_columns(plan lines, array spectrum, array operator, int derivative, optional array more)
    once gradient_columns(plan lines, array s0, optional array s1, array kappa)
    once velocity_planes(plan lines, array s0, optional array s1, real dt, component ux, component uy,
        component uz, source delayed)
    once density_planes(plan lines, array rho, array in_x, optional array in_y, optional array in_z, layers
        layers, array p, state medium, real dt, source source, real parts, int nonlinear, int losses, array
        s0, optional array s1)
    once pressure_planes(plan lines, array p, array s0, optional array s1, array rho, state medium, int
        nonlinear)
    """
)


class StepSource(NamedTuple):
    """Describes how a source acts on a field in the time step whose number ``clock`` holds.

    With a ``pattern``, which is a field, the signal times the pattern is added. Otherwise the signal is added
    at points; with ``replace`` it replaces the field there. The points in row r of the grid have the numbers
    ``first[r]`` to ``first[r + 1]`` − 1, and ``index`` is their index in the row. ``signal`` has a row per
    step, with one column for all points or one per point, column ``position``. A ``delayed`` signal is a
    single series, of which a point uses sample ``position`` + step.
    """

    pattern: Any = None
    first: Any = None
    index: Any = None
    position: Any = None
    signal: Any = None
    delayed: bool = False
    replace: bool = False
    clock: Any = None

    def words(self) -> Sequence[float]:
        """Return the members of the C struct ``Source`` of ``planes.cpp``."""
        arrays = [0 if a is None else address(a) for a in self[:5]]
        columns, samples = 0, 0
        if self.signal is not None:
            columns, samples = self.signal.shape[-1], self.signal.size if self.delayed else 0
        return *arrays, columns, samples, self.replace, 0 if self.clock is None else address(self.clock)


class VelocityComponent(NamedTuple):
    """Describes a velocity component: field, ρ₀ at its points, PML factors, source and spectrum.

    A component whose field is None does not exist.
    """

    u: Any = None
    density: Any = None
    pml: Any = None
    source: StepSource = StepSource()
    spectrum: Any = None

    def words(self) -> Sequence[float]:
        """Return the members of the C struct ``Component`` of ``planes.cpp``."""
        if self.u is None:
            return 0, 0, 0, 0, *StepSource().words(), 0
        ends = address(self.pml), *self.source.words(), address(self.spectrum)
        return address(self.u), *medium_words(self.density), *ends


class MediumState(NamedTuple):
    """Holds c₀, ρ₀, B/A and τ, each as a whole array or as one row that serves all rows, and η/(τ c₀)."""

    speed: Any
    density: Any
    ratio: Any
    tau: Any
    eta_factor: float

    def words(self) -> Sequence[float]:
        """Return the members of the C struct ``State`` of ``planes.cpp``."""
        return *(word for parameter in self[:4] for word in medium_words(parameter)), self.eta_factor
