"""Link budget: how much light of a circuit arrives, and how many bits a second it can carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from wavefabric.errors import InputError
from wavefabric.fabric.photonic.ber import bit_error_rate, bits_per_symbol, needed_q
from wavefabric.fabric.photonic.edges import edge_numbers, flat_edges
from wavefabric.fabric.photonic.plan import Bundle, CircuitPlan
from wavefabric.fabric.photonic.wafer import PhotonicFabric

#: Formats and rates (bit/s a wavelength) that are tried, slowest first.
RATES = (
    ("NRZ", 10e9),
    ("NRZ", 15e9),
    ("NRZ", 20e9),
    ("NRZ", 28e9),
    ("PAM4", 112e9),
    ("PAM4", 224e9),
)
#: Bit error rates measured on LIGHTPATH, NRZ, by bit/s (LUMORPH paper, section 7), to compare with. They fall
#: as the rate rises, so they show how many bits were counted rather than how much light there was: upper
#: bounds.
MEASURED_BER = {10e9: 6.96e-13, 15e9: 6.62e-13, 20e9: 5.60e-14}


@dataclass(frozen=True)
class LinkBudget:
    """What a circuit loses and what its receiver needs.

    The LUMORPH paper measures the loss where tiles meet, and in waveguides. It gives neither launch power nor
    sensitivity: all other numbers are ours, typical of silicon photonics.

    Parameters
    ----------
    launch_power : float
        dBm of one laser.
    modulator_loss : float
        dB of a micro-ring modulator, that of the modulation included.
    extinction_ratio : float
        dB between highest and lowest level.
    switch_loss : float
        dB of one Mach–Zehnder switch. There is one where light enters an edge and one where it leaves it: a
        route over n edges passes 2 n.
    crossing_loss : float
        dB of one crossing of waveguides.
    crossings : float
        In each tile that is passed on the way, ends not included.
    reticle_loss : float
        dB from a tile to the next of the same wafer (measured: 0.25).
    propagation_loss : float
        dB/m in a waveguide (measured: below 40); each edge is as long as the pitch of tiles.
    coupling_loss : float
        dB between waveguide and fibre: twice for each edge from wafer to wafer.
    receiver_loss : float
        dB of the ring that takes the wavelength out to its photodiode.
    responsivity : float
        A/W of the photodiode.
    noise_current : float
        A/√Hz, thermal noise of the receiver referred to its input.
    bandwidth_ratio : float
        Noise bandwidth of the receiver by the symbol rate.
    nrz_limit, pam4_limit : float
        Bit error rates up to which a link closes: error-free without, and with forward error correction (1e-4
        in the paper).
    """

    launch_power: float = 10.0
    modulator_loss: float = 4.0
    extinction_ratio: float = 6.0
    switch_loss: float = 0.3
    crossing_loss: float = 0.02
    crossings: float = 4.0
    reticle_loss: float = 0.25
    propagation_loss: float = 40.0
    coupling_loss: float = 1.5
    receiver_loss: float = 1.0
    responsivity: float = 0.9
    noise_current: float = 18e-12
    bandwidth_ratio: float = 0.75
    nrz_limit: float = 1e-12
    pam4_limit: float = 1e-4

    def __post_init__(self) -> None:
        above = ("extinction_ratio", "responsivity", "noise_current", "bandwidth_ratio")
        for f in fields(self):
            value = getattr(self, f.name)
            least = "above 0" if f.name in above else "from 0"
            wrong = value <= 0 if f.name in above else value < 0
            if f.name == "launch_power":
                least, wrong = "finite", False
            if not math.isfinite(value) or wrong:
                raise InputError(f"{f.name}: {value} given; allowed: {least}")
        needed_q("NRZ", self.nrz_limit)
        needed_q("PAM4", self.pam4_limit)


@dataclass(frozen=True)
class Reach:
    """How well a format and rate gets through.

    Parameters
    ----------
    format : str
        ``"NRZ"`` or ``"PAM4"``.
    rate : float
        bit/s.
    ber, limit : float
        Bit error rate, and the greatest that is allowed.
    sensitivity_dbm : float
        dBm that must arrive for that.
    margin_db : float
        dB that arrive beyond that; negative if the link does not close.
    closes : bool
    """

    format: str
    rate: float
    ber: float
    limit: float
    sensitivity_dbm: float
    margin_db: float
    closes: bool


@dataclass(frozen=True)
class BudgetResult:
    """Link budget of one route.

    Parameters
    ----------
    losses : tuple of (str, float)
        What loses how much, dB.
    loss_db : float
        dB in all.
    received_dbm : float
        dBm on the photodiode, on average.
    reaches : tuple of Reach
        One for each of `RATES`.
    best_rate : float
        bit/s, the highest that closes; 0 if none does.
    margin_db : float
        dB, at the best rate; if none closes, what the slowest rate lacks (negative).
    """

    losses: tuple[tuple[str, float], ...]
    loss_db: float
    received_dbm: float
    reaches: tuple[Reach, ...]
    best_rate: float
    margin_db: float


def budget(fabric: PhotonicFabric, route: Sequence[int], budget: LinkBudget | None = None) -> BudgetResult:
    """Loss of a route, and the rates that close over it.

    Parameters
    ----------
    fabric : PhotonicFabric
    route : sequence of int
        Tiles, source first and destination last.
    budget : LinkBudget, optional
        By default the fabric's own, or else `LinkBudget()`.

    Returns
    -------
    BudgetResult

    Raises
    ------
    InputError
        For a route of fewer than two tiles, or with tiles that are no neighbours.

    Notes
    -----
    At mean power P and extinction ratio r the outer eye is I₁ − I₀ = 2 ℛ P (r − 1)/(r + 1), the noise
    σ = i_n √B with B the bandwidth ratio times the symbol rate, and Q = (I₁ − I₀)/(2σ); see `ber`.
    Crosstalk, dispersion and noise of the laser are left out.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.photonic.budget import budget
    >>> near, far = (budget(load("lightpath-256"), range(n)) for n in (2, 9))
    >>> [f"{r.loss_db:.2f} dB, {r.best_rate / 1e9:.0f} Gbit/s" for r in (near, far)]
    ['6.85 dB, 224 Gbit/s', '23.11 dB, 28 Gbit/s']
    """
    b = budget or fabric.budget or LinkBudget()
    return _result(b, _losses(fabric, *_edges(fabric, [int(t) for t in route]), b))


def rates(
    fabric: PhotonicFabric, routes: Sequence[Sequence[int]], budget: LinkBudget | None = None
) -> np.ndarray:
    """B/s that close on one wavelength of each route; 0 where none does. Shape (routes,).

    Parameters
    ----------
    fabric : PhotonicFabric
    routes : sequence of sequence of int
        From neighbour to neighbour, as in a plan that was checked.
    budget : LinkBudget, optional
        By default the fabric's own, or else `LinkBudget()`.
    """
    if not len(routes):
        return np.zeros(0)
    b = budget or fabric.budget or LinkBudget()
    across = [e for e in fabric.edges() if fabric.wafer(e[0]) != fabric.wafer(e[1])]
    fibre = np.zeros(4 * fabric.ranks, np.int64)
    if across:
        fibre[edge_numbers(fabric.columns, *np.array(across).T)] = 1
    edges, first = flat_edges(fabric.columns, routes)
    fibred = np.diff(np.concatenate(([0], np.cumsum(fibre[edges])))[first])
    # Losses depend on how many edges of either kind there are, and on nothing else.
    kinds, kind = np.unique(np.stack((np.diff(first) - fibred, fibred), axis=1), axis=0, return_inverse=True)
    best = [_result(b, _losses(fabric, n, m, b)).best_rate / 8 for n, m in kinds.tolist()]
    return np.array(best)[kind.ravel()]


def slowest(plan: CircuitPlan, budget: LinkBudget | None = None) -> tuple[float, Bundle | None]:
    """The circuit of a plan whose wavelengths carry least, by its link budget.

    Parameters
    ----------
    plan : CircuitPlan
        Checked.
    budget : LinkBudget, optional
        By default the fabric's own, or else `LinkBudget()`.

    Returns
    -------
    rate : float
        B/s of one wavelength, 0 if no rate closes; inf for a plan without circuits. To be compared with the
        fabric's `laser_bandwidth`, which costs assume.
    bundle : Bundle or None
        The first of that rate.
    """
    worst: tuple[float, Bundle | None] = (math.inf, None)
    # Rounds with the same pairs share their bundles.
    for bundles in {id(part.bundles): part.bundles for part in plan.rounds}.values():
        found = rates(plan.fabric, [b.route for b in bundles], budget)
        if found.size and found.min() < worst[0]:
            worst = float(found.min()), bundles[int(found.argmin())]
    return worst


def _result(b: LinkBudget, losses: tuple[tuple[str, float], ...]) -> BudgetResult:
    loss = math.fsum(db for _, db in losses)
    received = b.launch_power - loss
    reaches = tuple(_reach(b, fmt, rate, received) for fmt, rate in RATES)
    closing = [r for r in reaches if r.closes]
    shown = max(closing or reaches[:1], key=lambda r: r.rate)
    return BudgetResult(losses, loss, received, reaches, shown.rate if closing else 0.0, shown.margin_db)


def _edges(fabric: PhotonicFabric, route: list[int]) -> tuple[int, int]:
    """Edges of a route within wafers, and from wafer to wafer."""
    if len(route) < 2:
        raise InputError(f"route: {route} given; allowed: at least two tiles")
    stitched = fibred = 0
    for a, c in pairwise(route):
        (row, column), (next_row, next_column) = divmod(a, fabric.columns), divmod(c, fabric.columns)
        outside = not (0 <= a < fabric.ranks and 0 <= c < fabric.ranks)
        if outside or abs(row - next_row) + abs(column - next_column) != 1:
            raise InputError(f"route: {a} -> {c} given; allowed: neighbours of tiles 0 to {fabric.ranks - 1}")
        if fabric.wafer(a) == fabric.wafer(c):
            stitched += 1
        else:
            fibred += 1
    return stitched, fibred


def _losses(
    fabric: PhotonicFabric, stitched: int, fibred: int, b: LinkBudget
) -> tuple[tuple[str, float], ...]:
    edges = stitched + fibred
    return (
        ("modulator", b.modulator_loss),
        ("switches", 2 * edges * b.switch_loss),
        ("crossings", (edges - 1) * b.crossings * b.crossing_loss),
        ("reticle boundaries", stitched * b.reticle_loss),
        ("propagation", edges * fabric.tile_pitch * b.propagation_loss),
        ("fibre coupling", 2 * fibred * b.coupling_loss),
        ("receiver", b.receiver_loss),
    )


def _reach(b: LinkBudget, fmt: str, rate: float, received: float) -> Reach:
    limit = b.nrz_limit if fmt == "NRZ" else b.pam4_limit
    baud = rate / bits_per_symbol(fmt)
    noise = b.noise_current * math.sqrt(b.bandwidth_ratio * baud)
    r = 10 ** (b.extinction_ratio / 10)
    # Q of the outer eye for each W of mean power.
    slope = b.responsivity * (r - 1) / (r + 1) / noise
    sensitivity = 10 * math.log10(needed_q(fmt, limit) / slope / 1e-3)
    q = slope * 1e-3 * 10 ** (received / 10)
    margin = received - sensitivity
    return Reach(fmt, rate, bit_error_rate(fmt, q), limit, sensitivity, margin, margin >= 0)
