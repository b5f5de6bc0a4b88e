"""Choose the stages for a device and its ranks, and say what memory a run takes."""

from __future__ import annotations

import numpy as np

from wavefabric.acoustics.materials.find import find_materials
from wavefabric.acoustics.parallel.decomposition import Decomposition, decompose
from wavefabric.acoustics.parallel.fused_cuda import FusedCudaGlobalStages, FusedCudaLocalStages
from wavefabric.acoustics.parallel.fused_peers_cuda import FusedCudaGlobalPeerStages
from wavefabric.acoustics.parallel.restrict import restrict_problem
from wavefabric.acoustics.parallel.stages import GlobalStages, LocalStages
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.recorder import recorder_bytes
from wavefabric.acoustics.solver.axis_passes_cuda import longest_axes
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.fused_cuda import FusedCudaStages
from wavefabric.acoustics.solver.source_terms import SourceTerms
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.exchange import Communicator
from wavefabric.spectral.vector_butterflies import PRIMES

#: The plain stages and those fused for GPUs, of one rank and of several.
_PLAIN = {"one": Stages, "global": GlobalStages, "local": LocalStages}
_CUDA = {"one": FusedCudaStages, "global": FusedCudaGlobalStages, "local": FusedCudaLocalStages}


def make_stages(
    device,
    problem: Problem,
    dtype,
    plain: bool = False,
    comm: Communicator | None = None,
    decomposition: Decomposition | None = None,
) -> Stages:
    """The fastest stages that this device has for a problem of the whole grid, or the ``plain`` ones.

    Collective with several ranks, which share the grid by a ``decomposition``, a global one by default.
    """
    if comm is None or comm.size == 1:
        comm, rank, decomposition = None, 0, decompose(problem.shape, 1)
    else:
        rank, decomposition = comm.rank, decomposition or decompose(problem.shape, comm.size)
    subdomain = decomposition.subdomains[rank]
    stores = comm is not None and comm.stores
    kind = _kind(device, np.dtype(dtype), decomposition, plain, stores)
    local = restrict_problem(problem, subdomain)
    pitch = kind.pitch(subdomain, dtype)
    coefficients = Coefficients(device, local, dtype, pitch, subdomain, kind.by_index)
    stages = kind(coefficients, Fields(coefficients), comm, decomposition)
    stages.transform_pressure()
    return stages


def _kind(
    device, dtype, decomposition: Decomposition, plain: bool = False, stores: bool = False
) -> type[Stages]:
    """The class of stages, the same on all ranks; ``stores`` as of `Communicator`."""
    sharing = "one" if decomposition.ranks == 1 else decomposition.options.kind
    fused: type[Stages] = _CUDA[sharing]
    if device.name == "cpu":
        from wavefabric.acoustics.solver.fused_cpu import FusedCpuStages  # here: it takes Numba along

        fused = FusedCpuStages if sharing == "one" else _PLAIN[sharing]
    kind = fused if not plain and fused.supports(decomposition, dtype) else _PLAIN[sharing]
    return FusedCudaGlobalPeerStages if stores and kind is FusedCudaGlobalStages else kind


def advice(device, problem: Problem, dtype, decomposition: Decomposition | None = None) -> list[str]:
    """What a user may want to know of how his problem is solved, a sentence each.

    That the plain stages serve in three dimensions because of the grid; or that the medium is held by index.
    """
    decomposition = decomposition or decompose(problem.shape, 1)
    kind = _kind(device, np.dtype(dtype), decomposition)
    if kind.by_index:
        note = find_materials(problem, dtype).note()
        return [note] if note else []
    one = decomposition.ranks == 1
    if problem.dimensions == 2 or kind not in _PLAIN.values() or (device.name == "cpu" and not one):
        return []
    sizes = " and ".join(sorted({" x ".join(map(str, part.basis)) for part in decomposition.subdomains}))
    if device.name == "cpu":
        fused = f"grids of prime factors up to {PRIMES[-1]}"
    else:
        slabs = " in slabs along z" if decomposition.options.kind == "global" and not one else ""
        longest = " x ".join(map(str, longest_axes(dtype)))
        fused = f"grids{slabs} of prime factors up to 7, even along x, of at most {longest} points"
    return [
        f"transforms of whole arrays of {sizes} points; passes that fuse them with all other work, twice as "
        f"fast, take {fused}"
    ]


def needed_bytes(
    problem: Problem,
    recording: Recording,
    dtype,
    device,
    decomposition: Decomposition | None = None,
    stores: bool = False,
) -> int:
    """Bytes that a run allocates on its device, within a few per cent; on the rank with most.

    ``stores``: whether the ranks' communicator does, see `Communicator`.
    """
    dtype = np.dtype(dtype)
    decomposition = decomposition or decompose(problem.shape, 1)
    kind = _kind(device, dtype, decomposition, stores=stores)
    materials = find_materials(problem, dtype) if kind.by_index else None
    return max(
        Coefficients.nbytes(problem, subdomain, dtype, device, materials)
        + Fields.nbytes(problem, subdomain, dtype)
        + SourceTerms.nbytes(problem, subdomain, dtype)
        + kind.nbytes(problem, dtype, device, decomposition, rank)
        + recorder_bytes(problem, recording, subdomain, dtype)
        for rank, subdomain in enumerate(decomposition.subdomains)
    )
