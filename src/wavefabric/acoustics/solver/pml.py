"""The perfectly matched layer (PML): the factors by which it damps velocities and split densities.

Tabei, Mast & Waag 2002 (doi:10.1121/1.1421344), Treeby & Cox 2010 (doi:10.1117/1.3360308).
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem


def pml(n: int, size: int, alpha: float, speed: float, spacing: float, dt: float, *, staggered: bool):
    """Factors of the perfectly matched layer along one axis, shape (n,); applied twice per update.

    exp(−Δt/2 · α c_ref/Δx · d⁴), with d from 1 at the outer edge to 0 at the inner one (Tabei, Mast &
    Waag 2002, doi:10.1121/1.1421344; Treeby & Cox 2010, eq. (14)).
    """
    factor = np.ones(n)
    if size:
        i = np.arange(size) + (0.5 if staggered else 0.0)
        strength = dt / 2 * alpha * speed / spacing
        factor[:size] = np.exp(-strength * ((i - size) / -size) ** 4)
        factor[n - size :] = np.exp(-strength * ((i + 1) / size) ** 4)
    return factor


def pml_factors(problem: Problem, staggered: bool, subdomain: Subdomain | None = None) -> list[np.ndarray]:
    """`pml` of every axis of the whole grid, x first, at the points of a subdomain."""
    subdomain = subdomain or Subdomain.whole(problem.shape)
    c_ref, dt = problem.reference_speed, problem.dt
    layers = zip(subdomain.shape, problem.pml_size, problem.pml_alpha, problem.spacing, strict=True)
    return [
        pml(n, size, alpha, c_ref, spacing, dt, staggered=staggered)[subdomain.indices(axis)]
        for axis, (n, size, alpha, spacing) in enumerate(islice(layers, problem.dimensions))
    ]
