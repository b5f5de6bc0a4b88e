"""Model random unitary coupling of modes, at one point (also its inverse) or between sections of a fibre."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np

from wavefabric.base.arguments import positive
from wavefabric.base.errors import InputError, choice
from wavefabric.optics.fibre.fibre import Array, Fibre
from wavefabric.runtime.device import philox

#: Sets of rows that a random unitary couples at full strength.
COUPLED = ("groups", "polarisations")
_KERNELS = "wavefabric.optics.fibre.mixing_kernel"


def haar_unitary(size: int, seed: int, stream: int = 0) -> np.ndarray:
    """Return a unitary matrix drawn from the Haar measure, complex128, shape (size, size).

    QR of a complex Gaussian matrix with the phases of R's diagonal moved into Q: F. Mezzadri, "How to
    generate random matrices from the classical compact groups", Notices AMS 54 (2007), arXiv:math-ph/0609050.
    """
    gaussian = np.zeros(size * size, dtype=np.complex128)
    philox.add_complex_normal(gaussian, 1.0, seed, stream, 0)
    q, r = np.linalg.qr(gaussian.reshape(size, size))
    diagonal = np.diagonal(r)
    return q * (diagonal / np.abs(diagonal))


@dataclass(frozen=True)
class ModeMixing:
    """Holds one unitary matrix per mode group; applies A_group → U A_group at every instant.

    This models coupling that is strong inside groups and weak between them, lumped at one point. The modes of
    a group have the same β and a Kerr phase that depends on the group's power only, so mixing commutes with
    propagation, and one inverse undoes the mixings of a whole link. Matrices are complex128, (2 N_a, 2 N_a),
    over the rows of group a, groups in the order of the field's rows.
    """

    matrices: Sequence[np.ndarray]

    def __post_init__(self):
        object.__setattr__(self, "matrices", tuple(np.asarray(u, np.complex128) for u in self.matrices))
        for k, u in enumerate(self.matrices):
            square = u.ndim == 2 and u.shape[0] == u.shape[1]
            if not square or not np.allclose(u @ u.conj().T, np.eye(len(u)), atol=1e-10):
                raise InputError(f"matrices[{k}]: not unitary, shape {u.shape}; allowed: square unitary ones")

    @classmethod
    def random(cls, group_modes: Iterable[int], seed: int, span: int = 0) -> "ModeMixing":
        """Draw from seed and span a Haar-random unitary for each group; ``group_modes`` are their sizes."""
        philox.check_seed(seed)
        streams = ((int(n), philox.stream(philox.MIXING, span, group)) for group, n in enumerate(group_modes))
        return cls([haar_unitary(2 * n, seed, stream) for n, stream in streams])

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Return the range of field rows of each mode group: (first row, row after the last)."""
        ends = np.cumsum([len(u) for u in self.matrices]).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))

    @property
    def inverse(self) -> "ModeMixing":
        """Return the mixing that undoes this mixing."""
        return ModeMixing([u.conj().T for u in self.matrices])

    def within(self, first_row: int, rows: int) -> "ModeMixing":
        """Return a `ModeMixing` of the groups that lie entirely in the ``rows`` rows from ``first_row``."""
        blocks = zip(self.blocks, self.matrices, strict=True)
        last = first_row + rows
        return ModeMixing([u for (start, stop), u in blocks if first_row <= start and stop <= last])

    def __matmul__(self, earlier: "ModeMixing") -> "ModeMixing":
        """Return the mixing that applies ``earlier`` first and then this mixing."""
        return ModeMixing([u @ v for u, v in zip(self.matrices, earlier.matrices, strict=True)])

    def apply(self, device, field) -> None:
        """Multiply each group's rows of ``field`` (rows, N), √W, by the group's unitary matrix, in place."""
        self.check_rows(field.shape[0])
        matrices = [np.ascontiguousarray(u) for u in self.matrices]
        device.kernels(_KERNELS).mix(device, field, matrices, [start for start, _ in self.blocks])

    def mode(self, device, field, mode: int):
        """Return both polarisations of spatial mode ``mode`` after mixing, as a new array, shape (2, N)."""
        group = next(k for k, (_, stop) in enumerate(self.blocks) if 2 * mode < stop)
        start, stop = self.blocks[group]
        pair = self.matrices[group][2 * mode - start : 2 * mode - start + 2]
        return device.asarray(pair.astype(field.dtype)) @ field[start:stop]

    def check_rows(self, rows: int) -> None:
        """Raise InputError unless ``rows`` is the total number of rows of the groups."""
        if rows != self.blocks[-1][1]:
            raise InputError(f"field: {rows} rows given, {self.blocks[-1][1]} allowed by the mode groups")


def total(mixings: Sequence[ModeMixing]) -> ModeMixing:
    """Return the one mixing that equals all ``mixings`` in turn, in the order in which light passes them."""
    return reduce(lambda done, nxt: nxt @ done, mixings)


