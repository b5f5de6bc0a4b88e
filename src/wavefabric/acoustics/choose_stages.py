"""Chooses the implementation of a time step (its *stages*) for a device, and estimates a run's memory."""

from typing import Any, NamedTuple

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition, decompose
from wavefabric.acoustics.fused.axis_blocks import longest_axes
from wavefabric.acoustics.fused.fused_cpu import FusedCpuStages
from wavefabric.acoustics.fused.fused_cuda import FusedCudaStages
from wavefabric.acoustics.fused.fused_layout import FusedLayout
from wavefabric.acoustics.fused.plane_layout import PlaneLayout
from wavefabric.acoustics.materials.find import Materials, find_materials
from wavefabric.acoustics.parallel.fused_layouts import FusedGlobalLayout, FusedLocalLayout, OneSidedLayout
from wavefabric.acoustics.parallel.layouts import GlobalLayout, LocalLayout
from wavefabric.acoustics.parallel.restrict import restrict_problem
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.recorder import recorder_bytes
from wavefabric.acoustics.solver import kernels
from wavefabric.acoustics.solver.axisymmetric import AxisymmetricStages
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.layout import FieldLayout
from wavefabric.acoustics.solver.source_terms import SourceTerms
from wavefabric.acoustics.solver.stages import PlainStages, Stages
from wavefabric.base.errors import ensure
from wavefabric.runtime.exchange.communicator import Communicator


class Form(NamedTuple):
    """Names the class that computes time steps and the class that distributes its fields over the ranks."""

    stages: type[Any]
    layout: type[FieldLayout]

    def supports(self, decomposition: Partition, dtype: np.dtype) -> bool:
        bases = {subdomain.basis for subdomain in decomposition.subdomains}
        served = self.stages.supports(decomposition.shape, bases, dtype)
        return served and self.layout.supports(decomposition, dtype)


#: Forms by kind of decomposition ("one": a single rank): whole-array transforms, and fused kernels for GPUs.
PLAIN = {
    "one": Form(PlainStages, FieldLayout),
    "global": Form(PlainStages, GlobalLayout),
    "local": Form(PlainStages, LocalLayout),
}
CUDA = {
    "one": Form(FusedCudaStages, FusedLayout),
    "global": Form(FusedCudaStages, FusedGlobalLayout),
    "local": Form(FusedCudaStages, FusedLocalLayout),
}
#: Forms for axisymmetric grids.
RADIAL = {"one": Form(AxisymmetricStages, FieldLayout), "global": Form(AxisymmetricStages, GlobalLayout)}
_ONE_SIDED = Form(FusedCudaStages, OneSidedLayout)


def begin_compiling(device, dtype) -> None:
    """Start to compile the kernels that depend only on the precision ``dtype``; do nothing on a CPU."""
    device.kernels(kernels.TABLE).load(np.dtype(dtype))


def _on_one_device(problem: Problem) -> Partition:
    return decompose(problem.shape, 1, stacked=problem.stacked)


def make_stages(
    device,
    problem: Problem,
    dtype,
    plain: bool = False,
    comm: Communicator | None = None,
    decomposition: Partition | None = None,
    indexed: bool = True,
) -> Stages:
    """Return the fastest implementation of a time step for ``problem`` on ``device``.

    ``problem`` describes the whole grid. If ``comm`` has several ranks, all must call this function, and
    ``decomposition`` (by default a global one) divides the grid among them. ``plain`` selects transforms of
    whole arrays, not fused kernels. ``indexed`` allows a medium of few materials to be stored as indices into
    a table.
    """
    if comm is None or comm.size == 1:
        comm, rank, decomposition = None, 0, _on_one_device(problem)
    else:
        rank, decomposition = comm.rank, decomposition or decompose(problem.shape, comm.size)
    subdomain = decomposition.subdomains[rank]
    one_sided = comm is not None and comm.one_sided
    kind, layout = stages_form(device, problem, np.dtype(dtype), decomposition, plain, one_sided)
    local = restrict_problem(problem, subdomain)
    pitch = kind.pitch(subdomain, np.dtype(dtype))
    coefficients = Coefficients(device, local, dtype, pitch, subdomain, kind.by_index and indexed)
    stages = kind(layout(coefficients, comm, decomposition))
    stages.begin(local)
    return stages


