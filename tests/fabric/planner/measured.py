"""Every step of a simulation that docs/lab-book.md times on H200s, beside its prediction.

``python tests/fabric/planner/measured.py`` prints the table of docs/plan.md.
"""

from pathlib import Path
from typing import NamedTuple

from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.cli.bench.solver_rates import first_modes
from wavefabric.fabric import load
from wavefabric.fabric.planner.exchange_times import SIGNALS, ExchangeTimes
from wavefabric.fabric.planner.fibre_step import FibreStep, kerr_coupling
from wavefabric.fabric.planner.rates import load_rates
from wavefabric.fabric.planner.ultrasound_step import StepMedium, UltrasoundStep
from wavefabric.optics.propagation.rank_modes import RankModes

FORMER = Path(__file__).parents[2] / "data" / "planner" / "h200-former.json"
HOM, HET, TISSUES = StepMedium("homogeneous"), StepMedium("heterogeneous", 2), StepMedium("tissues", 2)


class Row(NamedTuple):
    """One time: where it stands, the step, ms measured and predicted."""

    section: str
    what: str
    measured: float
    predicted: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def fibre_one(rows, log2_n, integrator, precision, form="auto", rates="h200"):
    modes = rows // 2
    alone = RankModes((0, modes))
    coupling = kerr_coupling(first_modes(modes), alone, form)
    how = {"precision": precision, "rates": load_rates(rates)}
    step = FibreStep(coupling, 1 << log2_n, integrator, alone, **how)
    return 1e3 * step.times().step


def fibre_ranks(ranks, carrier, form, rates, chunks=None, modes=15):
    ends = RankModes(tuple(range(0, modes * ranks + 1, modes)))
    exchange = ExchangeTimes(load("hgx-h200"), carrier)
    coupling = kerr_coupling(first_modes(modes * ranks), ends, form)
    how = {"precision": "double", "rates": load_rates(rates), "exchange": exchange}
    return 1e3 * FibreStep(coupling, 1 << 21, "rk4ip", ends, chunks, **how).times().step


def ultrasound(
    shape, ranks=1, carrier="", medium=HOM, rates="h200", stages="fused", recorded=(0, False), **cut
):
    partition = decompose(shape, ranks, Decomposition(**cut) if ranks > 1 else None)
    exchange = ExchangeTimes(load("hgx-h200"), carrier) if carrier else None
    how = {"precision": "single", "rates": load_rates(rates), "exchange": exchange}
    step = UltrasoundStep(partition, medium, stages, recorded, **how)
    return 1e3 * step.times().step


def rows() -> list[Row]:
    """All of them."""
    result: list[Row] = []

    def add(section, what, measured, predicted):
        result.append(Row(section, what, measured, predicted))

    for part in (_one_device, _former_fibre, _former_ultrasound, _one_sided):
        part(add)
    return result


def _one_device(add) -> None:
    one = "One step on an H200"
    for rows, integrator, precision, ms in (
        (30, "rk4ip", "double", 9.11), (30, "rk4ip", "single", 4.93), (30, "strang", "double", 2.30),
        (30, "strang", "single", 1.24), (240, "strang", "double", 19.6), (240, "strang", "single", 9.71),
    ):  # fmt: skip
        add(
            one,
            f"{rows} rows x 2^21, {integrator}, {precision}",
            ms,
            fibre_one(rows, 21, integrator, precision),
        )
    runs = "120 modes x 60 channels x 160 km, s"
    for precision, steps, seconds in (("double", 16, 345), ("single", 16, 169), ("single", 32, 340)):
        predicted = steps * fibre_one(240, 21, "strang", precision)
        add(runs, f"{steps}000 steps, {precision}", seconds, predicted)

    one = "One ultrasound step on an H200"
    times = {256: (0.985, 1.51), 512: (7.49, 11.5), 1024: (70.7, 106.9)}
    for n, both in times.items():
        for medium, ms in zip((HOM, HET), both, strict=True):
            add(one, f"{n}^3, {medium.form}", ms, ultrasound((n,) * 3, medium=medium))
    for n, ms in ((256, 1.48), (512, 11.3)):
        add(one, f"{n}^3, tissues", ms, ultrasound((n,) * 3, medium=TISSUES))
    for n, both in {256: (2.01, 2.89), 512: (16.5, 23.9)}.items():
        for medium, ms in zip((HOM, HET), both, strict=True):
            add(one, f"{n}^3, {medium.form}, plain", ms, ultrasound((n,) * 3, medium=medium, stages="plain"))
    forward = "Gradients on an H200 (forward runs of 10 000 steps, a sensor)"
    for medium, seconds in ((HOM, 1.80), (StepMedium("tissues", 2), 2.81), (StepMedium("tissues", 2), 2.89)):
        ms = ultrasound((128,) * 3, medium=medium, recorded=(0, True))
        add(forward, f"128^3, {medium.form}", seconds / 10, ms)


def _former_fibre(add) -> None:
    section = "Fibre over ranks (former kernels)"
    two = {
        "factored": {"p2p": 18.1, "nccl": 18.3, "mpi-cuda": 19.0, "mpi": 72.2},
        "dense": {"p2p": 25.6, "nccl": 27.2, "mpi-cuda": 26.2, "mpi": 412.0},
    }
    for form, times in two.items():
        chunks = 8 if form == "dense" else 4
        add(section, f"one rank, {form}", {"factored": 16.1, "dense": 20.1}[form],
            fibre_one(30, 21, "rk4ip", "double", form, FORMER))  # fmt: skip
        for carrier, ms in times.items():
            add(section, f"2 ranks, {form}, {carrier}", ms, fibre_ranks(2, carrier, form, FORMER, chunks))
    for form, carrier, ms in (("factored", "p2p", 19.5), ("factored", "nccl", 18.8), ("dense", "p2p", 37.7)):
        add(section, f"4 ranks, {form}, {carrier}", ms, fibre_ranks(4, carrier, form, FORMER, 8, 14))


