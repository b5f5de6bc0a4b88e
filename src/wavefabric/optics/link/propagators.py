"""Propagate a field through the pieces of fibre of a link, also backward, with one propagator per fibre."""

import dataclasses
from typing import Any

from wavefabric.optics.link.elements import FibrePiece, Lumped
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.propagation.propagate import PropagationOptions, PropagationReport, Propagator
from wavefabric.runtime.exchange.communicator import Communicator


class LinkPropagator:
    """Holds a `Propagator` for each medium of a `LinkPath`; all count in one report.

    `InputError` as from `Propagator`.
    """

    def __init__(self, path: LinkPath, options: PropagationOptions, comm: Communicator):
        grid = path.grid
        shape = grid.samples, grid.sample_rate, comm.device, options, comm
        self._all = {key: Propagator(medium.fibre, *shape) for key, medium in path.media.items()}
        self.main = next(iter(self._all.values()))
        self.device = comm.device
        self._count_together()

    def _count_together(self) -> None:
        for each in self._all.values():
            each.report, each.operators.counts = self.main.report, self.main.operators.counts

    @property
    def report(self) -> PropagationReport:
        """Return the report of all propagators together."""
        return self.main.report

    @property
    def operators(self) -> Any:
        """Return the operators of the first medium, which allocate fields and count for all."""
        return self.main.operators

    def renew(self, options: PropagationOptions) -> None:
        """Reset counts and report, and set step control and direction, as `Propagator.renew`."""
        for each in self._all.values():
            each.renew(options)
        self._count_together()

    def steps(self, piece: FibrePiece) -> int | None:
        """Return the number of steps in a piece of fibre; None for variable steps."""
        return self._all[piece.medium].steps(piece.length, piece.section_count)

    def run(
        self, A, path: LinkPath, piece: FibrePiece, *arguments: Any, backward: bool = False, **options: Any
    ) -> dict:
        """Propagate ``A`` through a piece of ``path``; arguments and result are those of `Propagator.run`."""
        sections = path.sections(self.device, piece, backward)
        return self._all[piece.medium].run(A, piece.length, *arguments, sections=sections, **options)

    def undo_linear(self, path: LinkPath, A, spans: int, start: int = 0) -> None:
        """Undo the linear effects of ``spans`` spans on ``A`` (local rows, N), last span first, in place.

        The first ``start`` elements are left out.
        """
        counts = dataclasses.replace(self.operators.counts)
        for element in reversed(path.elements[start : path.end(spans)]):
            if isinstance(element, Lumped):
                element.undo(path, self.device, A)
                continue
            operators = self._all[element.medium].operators
            section = element.length / element.section_count
            sections = path.sections(self.device, element, backward=True)
            for boundary in range(element.section_count, 0, -1):
                sections.cross(A, boundary)
                operators.linear(A, -section)
            sections.cross(A, 0)
        vars(self.operators.counts).update(vars(counts))