@dataclass(frozen=True)
class RandomCoupling:
    """Describes random coupling of modes and polarisations along a fibre. Quantities may be text with a unit.

    The fibre is cut into sections of ``correlation_length`` (m). Within a section each field row has a
    separate delay. After each section a random unitary, drawn anew for each span and section, couples

    - ``within`` "groups": all rows of a mode group; "polarisations": the two rows of each mode.
    - ``between_groups``: neighbouring mode groups too: power coupling coefficient h, 1/m, so that on average
      dP_i/dz = h Σ_j (P_j − P_i) over the modes j of the groups next to that of mode i (D. Marcuse, Theory of
      Dielectric Optical Waveguides, 2nd ed., chapter 5).

    Delays of the rows in addition to the fibre's β1:

    - ``pmd``: polarisation-mode dispersion, s/√m: mean differential group delay over √length. Sections of
      differential delay Δτ add up at random, ⟨Δτ²⟩ = 3π/8 pmd² L (G. J. Foschini, C. D. Poole, J. Lightwave
      Technol. 9 (1991) 1439, doi 10.1109/50.97630).
    - ``delay_spread``: root-mean-square group delay, over √length, of the rows that ``within`` couples, s/√m:
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
        """Return the number of equal sections, each at most a correlation length, of ``length`` m fibre."""
        return max(1, math.ceil(length / float(self.correlation_length) - 1e-9))

    def block_modes(self, fibre: Fibre) -> list[int]:
        """Return the sizes of the sets of modes that ``within`` couples: mode groups, or single modes."""
        return fibre.group_sizes.tolist() if self.within == "groups" else [1] * fibre.modes

    def fibre(self, fibre: Fibre, length: float) -> Fibre:
        """Return a copy of ``fibre`` whose field rows have the random coupling's delays (PMD, delay spread).

        The length of a section, a part of ``length`` (m), determines the delays. InputError if the coupling
        does not fit the fibre, or if the generator Philox has too few streams of random numbers for the
        sections.
        """
        if self.within == "groups" and fibre.kappa_of != "group" and max(fibre.group_sizes) > 1:
            fault = "the fibre's kappa is that of modes which do not couple"
            allowed = '"polarisations", or kappa of groups'
            raise InputError(f'within: "groups" given, but {fault}; allowed: {allowed}')
        if self.between_groups and len(fibre.group_sizes) < 2:
            raise InputError("between_groups: given for one mode group; allowed: 0")
        if self.sections(length) * (fibre.modes + 1) >= 1 << 28:
            least = length * (fibre.modes + 1) / 2**28
            actual = f"{float(self.correlation_length):g} m given"
            raise InputError(f"correlation_length: {actual}; allowed: {least:.2g} m or more")
        section = length / self.sections(length)
        delays = np.zeros(fibre.rows) if fibre.row_delays is None else np.array(fibre.row_delays)
        # Per row: ± half of √(3π/8) pmd / √section.
        half = math.sqrt(3 * math.pi / 8) * float(self.pmd) / math.sqrt(section) / 2
        delays += half * np.tile([1.0, -1.0], fibre.modes)
        ramps = [np.arange(2 * modes) - (2 * modes - 1) / 2 for modes in self.block_modes(fibre)]
        spread = float(self.delay_spread) / math.sqrt(section)
        delays += np.concatenate([spread / math.sqrt((ramp**2).mean()) * ramp for ramp in ramps])
        return replace(fibre, row_delays=delays)

    def unitary(self, fibre: Fibre, length: float, span: int, section: int) -> ModeMixing:
        """Return the random unitary that couples all rows after section ``section`` (from 0) of a span."""
        sizes = tuple(self.block_modes(fibre))
        first = section * (fibre.modes + 1)
        streams = [philox.stream(philox.COUPLING, span, first + k) for k in range(len(sizes) + 1)]
        blocks = [haar_unitary(2 * n, self.seed, stream) for n, stream in zip(sizes, streams, strict=False)]
        mixing = ModeMixing(blocks)
        if not self.between_groups:
            return mixing
        groups = tuple(fibre.group_sizes.tolist())
        between = _element_deviations(groups, float(self.between_groups) * length / self.sections(length))
        normal = np.zeros(fibre.rows**2, np.complex128)
        philox.add_complex_normal(normal, 1.0, self.seed, streams[-1], 0)
        upper = np.triu(normal.reshape(fibre.rows, fibre.rows) * between, 1)
        values, vectors = np.linalg.eigh(upper + upper.conj().T)
        unitary = (vectors * np.exp(1j * values)) @ vectors.conj().T
        for block, (start, stop) in zip(mixing.matrices, mixing.blocks, strict=True):
            unitary[:, start:stop] = unitary[:, start:stop] @ block
        return ModeMixing([unitary])


@lru_cache(maxsize=4)
def _element_deviations(group_modes: tuple[int, ...], coupled: float) -> Array:
    """Return the standard deviation of each element of a random Hermitian matrix H, (2M, 2M).

    The unitary exp(iH) couples the field rows of neighbouring mode groups; other elements of H are 0.
    ``coupled`` is the power coupling coefficient h times the length of a section.
    """
    row_group = np.repeat(np.arange(len(group_modes)), 2 * np.array(group_modes))
    neighbours = abs(row_group[:, None] - row_group) == 1
    return neighbours * math.sqrt(coupled / 2)  # a row gives half to each polarisation of the other mode
