"""Build collectives with multicasts and reductions by a switch: NVLink SHARP (NVLS), InfiniBand SHARP."""

import numpy as np

from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule

#: Collectives for which `nvls` uses reductions by the switch, and for which it uses multicasts.
_READ, _WRITTEN = ("all-reduce", "reduce-scatter", "reduce"), ("all-reduce", "all-gather", "broadcast")


def nvls(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Build a collective from switch operations: a write reaches all ranks, a read returns the sum of all.

    Each rank reads the sum of its part from the switch (``multimem.ld_reduce``) and writes it to all
    (``multimem.st``): NCCL's NVLS, the two-shot all-reduce of MSCCL++ and PyTorch; its pieces form a
    pipeline. A broadcast or reduce is one operation of the root. As in the hardware, a rank's own data go to
    the switch too and come back (Klenk et al. 2020, doi:10.1109/ISCA45697.2020.00085).
    """
    shared = collective == "all-reduce"
    conditions = layout(collective, ranks, elements, pieces * ranks if shared else pieces, root)
    # Each rank processes one part of the array; of a reduce or broadcast, the root processes all.
    owner = np.array([root]) if collective in ("reduce", "broadcast") else np.arange(ranks)
    axes = np.meshgrid(owner, np.arange(pieces), np.arange(ranks), indexing="ij")
    here, piece, there = (grid.ravel() for grid in axes)
    chunk = here * pieces + piece if owner.size > 1 else piece
    parts = []
    for second, which, ends in ((0, _READ, (there, here)), (1, _WRITTEN, (here, there))):
        if collective in which and ranks > 1:
            number = (piece + second) * shared  # a piece is written while the next is read
            parts.append(_by_switch(transfers(number, *ends, chunk), 2 * chunk + 1 + second * shared))
    return assemble(f"nvls {collective}", conditions, parts)


def nvls_one_shot(collective: str, ranks: int, elements: int, pieces: int = 1) -> Schedule:
    """Build an all-reduce in one round: every rank reads the sum of the whole array from the switch.

    The switch receives N times the volume of `nvls`, at half the latency. No rank may overwrite data that
    others still read, so sums are read into scratch memory.
    """
    conditions = layout(collective, ranks, elements, pieces)
    src, dst = np.divmod(np.arange(ranks * ranks), ranks)
    own, parts = np.arange(ranks), []
    if ranks > 1:
        parts.append(_by_switch(transfers(0, src, dst, 0, count=pieces, buffers=(0, 1)), dst + 1))
        parts.append(transfers(1, own, own, 0, count=pieces, buffers=(1, 0)))
    return assemble(f"nvls-one-shot {collective}", conditions, parts, conditions.sizes[0])


def _by_switch(part: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Mark transfers as operations of a switch; those of equal ``number`` and round are one operation."""
    part["switch"] = number
    return part
