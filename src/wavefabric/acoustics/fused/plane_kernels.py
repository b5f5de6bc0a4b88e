"""Passes of the fused time step on a CPU: each touches every array once, with the transforms inside.

A 3-D transform is one along x and y in every z plane, and one along z in columns of a few vectors. Between
the two kinds lies a barrier; all pointwise work happens while its rows or columns are in cache. A lossless
step is four passes, one with power-law absorption six; with whole-array transforms it would be 10 or 14
transforms of two passes each, and the pointwise kernels. ∂x and ∂y share their transform along z. In two
dimensions the second axis takes the place of z (Ny is 1), and a pass over planes has rows alone; in one
dimension Nz is 1 too.

Between passes only x and y are transformed. κ and the derivatives multiply a spectrum as it is transformed
back. The kernels of `wavefabric.acoustics.solver.kernels` are the reference for these, which
``kernels/cpu/planes.cpp`` explains.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from wavefabric.kernels.cpu_launch import address, medium_words
from wavefabric.kernels.table import kernel_table

#: Derivatives at points half a step to one or the other side, and what follows from the density.
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
    """A source's action on a field in the step that ``clock`` counts.

    Either ``pattern`` times the signal is added; or the signal is added at points, or replaces the field
    there (``replace``). The points of row r of the grid are ``first[r]`` to ``first[r + 1]`` − 1, at
    ``index`` in the row. ``signal`` has a row per step, with a column per point (``position`` is its number)
    or one for all; if it is ``delayed``, it is one series, of which a point gets number ``position`` + step.
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
        """Return the structure ``Source`` of ``planes.cpp``."""
        arrays = [0 if a is None else address(a) for a in self[:5]]
        columns, samples = 0, 0
        if self.signal is not None:
            columns, samples = self.signal.shape[-1], self.signal.size if self.delayed else 0
        return *arrays, columns, samples, self.replace, 0 if self.clock is None else address(self.clock)


class VelocityComponent(NamedTuple):
    """A component of the velocity: field, ρ₀ at its points, PML factors, source and spectrum; or none."""

    u: Any = None
    density: Any = None
    pml: Any = None
    source: StepSource = StepSource()
    spectrum: Any = None

    def words(self) -> Sequence[float]:
        """Return the structure ``Component`` of ``planes.cpp``."""
        if self.u is None:
            return 0, 0, 0, 0, *StepSource().words(), 0
        ends = address(self.pml), *self.source.words(), address(self.spectrum)
        return address(self.u), *medium_words(self.density), *ends


class MediumState(NamedTuple):
    """c₀, ρ₀, B/A and τ, each a full grid or one row for all; η/(τ c₀)."""

    speed: Any
    density: Any
    ratio: Any
    tau: Any
    eta_factor: float

    def words(self) -> Sequence[float]:
        """Return the structure ``State`` of ``planes.cpp``."""
        return *(word for parameter in self[:4] for word in medium_words(parameter)), self.eta_factor