def _former_ultrasound(add) -> None:
    section = "Ultrasound over ranks (former kernels)"
    cuts = {
        "1x1x4": (10.77, 11.04, 15.32, 15.58), "1x4x1": (11.18, 11.06, 15.78, 15.58),
        "4x1x1": (12.57, 12.38, 18.02, 17.86), "1x2x2": (12.04, 11.73, 17.00, 16.63),
        "2x1x2": (13.89, 13.65, 20.19, 19.70), "2x2x1": (14.00, 13.63, 20.08, 19.73),
    }  # fmt: skip
    for words, times in cuts.items():
        grid = tuple(map(int, words.split("x")))
        shape = tuple(480 * blocks if blocks > 1 else 512 for blocks in grid)
        variants = ((HOM, "p2p"), (HOM, "nccl"), (TISSUES, "p2p"), (TISSUES, "nccl"))
        for (medium, carrier), ms in zip(variants, times, strict=True):
            cut = {"kind": "local", "grid": grid}
            add(section, f"4 ranks, {words}, {medium.form}, {carrier}", ms,
                ultrasound(shape, 4, carrier, medium, FORMER, **cut))  # fmt: skip
    for medium, carrier, ms in (
        (HOM, "p2p", 25.65), (HOM, "nccl", 25.30), (TISSUES, "p2p", 35.85), (TISSUES, "nccl", 35.68),
    ):  # fmt: skip
        add(section, f"4 ranks, global, {medium.form}, {carrier}", ms,
            ultrasound((512, 512, 2048), 4, carrier, medium, FORMER))  # fmt: skip
    by_overlap = {4: (13.7, 13.8, 13.9, 19.0), 16: (10.9, 10.9, 10.8, 28.6), 32: (14.4, 14.5, 14.2, 50.8)}
    for overlap, times in by_overlap.items():
        for carrier, ms in zip(("p2p", "nccl", "mpi-cuda", "mpi"), times, strict=True):
            cut = {"kind": "local", "grid": (1, 1, 2), "overlap": overlap}
            add(section, f"2 ranks, 512x512x960, overlap {overlap}, {carrier}", ms,
                ultrasound((512, 512, 960), 2, carrier, rates=FORMER, **cut))  # fmt: skip
    for shape, kind, carrier, ms in (
        ((480, 480, 960), "local", "p2p", 11.6), ((480, 480, 960), "global", "p2p", 18.3),
        ((1024,) * 3, "local", "p2p", 64.8), ((1024,) * 3, "global", "p2p", 89.0),
        ((1536, 1024, 2048), "local", "p2p", 217.0),
        ((512, 512, 1024), "global", "p2p", 20.1), ((512, 512, 1024), "local", "p2p", 14.0),
        ((512, 512, 1024), "global", "nccl", 22.2), ((512, 512, 1024), "local", "nccl", 14.0),
        ((1024,) * 3, "global", "nccl", 98.2), ((1024,) * 3, "local", "nccl", 64.8),
    ):  # fmt: skip
        cut = {"kind": kind, "grid": (1, 1, 2)}
        words = "x".join(map(str, shape))
        add(section, f"2 ranks, {words}, {kind}, {carrier}", ms,
            ultrasound(shape, 2, carrier, rates=FORMER, **cut))  # fmt: skip


def _one_sided(add) -> None:
    section = "One-sided exchange"
    add(section, "one rank, factored", 9.55, fibre_one(30, 21, "rk4ip", "double"))
    add(section, "one rank, dense", 13.2, fibre_one(30, 21, "rk4ip", "double", "dense"))
    for form, times in {"factored": (11.2, 11.3, 9.71), "dense": (18.0, 20.0, 14.2)}.items():
        for carrier, ms in zip(("p2p", "nccl", SIGNALS), times, strict=True):
            add(section, f"2 ranks, {form}, {carrier}", ms, fibre_ranks(2, carrier, form, "h200"))
    for shape, kind, carrier, ms in (
        ((480, 480, 960), "local", "p2p", 9.64), ((480, 480, 960), "global", "p2p", 16.3),
        ((480, 480, 960), "local", SIGNALS, 9.66), ((480, 480, 960), "global", SIGNALS, 13.6),
        ((1024,) * 3, "local", "p2p", 49.7), ((1024,) * 3, "global", "p2p", 64.0),
        ((1024,) * 3, "local", SIGNALS, 49.6), ((1024,) * 3, "global", SIGNALS, 51.7),
        ((512, 512, 1024), "local", SIGNALS, 12.0), ((512, 512, 1024), "global", SIGNALS, 12.3),
        ((512,) * 3, "local", SIGNALS, 5.71), ((512,) * 3, "global", SIGNALS, 6.11),
        ((256,) * 3, "local", SIGNALS, 0.929), ((256,) * 3, "global", SIGNALS, 0.978),
    ):  # fmt: skip
        words = "x".join(map(str, shape))
        add(section, f"2 ranks, {words}, {kind}, {carrier}", ms,
            ultrasound(shape, 2, carrier, kind=kind, grid=(1, 1, 2)))  # fmt: skip


if __name__ == "__main__":
    section = ""
    for row in rows():
        if row.section != section:
            section = row.section
            print(f"| **{section}** | | | |")
        print(f"| {row.what} | {row.measured:.4g} | {row.predicted:.4g} | {row.ratio:.2f} |")
