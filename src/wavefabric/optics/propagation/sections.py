"""What stands along a fibre between stretches of plain propagation."""

from collections.abc import Sequence
from typing import Protocol


class Sections(Protocol):
    """Equal sections of a length of fibre. Boundary b, from 0 to ``count``, is the end of the b-th section.

    A field that goes back crosses the boundaries from the last to the first.
    """

    count: int

    @property
    def blocks(self) -> Sequence[tuple[int, int]] | None:
        """First row and the row after the last of rows that exchange energy; None if none do."""

    def changes_energy(self, boundary: int) -> bool:
        """Whether the whole field has more or less energy behind a boundary."""
        ...

    def cross(self, A, boundary: int) -> None:
        """Change ``A`` (own rows, N), √W, in place, as the boundary does."""
