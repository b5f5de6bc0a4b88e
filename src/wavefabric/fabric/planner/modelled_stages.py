"""Runs the ultrasound solver's fused step without arrays, to find the order of its kernels and exchanges.

`FusedCudaStages` and its layouts define the order. The layouts here inherit it; they launch and exchange
nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import Any

from wavefabric.acoustics.fused.fused_cuda import FusedCudaStages
from wavefabric.acoustics.fused.fused_layout import FusedLayout
from wavefabric.acoustics.fused.plane_layout import PlaneLayout
from wavefabric.acoustics.solver.step import Step

#: A function that receives the name of a kernel and the number of its runs over the whole grid.
Launch = Callable[[str, float], None]
#: Layers per launch of kernels whose times in device files are for a whole launch.
_TOGETHER = {"x_velocity": 3, "y_gradient": 2}


class ModelledKernels:
    """Stands in for `AxisKernels`: reports each launch and computes nothing."""

    def __init__(self, launch: Launch):
        self._launch = launch

    def run(self, name: str, *_: Any, layers: int = 1) -> None:
        self._launch(name, layers / _TOGETHER.get(name, 1))

    def y_transform(self, spectra: Sequence[Any], inverse: bool) -> None:
        self._launch("y_transform", len(spectra))

    def z_scale(self, spectra: Sequence[Any], operators: Any, numbers: Sequence[int]) -> None:
        self._launch("z_scale", len(numbers))


def without_fields(layout: Any, launch: Launch, axes: int = 3) -> None:
    """Prepare ``layout`` for stages without data: kernels only call ``launch``, arrays are None."""
    layout.plane_kernels = layout.column_kernels = ModelledKernels(launch)
    layout.spectra, layout.exchanged = [None] * axes, None
    layout.squares = layout.up = layout.down = layout.up_columns = [None] * 3


class _WholeGrid(FusedLayout):
    def __init__(self, launch: Launch):
        without_fields(self, launch)


class _Plane(PlaneLayout):
    def __init__(self, launch: Launch):
        without_fields(self, launch, 2)


class _ModelledStages(FusedCudaStages):
    """Runs the solver's stages for a medium with ``laplacians`` fractional Laplacians, without sources."""

    def __init__(self, layout: Any, laplacians: int):
        axes = len(layout.spectra)
        self.layout, self.transforms, self._state = layout, 0, None
        self._spectra = layout.spectra
        self._planes, self._columns = layout.plane_kernels, layout.column_kernels
        medium = {"lossy": laplacians > 0, "stokes": False, "disperses": laplacians > 1, "axes": axes}
        operators = dict.fromkeys(("dt", "eta_factor", "nabla1", "nabla2"))
        self.coefficients: Any = SimpleNamespace(**medium, **operators)
        self.fields: Any = SimpleNamespace(p=None, u=[None] * axes, clock=None, three=list)
        self.sources: Any = SimpleNamespace(refresh=lambda *_: None)

    def _structures_for(self, active: tuple[bool, ...]) -> tuple:
        return None, None


def advance(layout: Any, laplacians: int) -> None:
    """Run a step of ``layout``, prepared by `without_fields`, with ``laplacians`` fractional Laplacians."""
    Step(_ModelledStages(layout, laplacians)).advance(())


@cache
def kernel_runs(laplacians: int, flat: bool = False) -> Mapping[str, float]:
    """Return how often a step with ``laplacians`` fractional Laplacians runs each kernel.

    In a plane (``flat``) there are two velocity components, not three.
    """
    runs: dict[str, float] = {}

    def launch(name: str, count: float) -> None:
        runs[name] = runs.get(name, 0) + count

    advance((_Plane if flat else _WholeGrid)(launch), laplacians)
    return MappingProxyType(runs)
