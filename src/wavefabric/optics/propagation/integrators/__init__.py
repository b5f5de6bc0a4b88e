"""Integrators of the multimode nonlinear Schrödinger equation, named as in the field."""

from wavefabric.optics.propagation.integrators.base import Integrator
from wavefabric.optics.propagation.integrators.composition import BlanesMoan
from wavefabric.optics.propagation.integrators.erk43ip import ERK43IP
from wavefabric.optics.propagation.integrators.rk4ip import RK4IP
from wavefabric.optics.propagation.integrators.ssfm import SSFMRK4, SSFMAgrawal
from wavefabric.optics.propagation.integrators.strang import Strang

#: Integrator classes by the name used in run files.
INTEGRATORS: dict[str, type[Integrator]] = {
    kind.name: kind for kind in (SSFMAgrawal, SSFMRK4, RK4IP, Strang, BlanesMoan, ERK43IP)
}

__all__ = ["ERK43IP", "INTEGRATORS", "RK4IP", "SSFMRK4", "BlanesMoan", "Integrator", "SSFMAgrawal", "Strang"]
