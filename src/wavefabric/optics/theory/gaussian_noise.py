r"""Nonlinear interference of a link: the Gaussian-noise model of many modes, and its enhanced form.

Of ∂A_i/∂z = L̂A_i + iγ Σ_j κ_ij P_j A_i, P_j the power of row j, the first order in γ has the power spectrum

.. math::
    S_i(f) = γ^2 \sum_j κ_{ij}^2 (1 + δ_{ij}) \iint G_i(f_1) G_j(f_2) G_j(f_1+f_2-f) |μ_{ij}|^2 \,df_1 df_2

if symbols are Gaussian and rows independent; μ stands in `wavefabric.optics.theory.response`. Interference is
what the matched filter lets through: ∫ S_i times the raised-cosine spectrum of the channel. With one mode and
κ = 8/9 the two polarisations together give the factor 16/27 of P. Poggiolini et al., J. Lightwave Technol. 32
(2014), doi 10.1109/JLT.2013.2295208. Many modes: C. Antonelli, O. Golani, M. Shtaif, A. Mecozzi, Opt. Express
25 (2017), doi 10.1364/OE.25.013055.

Symbols from a finite set interfere less: see `wavefabric.optics.theory.modulation`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavefabric.errors import InputError
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.signal.constellation import Constellation
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.theory import kernels
from wavefabric.optics.theory.modulation import corrections
from wavefabric.optics.theory.quadrature import Sampling, nodes_of
from wavefabric.optics.theory.response import Accumulation, Steps
from wavefabric.optics.theory.sums import RowKind, Sums, walk_off
from wavefabric.quantities import positive, whole


@dataclass(frozen=True)
class Spans:
    """``count`` equal spans of ``length``, m or text, each followed by a flat power gain.

    ``gain`` is linear, None for the mean loss of a span.

    ``coherent`` adds up the spans' fields, otherwise their powers.
    """

    length: Any
    count: int = 1
    gain: float | None = None
    coherent: bool = True

    def __post_init__(self):
        object.__setattr__(self, "length", positive(self.length, "m", "length"))
        whole("count", self.count, 1)
        if self.gain is not None:
            object.__setattr__(self, "gain", positive(self.gain, "", "gain"))

    def amplifier_gain(self, fibre: Fibre) -> float:
        """Power gain of an amplifier, linear."""
        return math.exp(fibre.alpha.mean() * self.length) if self.gain is None else self.gain

    def nominal_gain(self, fibre: Fibre) -> float:
        """Power gain of a span of mean loss with its amplifier, to which an OSNR refers."""
        return 1.0 if self.gain is None else self.gain * math.exp(-fibre.alpha.mean() * self.length)

    def net_gain(self, fibre: Fibre) -> NDArray[np.float64]:
        """Power gain of a span with its amplifier by mode, (modes,)."""
        loss = fibre.alpha * self.length
        return np.exp(loss.mean() - loss) if self.gain is None else self.gain * np.exp(-loss)


@dataclass(frozen=True)
class Options:
    """How interference is estimated.

    - ``modulation``: whether symbols count as what they are (`modulation`) or as Gaussian.
    - ``phase_window``: symbols of the receiver's carrier-phase estimate, which takes slow phase noise away;
      None for the mean phase only.
    - ``symbols``: length of the periodic sequence, None for an endless one.
    - ``steps``: equal steps of an integrator, whose spurious interference then is in the result.
    - ``sample_rate``: width of the simulated band, Hz; what is mixed to frequencies beyond it then comes back
      into it. None for all frequencies.
    - ``channels``: indices of those to receive, None for all; the others' interference is NaN.
    """

    modulation: bool = True
    phase_window: int | None = None
    symbols: int | None = None
    steps: Steps | None = None
    sample_rate: float | None = None
    channels: tuple[int, ...] | None = None


def nonlinear_interference(
    fibre: Fibre, transmitter: Transmitter, spans: Spans, options: Options | None = None
) -> NDArray[np.float64]:
    """Power of nonlinear interference behind the matched filter after the last span, W, (modes, channels).

    Both polarisations together; `fibre` expanded at the grid's centre frequency. 0 for a dark channel of a
    row without light at f1. `InputError` for channels that do not exist.
    """
    options = options or Options()
    grid = transmitter.grid
    order = np.argsort(grid.offsets)
    comb = kernels.Comb(grid.offsets[order], grid.symbol_rate, transmitter.rolloff)
    mine = range(grid.channels) if options.channels is None else options.channels
    if bad := [c for c in mine if not 0 <= c < grid.channels]:
        raise InputError(f"channels: {bad[0]} given; allowed: 0 to {grid.channels - 1}")
    received = np.flatnonzero(np.isin(order, mine))
    kinds = _kinds(fibre, transmitter.powers(fibre.modes)[:, order] / 2 / grid.symbol_rate, spans)
    spread = walk_off(kinds, comb)
    # The phased array resolves mismatches of 1/(n L), which delays turn into frequencies.
    scale = 1 / (4 * math.pi * spans.count * spans.length * max(spread, 1e-18))
    rate = options.sample_rate
    sampling = Sampling(min(scale, comb.rate), options.phase_window, options.symbols)
    nodes = [
        nodes_of(comb, received, replace(sampling, alias=alias))
        for alias in ((0.0, rate, -rate) if rate else (0.0,))
    ]
    squares = (fibre.gamma * fibre.kappa_rows()) ** 2
    form = transmitter.format if options.modulation else Constellation("gaussian")
    by_row = np.full((fibre.rows, grid.channels), np.nan)
    by_row[:, order[received]] = 0.0
    for j in kinds:
        accumulation = Accumulation(j.alpha, spans.length, spans.count, j.gain, spans.coherent, options.steps)
        for part in nodes:
            sums = Sums(comb, part, j, accumulation, spread)
            for i in kinds:
                mixed = _interference(sums, i, squares, form)
                by_row[np.array(i.rows)[:, None], order[received]] += i.gain**spans.count * mixed
    return by_row[0::2] + by_row[1::2]


def _interference(sums: Sums, i: RowKind, squares: np.ndarray, form: Constellation) -> np.ndarray:
    """What rows j of ``sums`` do to rows i, W before gain, (rows of i, received channels)."""
    j = sums.j
    own = np.diagonal(squares)[i.rows] if i is j else np.zeros(len(i.rows))
    others = squares[np.ix_(i.rows, j.rows)].sum(axis=1) - own
    whole_sum, slow = sums.gaussian(i)
    excess = corrections(sums, i, form if not sums.nodes.alias else Constellation("gaussian"))
    # Slow phase noise that a row gives itself is in both its halves: f1 ≈ f, and f2 ≈ f.
    return np.multiply.outer(others, whole_sum - slow + excess.cross) + np.multiply.outer(
        own, 2 * (whole_sum - 2 * slow) + excess.own
    )


def _kinds(fibre: Fibre, density: np.ndarray, spans: Spans) -> list[RowKind]:
    """Rows by what distinguishes their sums; ``density`` (modes, channels)."""
    kinds: dict[bytes, RowKind] = {}
    net = spans.net_gain(fibre)
    for mode in range(fibre.modes):
        key = np.concatenate([fibre.beta[mode], [fibre.alpha[mode]], density[mode]]).tobytes()
        one = RowKind(fibre.beta[mode], float(fibre.alpha[mode]), float(net[mode]), density[mode])
        kinds.setdefault(key, one).rows.extend((2 * mode, 2 * mode + 1))
    return list(kinds.values())
