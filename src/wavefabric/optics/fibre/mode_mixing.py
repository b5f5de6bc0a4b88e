"""Random unitary coupling inside each mode group, and its inverse."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from wavefabric.device import philox
from wavefabric.errors import InputError

_KERNELS = "wavefabric.optics.fibre.mixing_kernel"


def haar_unitary(size: int, seed: int, stream: int = 0) -> np.ndarray:
    """Unitary matrix drawn from the Haar measure, complex128, shape (size, size).

    QR of a complex Gaussian matrix with the phases of R's diagonal moved into Q: F. Mezzadri,
    "How to generate random matrices from the classical compact groups", Notices AMS 54 (2007),
    arXiv:math-ph/0609050.
    """
    gaussian = np.zeros(size * size, dtype=np.complex128)
    philox.add_complex_normal(gaussian, 1.0, seed, stream, 0)
    q, r = np.linalg.qr(gaussian.reshape(size, size))
    diagonal = np.diagonal(r)
    return q * (diagonal / np.abs(diagonal))


@dataclass(frozen=True)
class ModeMixing:
    """One unitary matrix for each mode group; A_group → U A_group at every instant.

    Coupling in a fibre that is strong inside groups and weak between them, lumped at one point.
    The modes of a group propagate alike (same β) and their Kerr phase depends on the group's power
    only, so mixing commutes with propagation and the mixings of a whole link are undone by one inverse.
    Matrices are complex128, (2 N_a, 2 N_a) over the rows of group a, groups in the order of the field's rows.
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
        """Haar-random mixing of groups of ``group_modes`` spatial modes, by ``seed`` and ``span``."""
        philox.check_seed(seed)
        streams = ((int(n), philox.stream(philox.MIXING, span, group)) for group, n in enumerate(group_modes))
        return cls([haar_unitary(2 * n, seed, stream) for n, stream in streams])

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """First row of each group and the row after its last."""
        ends = np.cumsum([len(u) for u in self.matrices]).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))

    @property
    def inverse(self) -> "ModeMixing":
        """The mixing that undoes this one."""
        return ModeMixing([u.conj().T for u in self.matrices])

    def within(self, first_row: int, rows: int) -> "ModeMixing":
        """The mixing of the groups in ``rows`` rows from ``first_row`` on."""
        blocks = zip(self.blocks, self.matrices, strict=True)
        last = first_row + rows
        return ModeMixing([u for (start, stop), u in blocks if first_row <= start and stop <= last])

    def __matmul__(self, earlier: "ModeMixing") -> "ModeMixing":
        """This mixing after ``earlier``."""
        return ModeMixing([u @ v for u, v in zip(self.matrices, earlier.matrices, strict=True)])

    def apply(self, device, field) -> None:
        """Mix ``field`` (rows, N), √W, in place."""
        self.check_rows(field.shape[0])
        matrices = [np.ascontiguousarray(u) for u in self.matrices]
        device.kernels(_KERNELS).mix(device, field, matrices, [start for start, _ in self.blocks])

    def mode(self, device, field, mode: int):
        """Both polarisations of spatial mode ``mode`` after mixing: a new array, shape (2, N)."""
        group = next(k for k, (_, stop) in enumerate(self.blocks) if 2 * mode < stop)
        start, stop = self.blocks[group]
        pair = self.matrices[group][2 * mode - start : 2 * mode - start + 2]
        return device.asarray(pair.astype(field.dtype)) @ field[start:stop]

    def check_rows(self, rows: int) -> None:
        """Raise InputError unless a field of ``rows`` rows can be mixed."""
        if rows != self.blocks[-1][1]:
            raise InputError(f"field: {rows} rows given, {self.blocks[-1][1]} allowed by the mode groups")


def total(mixings: Sequence[ModeMixing]) -> ModeMixing:
    """The mixing of a whole link: ``mixings`` in the order in which light meets them."""
    return reduce(lambda done, nxt: nxt @ done, mixings)
