"""Random linear coupling of modes along a fibre: sections of a correlation length, and random unitaries."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from wavefabric.device import philox
from wavefabric.errors import InputError, choice
from wavefabric.optics.fibre.fibre import Array, Fibre
from wavefabric.optics.fibre.mode_mixing import ModeMixing, haar_unitary
from wavefabric.quantities import positive

#: Rows that a random unitary of full strength couples.
COUPLED = ("groups", "polarisations")


@dataclass(frozen=True)
class RandomCoupling:
    """How light couples at random along a fibre. Quantities may be text with a unit.

    The fibre is cut into sections of ``correlation_length`` (m). In a section each field row has its own
    delay. Behind it a random unitary, drawn anew for each span and section, couples

    - ``within`` "groups": all rows of a mode group; "polarisations": the two of each mode.
    - ``between_groups``: neighbouring mode groups too: power coupling coefficient h, 1/m, so that on average
      dP_i/dz = h Σ_j (P_j − P_i) over the modes j of the groups next to that of mode i (D. Marcuse, Theory
      of Dielectric Optical Waveguides, 2nd ed., chapter 5).

    Delays of the rows beside those of the fibre's β1:

    - ``pmd``: polarisation-mode dispersion, s/√m: mean differential group delay over √length. Sections of
      differential delay Δτ add up at random, ⟨Δτ²⟩ = 3π/8 pmd² L (G. J. Foschini, C. D. Poole, J. Lightwave
      Technol. 9 (1991) 1439, doi 10.1109/50.97630).
    - ``delay_spread``: of the rows that ``within`` couples, root-mean-square group delay over √length, s/√m:
      σ = √K σ_section after K sections (K.-P. Ho, J. M. Kahn, J. Lightwave Technol. 29 (2011) 3119,
      doi 10.1109/JLT.2011.2165316).

    `InputError` for values out of range.
    """

    correlation_length: float | str
    within: str = "groups"
    pmd: float | str = 0.0
    delay_spread: float | str = 0.0
    between_groups: float | str = 0.0
    seed: int = 1

    def __post_init__(self):
        length = positive(self.correlation_length, "m", "correlation_length")
        object.__setattr__(self, "correlation_length", length)
        choice("within", self.within, COUPLED)
        for key, unit in (("pmd", "s/sqrt(m)"), ("delay_spread", "s/sqrt(m)"), ("between_groups", "1/m")):
            object.__setattr__(self, key, positive(getattr(self, key), unit, key, zero=True))
        philox.check_seed(self.seed)

    def sections(self, length: float) -> int:
        """Equal sections of a fibre of ``length`` m, of the correlation length or a little less each."""
        return max(1, math.ceil(length / float(self.correlation_length) - 1e-9))

    def block_modes(self, fibre: Fibre) -> list[int]:
        """Modes that a random unitary of full strength couples, for each block of neighbours."""
        return fibre.group_sizes.tolist() if self.within == "groups" else [1] * fibre.modes

    def fibre(self, fibre: Fibre, length: float) -> Fibre:
        """The same fibre with the delays of its rows in the sections of a span of ``length`` m.

        It refuses what does not fit the fibre, or sections beyond the numbers that Philox's streams have.
        """
        if self.within == "groups" and fibre.kappa_of != "group" and max(fibre.group_sizes) > 1:
            fault = "the fibre's kappa is that of modes which do not couple"
            raise InputError(
                f'within: "groups" given, but {fault}; allowed: "polarisations", or kappa of groups'
            )
        if self.between_groups and len(fibre.group_sizes) < 2:
            raise InputError("between_groups: given for one mode group; allowed: 0")
        if self.sections(length) * (fibre.modes + 1) >= 1 << 28:
            least = length * (fibre.modes + 1) / 2**28
            actual = f"{float(self.correlation_length):g} m given"
            raise InputError(f"correlation_length: {actual}; allowed: {least:.2g} m or more")
        section = length / self.sections(length)
        delays = np.zeros(fibre.rows) if fibre.row_delays is None else np.array(fibre.row_delays)
        # A row each: ± half of √(3π/8) pmd / √section.
        half = math.sqrt(3 * math.pi / 8) * float(self.pmd) / math.sqrt(section) / 2
        delays += half * np.tile([1.0, -1.0], fibre.modes)
        start = 0
        for modes in self.block_modes(fibre):
            ramp = np.arange(2 * modes) - (2 * modes - 1) / 2
            spread = float(self.delay_spread) / math.sqrt(section) / math.sqrt((ramp**2).mean())
            delays[start : start + 2 * modes] += spread * ramp
            start += 2 * modes
        return replace(fibre, row_delays=delays)

    def unitary(self, fibre: Fibre, length: float, span: int, section: int) -> ModeMixing:
        """The random unitary behind section ``section`` (from 0) of span ``span``, of all rows."""
        sizes = tuple(self.block_modes(fibre))
        first = section * (fibre.modes + 1)
        streams = [philox.stream(philox.COUPLING, span, first + k) for k in range(len(sizes) + 1)]
        blocks = [haar_unitary(2 * n, self.seed, stream) for n, stream in zip(sizes, streams, strict=False)]
        if not self.between_groups:
            return ModeMixing(blocks)
        groups = tuple(fibre.group_sizes.tolist())
        between = _between(groups, float(self.between_groups) * length / self.sections(length))
        normal = np.zeros(fibre.rows**2, np.complex128)
        philox.add_complex_normal(normal, 1.0, self.seed, streams[-1], 0)
        upper = np.triu(normal.reshape(fibre.rows, fibre.rows) * between, 1)
        values, vectors = np.linalg.eigh(upper + upper.conj().T)
        whole = (vectors * np.exp(1j * values)) @ vectors.conj().T
        start = 0
        for block in blocks:
            stop = start + len(block)
            whole[:, start:stop] = whole[:, start:stop] @ block
            start = stop
        return ModeMixing([whole])


@lru_cache(maxsize=4)
def _between(group_modes: tuple[int, ...], coupled: float) -> Array:
    """Standard deviation of the coupling between rows of neighbouring groups; ``coupled`` is h × length."""
    row_group = np.repeat(np.arange(len(group_modes)), 2 * np.array(group_modes))
    neighbours = abs(row_group[:, None] - row_group) == 1
    return neighbours * math.sqrt(coupled / 2)  # a row gives half to each polarisation of the other mode
