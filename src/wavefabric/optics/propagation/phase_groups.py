"""Arrange the Kerr coupling κ for the kernels: phase groups of rows, and a small matrix between them.

κ of a coupled mode group, or of the two polarisations of a mode, has equal rows: the rows of one *phase
group* get the same phase and contribute only through their total power. With G groups the Kerr operator costs
G² products per time sample instead of (2M)²; a factorisation κ = U V of rank r costs 2Gr.

Every rank computes the powers of its phase groups and receives those of all others. A group whose rows are on
several ranks counts as one *part* on each: κ is expanded to parts, so that no sum over ranks is needed. A
rank stores only the rows of γκ for its parts, in one block per rank (Brehler et al., section 4.4).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np

from wavefabric.base.errors import InputError, choice
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.rank_modes import RankModes

#: Forms of the Kerr coupling, and those in which ranks may exchange powers.
KERR_FORMS = ("auto", "dense", "factored", "svd")
EXCHANGE_FORMS = ("auto", "dense", "factored")


@dataclass(frozen=True)
class PhaseGroupCoupling:
    """Holds γκ, rad/(W m), between the phase groups of one rank and the phase groups of all ranks."""

    #: ``"dense"`` (every row is a group, the paper's form), ``"factored"`` (exact groups) or ``"svd"``.
    form: str
    #: Number of phase groups of the whole field.
    groups: int
    #: Number of groups or parts of groups on each rank, whose powers are exchanged.
    parts: tuple[int, ...]
    #: First local row of each local part, and the number of local rows last: (local parts + 1,).
    start: np.ndarray
    #: γκ blocks, (local parts, parts of rank r) for each rank r.
    blocks: list[np.ndarray]
    #: Low-rank factors of the block of a single rank, (G, r) and (r, G); r = 0 if the block is used directly.
    left: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    right: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    #: Singular values dropped by the factors.
    dropped: np.ndarray = field(default_factory=lambda: np.zeros(0))

    rank: int = field(init=False)  # rank of the factors
    own_groups: int = field(init=False)  # number of groups, or parts of groups, of this rank's rows
    group_of_row: np.ndarray = field(init=False)  # group or part of each local row, non-decreasing from 0
    products: int = field(init=False)  # multiplications per time sample for all phases on a single rank

    def __post_init__(self):
        rank, own = self.left.shape[1], self.start.size - 1
        products = 2 * self.groups * rank if rank else self.groups**2
        rows = np.repeat(np.arange(own), np.diff(self.start))
        vars(self).update(rank=rank, own_groups=own, group_of_row=rows, products=products)

    @property
    def transposed(self) -> "PhaseGroupCoupling":
        """Return the coupling with γκ transposed, on a single rank; adjoints multiply gradients by (γκ)ᵀ."""
        return replace(self, blocks=[self.blocks[0].T], left=self.right.T, right=self.left.T)


def exchange_form(exchange: str, kerr: str) -> str:
    """Return the form of γκ on several ranks that two options select; InputError if the options conflict."""
    choice("exchange", exchange, EXCHANGE_FORMS)
    choice("kerr", kerr, KERR_FORMS)
    if kerr == "svd":
        raise InputError('kerr: "svd" given with several ranks; allowed: auto, dense, factored')
    if "auto" not in (exchange, kerr) and exchange != kerr:
        raise InputError(f'exchange: "{exchange}" given with kerr = "{kerr}"; allowed: the same, or auto')
    return kerr if exchange == "auto" else exchange


def find_phase_groups(kappa_rows: np.ndarray) -> np.ndarray:
    """Return the number of each row's phase group, (rows,): adjacent rows with equal κ share a group."""
    same = (kappa_rows[1:] == kappa_rows[:-1]).all(axis=1)
    same &= (kappa_rows[:, 1:] == kappa_rows[:, :-1]).all(axis=0)
    return np.concatenate(([0], np.cumsum(~same)))


def phase_group_coupling(
    kappa_rows, gamma: float, form: str = "auto", tolerance: float = 1e-12
) -> PhaseGroupCoupling:
    """Arrange γκ (κ between rows, (2M, 2M); γ in 1/(W m)) in the form ``form``, by default the cheapest.

    ``dense``: the paper's form, every row separately. ``factored``: exact, by phase groups. ``svd``: low rank
    over the groups, dropping singular values below ``tolerance`` times the largest. ``auto``: the cheapest
    form that is exact to round-off. InputError if κ is not square and finite, or the form is unknown.
    """
    kappa = np.asarray(kappa_rows, float)
    choice("kerr", form, KERR_FORMS)
    if kappa.ndim != 2 or kappa.shape[0] != kappa.shape[1] or not np.isfinite(kappa).all():
        raise InputError(f"kappa: shape {kappa.shape} given; allowed: a square matrix of finite numbers")
    if not 0 <= tolerance < 1:
        raise InputError(f"svd_tolerance: {tolerance} given; allowed: 0 to 1")

    exact = partial(_exact, kappa, gamma, ends=(0, len(kappa)))
    if form in EXCHANGE_FORMS[1:]:
        return exact(form)
    factored = exact("factored")
    # "auto" drops only singular values at round-off, so that all its choices agree to 1e-12.
    u, s, v = np.linalg.svd(factored.blocks[0])
    floor = tolerance if form == "svd" else 8 * np.finfo(float).eps
    keep = max(1, int((s > floor * s[0]).sum()))
    low = replace(factored, form="svd", left=u[:, :keep] * s[:keep], right=v[:keep], dropped=s[keep:])
    if form == "svd":
        return low
    return min((factored, low, exact("dense")), key=lambda coupling: coupling.products)


def rank_phase_group_coupling(
    fibre: Fibre, local_modes: RankModes, exchange: str = "auto", kerr: str = "auto"
) -> PhaseGroupCoupling:
    """Arrange γκ for one rank of several, in the form that the options ``exchange`` and ``kerr`` select.

    By default it is the form in which ranks exchange fewer powers.
    """
    form, rank = exchange_form(exchange, kerr), local_modes.rank
    exact = partial(_exact, fibre.kappa_rows(), fibre.gamma, ends=local_modes.row_ends, rank=rank)
    coupling = exact("factored" if form == "auto" else form)
    return exact("dense") if form == "auto" and sum(coupling.parts) == fibre.rows else coupling


def _exact(kappa: np.ndarray, gamma: float, form: str, ends: Sequence[int], rank: int = 0):
    """Return γκ for rank ``rank``: between field rows if ``form`` is "dense", else between phase groups.

    ``ends`` has the first row of each rank; its last element is the number of rows.
    """
    group = np.arange(len(kappa)) if form == "dense" else find_phase_groups(kappa)
    first = np.unique(group, return_index=True)[1]  # first row of each group, which represents it
    firsts = [first[np.unique(group[a:b])] for a, b in pairwise(ends)]
    mine, own = group[ends[rank] : ends[rank + 1]], firsts[rank]
    start = np.append(np.flatnonzero(np.diff(mine, prepend=-1)), mine.size)
    blocks = [np.ascontiguousarray(gamma * kappa[np.ix_(own, theirs)]) for theirs in firsts]
    return PhaseGroupCoupling(form, int(group[-1]) + 1, tuple(f.size for f in firsts), start, blocks)
