"""Integrators of the multimode nonlinear Schrödinger equation, named as in the field; they call operators
alone.

To add one: write a class with ``name``, ``order`` and ``step`` beside these, and name it in `INTEGRATORS`.
They import nothing but each other and the type of the operators.
"""

from wavefabric.optics.propagation.integrators.base import Integrator
from wavefabric.optics.propagation.integrators.rk4ip import ERK43IP, RK4IP
from wavefabric.optics.propagation.integrators.split_step import SSFMRK4, BlanesMoan, SSFMAgrawal, Strang

#: Integrator classes by the name used in run files and on the command line: the one list of them.
INTEGRATORS: dict[str, type[Integrator]] = {
    kind.name: kind for kind in (SSFMAgrawal, SSFMRK4, RK4IP, Strang, BlanesMoan, ERK43IP)
}

__all__ = ["ERK43IP", "INTEGRATORS", "RK4IP", "SSFMRK4", "BlanesMoan", "Integrator", "SSFMAgrawal", "Strang"]