def stages_form(
    device, problem: Problem, dtype, decomposition: Partition, plain: bool = False, one_sided: bool = False
) -> Form:
    """Return the classes that compute the time steps of a run and distribute its fields over the ranks.

    ``plain`` selects transforms of whole arrays, not fused kernels. ``one_sided`` says whether kernels can
    write into the memory of other ranks.
    """
    sharing = "one" if decomposition.ranks == 1 else decomposition.options.kind
    if problem.axisymmetric:
        ensure(sharing in RADIAL, "decomposition", f"{sharing} with an axisymmetric grid", "global")
        return RADIAL[sharing]
    fused = CUDA[sharing]
    if device.name == "cpu":
        fused = Form(FusedCpuStages, FieldLayout) if sharing == "one" else PLAIN[sharing]
    elif problem.dimensions < 3:
        fused = Form(FusedCudaStages, PlaneLayout) if sharing == "one" else PLAIN[sharing]
    form = fused if not plain and fused.supports(decomposition, dtype) else PLAIN[sharing]
    return _ONE_SIDED if one_sided and form is CUDA["global"] else form


def advice(device, problem: Problem, dtype, decomposition: Partition | None = None) -> list[str]:
    """Return notes to the user on how the problem is solved, one sentence each.

    A note says that the grid does not suit the fused kernels, or that the medium is stored by index.
    """
    decomposition = decomposition or _on_one_device(problem)
    form = stages_form(device, problem, np.dtype(dtype), decomposition)
    if form.stages.by_index:
        note = find_materials(problem, dtype).note()
        return [note] if note else []
    is_single = decomposition.ranks == 1
    d = problem.dimensions
    if d < (2 if is_single else 3) or form.stages is not PlainStages or device.name == "cpu":
        return []
    sizes = " and ".join(sorted({" x ".join(map(str, part.basis[:d])) for part in decomposition.subdomains}))
    slabs = " in slabs along z" if decomposition.options.kind == "global" and not is_single else ""
    x, y, _ = longest_axes(dtype)
    across = "y and z" if d > 2 else "y"
    return [
        f"transforms of whole arrays of {sizes} points; kernels that fuse them with all other work, faster, "
        f"take grids{slabs} of at most {2 * x} points along x (half as many if odd) and {y} along "
        f"{across} (half as many with prime factors above 13)"
    ]


def needed_bytes(
    problem: Problem,
    recording: Recording,
    dtype,
    device,
    decomposition: Partition | None = None,
    one_sided: bool = False,
    indexed: bool = True,
    materials: Materials | None = None,
) -> int:
    """Return the memory, in bytes, that a run needs on the device of the rank that needs the most.

    The estimate is correct within a few per cent. ``one_sided`` says whether kernels can write into the
    memory of other ranks, ``indexed`` whether a medium of few materials may be stored as indices into a
    table. ``materials`` is the result of `find_materials` if it is known already.
    """
    dtype = np.dtype(dtype)
    decomposition = decomposition or _on_one_device(problem)
    kind, layout = stages_form(device, problem, dtype, decomposition, one_sided=one_sided)
    known = (materials or find_materials(problem, dtype)) if kind.by_index and indexed else None
    return max(
        Coefficients.nbytes(problem, subdomain, dtype, device, known)
        + Fields.nbytes(problem, subdomain, dtype)
        + SourceTerms.nbytes(problem, subdomain, dtype)
        + kind.nbytes(problem, dtype, device, subdomain)
        + layout.nbytes(problem, dtype, decomposition, rank)
        + recorder_bytes(problem, recording, subdomain, dtype)
        for rank, subdomain in enumerate(decomposition.subdomains)
    )
