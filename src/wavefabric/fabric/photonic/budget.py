"""Computes link budgets: the optical power that arrives over a circuit, and the bit rates it can carry."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from wavefabric.base.errors import ensure
from wavefabric.fabric.photonic.circuit_plan import Bundle, CircuitPlan
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import FORMATS, LinkBudget, bit_error_rate, required_q
from wavefabric.fabric.photonic.tile_grid import edge_numbers, flat_edges

#: Formats and rates (bit/s per wavelength) to try, slowest first.
RATES = (*(("NRZ", rate) for rate in (10e9, 15e9, 20e9, 28e9)), *(("PAM4", rate) for rate in (112e9, 224e9)))


@dataclass(frozen=True)
class ReachableRate:
    """Holds whether one modulation format and bit rate closes over a route, and by what margin."""

    format: str  # key of `FORMATS`
    rate: float  # bit/s
    ber: float  # bit error rate
    limit: float  # largest bit error rate allowed
    sensitivity_dbm: float  # received power needed for `limit`
    margin_db: float  # received power above sensitivity; negative if the link does not close
    closes: bool


@dataclass(frozen=True)
class BudgetResult:
    """Holds the link budget of one route."""

    losses: tuple[tuple[str, float], ...]  # name and loss in dB of each element
    loss_db: float  # total loss
    received_dbm: float  # mean power on the photodiode
    reaches: tuple[ReachableRate, ...]  # one per element of `RATES`
    best_rate: float  # bit/s, highest rate that closes; 0 if none does
    margin_db: float  # at the best rate; if none closes, at the slowest rate (negative)


def budget(fabric: PhotonicFabric, route: Sequence[int], budget: LinkBudget | None = None) -> BudgetResult:
    """Return the loss of a route (tiles, source first, destination last) and the rates that close over it.

    Without ``budget`` the fabric's budget is used, or else `LinkBudget()`. Raises `InputError` for a route of
    fewer than two tiles, or with tiles that are no neighbours.

    A link closes at a rate if the bit error rate is within its limit, which sets the least Q = (I₁ −
    I₀)/(2σ). At mean power P, responsivity ℛ and extinction ratio r the currents of the highest and lowest
    level differ by I₁ − I₀ = 2 ℛ P (r − 1)/(r + 1). The noise is σ = i_n √B, where i_n is its density and B
    the bandwidth ratio × the symbol rate. Crosstalk, dispersion and laser noise are neglected.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.photonic.budget import budget
    >>> near, far = (budget(load("lightpath-256"), range(n)) for n in (2, 9))
    >>> [f"{r.loss_db:.2f} dB, {r.best_rate / 1e9:.0f} Gbit/s" for r in (near, far)]
    ['6.85 dB, 224 Gbit/s', '23.11 dB, 28 Gbit/s']
    """
    tiles, known = [int(tile) for tile in route], set(fabric.edges())
    ensure(len(tiles) >= 2, "route", f"{tiles} given", "at least two tiles")
    for a, c in pairwise(tiles):
        ensure((a, c) in known, "route", f"{a} -> {c} given", f"neighbours of tiles 0 to {fabric.ranks - 1}")
    fibred = sum(fabric.wafer(a) != fabric.wafer(c) for a, c in pairwise(tiles))
    return _evaluate(fabric, len(tiles) - 1 - fibred, fibred, budget)


def rates(
    fabric: PhotonicFabric, routes: Sequence[Sequence[int]], budget: LinkBudget | None = None
) -> np.ndarray:
    """Return for each route the largest rate in B/s at which the link of one wavelength closes, else 0."""
    if not len(routes):
        return np.zeros(0)
    edges, first = flat_edges(fabric.columns, routes)
    between_wafers = [e for e in fabric.edges() if fabric.wafer(e[0]) != fabric.wafer(e[1])]
    fibres = edge_numbers(fabric.columns, *np.array(between_wafers, int).reshape(-1, 2).T)
    fibred = np.add.reduceat(np.isin(edges, fibres).astype(int), first[:-1])
    # Losses depend only on the number of edges of each kind.
    kinds, kind = np.unique(np.stack((np.diff(first) - fibred, fibred), axis=1), axis=0, return_inverse=True)
    return np.array([_evaluate(fabric, n, m, budget).best_rate / 8 for n, m in kinds.tolist()])[kind.ravel()]


def slowest_circuit(plan: CircuitPlan, budget: LinkBudget | None = None) -> tuple[float, Bundle | None]:
    """Return the lowest rate of a plan's circuits in B/s per wavelength, and the circuit that has it.

    The plan must be checked; without circuits the result is (inf, None).
    """
    worst: tuple[float, Bundle | None] = (math.inf, None)
    # Rounds with the same pairs share their bundles.
    for bundles in {id(part.bundles): part.bundles for part in plan.rounds}.values():
        closing = rates(plan.fabric, [b.route for b in bundles], budget)
        if closing.size and closing.min() < worst[0]:
            worst = float(closing.min()), bundles[int(closing.argmin())]
    return worst


def _evaluate(fabric: PhotonicFabric, stitched: int, fibred: int, budget: LinkBudget | None) -> BudgetResult:
    """Return the link budget of a route with ``stitched`` edges within and ``fibred`` between wafers."""
    b, edges = budget or fabric.budget or LinkBudget(), stitched + fibred
    losses = (
        ("modulator", b.modulator_loss),
        ("switches", 2 * edges * b.switch_loss),
        ("crossings", (edges - 1) * b.crossings * b.crossing_loss),
        ("reticle boundaries", stitched * b.reticle_loss),
        ("propagation", edges * fabric.tile_pitch * b.propagation_loss),
        ("fibre coupling", 2 * fibred * b.coupling_loss),
        ("receiver", b.receiver_loss),
    )
    loss = math.fsum(db for _, db in losses)
    received = b.launch_power - loss
    reaches = tuple(_reach(b, fmt, rate, received) for fmt, rate in RATES)
    closing = [r for r in reaches if r.closes]
    shown = max(closing or reaches[:1], key=lambda r: r.rate)
    return BudgetResult(losses, loss, received, reaches, shown.rate if closing else 0.0, shown.margin_db)


def _reach(b: LinkBudget, fmt: str, rate: float, received: float) -> ReachableRate:
    limit = b.nrz_limit if fmt == "NRZ" else b.pam4_limit
    baud = rate / FORMATS[fmt][0]
    noise = b.noise_current * math.sqrt(b.bandwidth_ratio * baud)
    r = 10 ** (b.extinction_ratio / 10)
    # Q of the outer eye for each W of mean power.
    slope = b.responsivity * (r - 1) / (r + 1) / noise
    sensitivity = 10 * math.log10(required_q(fmt, limit) / slope / 1e-3)
    q = slope * 1e-3 * 10 ** (received / 10)
    margin = received - sensitivity
    return ReachableRate(fmt, rate, bit_error_rate(fmt, q), limit, sensitivity, margin, margin >= 0)
