"""Published topologies: what others reach on them, where it was read, and why ours is slower where it is."""

from __future__ import annotations

from dataclasses import dataclass

GIB, GB, MB, KB = 2.0**30, 1e9, 1e6, 1e3
ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, ALL_TO_ALL = (
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "all-to-all",
)

_FORESTCOLL = (
    "optimum without latency, by the authors' code, github.com/liangyuRain/ForestColl, commit 3c13aee, on its"
    " topologies.py; arXiv:2402.06787"
)
_TE_CCL = (
    "github.com/microsoft/TE-CCL, commit c128bf2, teccl/examples/experiments/output_provided/{};"
    " doi:10.1145/3651890.3672249"
)
_TACCL = "as TE-CCL's authors ran it: the same, teccl/examples/experiments_output/tables/individual_tables"
_MESHES = "github.com/microsoft/TE-CCL, commit c128bf2, teccl/examples/schedules/mesh_{}.json: latency is 0"
_SCCL = (
    "7 rounds of 1/48 of the array in 3 steps: msccl solve pareto-optimal DGX1 Allgather in"
    " github.com/microsoft/msccl-tools, commit 030a750, SYNTHESIS.md; doi:10.1145/3437801.3441620"
)
_TACOS = "github.com/astra-sim/tacos, commit 1811f1f, tests/test_tacos_{}.cpp: best of 20; arXiv:2304.05301"


#: How published times count latency. In TE-CCL, TACCL and TACOS transfers wait for their data alone.
_COUNTS = {"ForestColl": "bandwidth", "TE-CCL": "flow", "TACCL": "flow", "TACOS": "flow"}


@dataclass(frozen=True)
class Row:
    """A collective operation on a published topology.

    Parameters
    ----------
    fabric : str
        File below tests/data/fabric, without its ending.
    collective : str
    nbytes : float
        Of the whole array.
    by : str
        Who published it, or "" if no time of it was found.
    published : float
        s; 0 without one.
    source : str
    """

    fabric: str
    collective: str
    nbytes: float
    by: str = ""
    published: float = 0.0
    source: str = ""

    @property
    def counts(self) -> str:
        """Return how the published time counts: as cost model "flow", without latency, or in "rounds"."""
        return _COUNTS.get(self.by, "rounds")

    @property
    def key(self) -> tuple[str, str, float, str]:
        return self.fabric, self.collective, self.nbytes, self.by


def _forestcoll() -> list[Row]:
    """Bandwidths in GB/s; a reduce-scatter takes the same trees reversed, an all-reduce both."""
    optima = (
        ("a100x1", 2400 / 7),
        ("a100x2", 16 / (0.6 / 13)),
        ("a100x4", 32 / 0.12),
        ("a100x8", 1600 / 7),
        ("mi250x1", 2400 / 7),
        ("mi250x2", 32 * 83 / 7.5),
    )
    return [
        Row(name, collective, GIB, "ForestColl", times * GIB / (rate * 1e9), _FORESTCOLL)
        for name, rate in optima
        for collective, times in ((ALL_GATHER, 1), (REDUCE_SCATTER, 1), (ALL_REDUCE, 2))
    ]


def _te_ccl() -> list[Row]:
    """The better of its outputs Fast and Slow, in µs. Fast_Early_Stop of DGX-2 is of twice the bytes."""
    outputs = (
        # The outputs for two NDv2 have a sixteenth less: 15 GPUs.
        ("ndv2x2-15", ALL_GATHER, 15 / 16, "NDv2_output/2_chassis/AllGather",
         {16 * KB: 4.44, MB: 48.75, GB: 43750.0}),
        ("ndv2x2-15", ALL_TO_ALL, 15 / 16, "NDv2_output/2_chassis/AlltoAll",
         {16 * KB: 7.94, MB: 290.0, GB: 283750.0}),
        ("ndv2x4", ALL_GATHER, 1, "NDv2_output/4_chassis/AllGather",
         {16 * KB: 5.81, MB: 69.375, GB: 65000.0}),
        ("dgx2x2", ALL_GATHER, 1, "DGX2_output/2_chassis/AllGather",
         {16 * KB: 4.084, MB: 10.75, GB: 7750.0}),
        ("dgx2x2", ALL_TO_ALL, 1, "DGX2_output/2_chassis/AlltoAll",
         {16 * KB: 4.704, MB: 84.25, GB: 80500.0}),
    )  # fmt: skip
    rows = [
        Row(fabric, collective, nbytes * part, "TE-CCL", us * 1e-6, _TE_CCL.format(folder))
        for fabric, collective, part, folder, times in outputs
        for nbytes, us in times.items()
    ]
    epochs = {4: 8, 6: 18}  # of 1 s, in each of which a link carries a GPU's 100 GB
    return rows + [
        Row(f"teccl-mesh-{side}", ALL_GATHER, GIB, "TE-CCL", count * GIB / (side**2 * 100e9),
            _MESHES.format(side))
        for side, count in epochs.items()
    ]  # fmt: skip


def _taccl() -> list[Row]:
    times = {16 * KB: 12.68, MB: 62.15, GB: 53766.7}
    return [Row("ndv2x2", ALL_GATHER, nbytes, "TACCL", us * 1e-6, _TACCL) for nbytes, us in times.items()]


def _tacos() -> list[Row]:
    """Its tests up to 60 GPUs; those of 70, 84 and 100 GPUs are left out."""
    times = (
        ("mesh-5x5", 1, 9606.0, "mesh_2d"),
        ("hetero-5x5", 1, 8005.0, "mesh_2d_hetero"),
        ("hetero-8x5", 1, 8595.43, "mesh_2d_hetero"),
        ("torus-3x3x3", 1, 3706.2, "torus_3d"),
        ("torus-3x4x5", 2, 6676.67, "torus_3d"),
        ("torus-4x2x3", 3, 11673.67, "torus_3d"),
        ("mesh-3x3x3", 1, 6671.17, "hypercube_3d"),
        ("mesh-3x4x5", 2, 13353.33, "hypercube_3d"),
        ("mesh-4x2x3", 3, 19178.17, "hypercube_3d"),
    )
    return [
        Row(f"tacos/{name}", ALL_GATHER, gib * GIB, "TACOS", us * 1e-6, _TACOS.format(test))
        for name, gib, us, test in times
    ]


def _unpublished() -> list[Row]:
    """Sums on topologies for which others give all-gathers alone."""
    names = ("dgx1-nvlinks", "ndv2x2", "ndv2x4", "dgx2x2", "teccl-mesh-4")
    return [Row(name, collective, GIB) for name in names for collective in (REDUCE_SCATTER, ALL_REDUCE)]


ROWS = (
    *_forestcoll(),
    *_te_ccl(),
    *_taccl(),
    Row("dgx1-nvlinks", ALL_GATHER, GIB, "SCCL", 3 * 0.7e-6 + 7 * GIB / 48 / 25e9, _SCCL),
    *_tacos(),
    *_unpublished(),
)
