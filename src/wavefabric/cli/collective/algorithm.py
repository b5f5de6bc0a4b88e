"""Get the schedule of a command: read it from a file, or build it by an algorithm of the registry."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.files.input import MOST_SCHEDULE, naming
from wavefabric.cli.common.files import read_text
from wavefabric.cli.common.options import (
    OutputOptions,
    argument,
    changed,
    check_range,
    option,
    options,
    refuse,
)
from wavefabric.cli.common.parse import parse_shape
from wavefabric.collectives import Schedule, from_json, verify
from wavefabric.collectives.conditions import ArrayCut, default_elements, whole_elements
from wavefabric.collectives.formats.msccl.read import from_msccl
from wavefabric.collectives.formats.mscclpp.read import from_mscclpp, is_mscclpp
from wavefabric.collectives.registry import ALGORITHMS, build, channels_of, why_refused
from wavefabric.collectives.sizes import MOST_RANKS
from wavefabric.fabric import AnyFabric
from wavefabric.fabric.candidates import algorithm_grid

_PANEL = "Of an algorithm"
FABRIC_HELP = "A name (see `wavefabric fabric show`), such as lightpath:4x8, or a file."


@options()
class ScheduleOptions(OutputOptions):
    """Argument that selects a schedule: a file, or an algorithm and a collective."""

    words: list[str] | None = argument("A schedule.", "FILE | ALGORITHM COLLECTIVE", default=None)


@options(_PANEL)
class AlgorithmOptions:
    """Holds options of an algorithm, for commands whose ``--ranks`` means processes, not its ranks."""

    ranks: int | None = None
    elements: int | None = option("Of the whole array. [default: as many as divide evenly]", limits=(1,))
    pieces: int | None = option(
        "Parts that follow each other in a pipeline. [default: 1; make optimal all-reduce, broadcast, "
        "reduce: as many as GPUs]"
    )
    radix: int | None = option("Ranks that meet in a round. [default: 2]")
    root: int = option("Of broadcast, reduce, gather, scatter.", default=0)
    grid: str | None = option("Ranks as a grid, such as 4x8.")
    matrix: Path | None = option(
        "all-to-all: elements that each rank sends to each other, a file with a row per sender (CSV)."
    )

    def message_sizes(self, collective: str | None) -> np.ndarray | None:
        """Return the elements from each rank (row) to each (column) in the file of ``--matrix``, or None."""
        if self.matrix is None:
            return None
        ensure(collective == "all-to-all", "--matrix", f"given with {collective}", "with all-to-all")
        refuse(changed(self, "elements"), "with --matrix", "one of the two")
        rows = [line.replace(",", " ").split() for line in read_text(self.matrix, "matrix").splitlines()]
        rows = [row for row in rows if row]
        for row in rows:
            for text in row:
                plain = text.isascii() and text.isdigit() and len(text) < 16
                ensure(plain, f"{self.matrix}", f"{text[:40]} given", "whole numbers from 0")
            where = f"row of {len(row)} numbers among {len(rows)} rows"
            ensure(len(row) == len(rows), f"{self.matrix}", where, "one row per rank, with a number per rank")
        return np.array(rows, np.int64).reshape(len(rows), -1)

    def cut(self, collective: str) -> ArrayCut:
        """Return how the options say that the array of a collective operation is cut."""
        matrix = self.message_sizes(collective)
        return ArrayCut(self.pieces, self.elements if matrix is None else matrix, self.root)

    @property
    def parts(self) -> int:
        """Return the number of pieces, 1 if not given."""
        return 1 if self.pieces is None else self.pieces

    def present(self) -> list[str]:
        """Return the names, such as ``--radix``, of options that differ from the default."""
        return [f"--{name}" for name, value in changed(self).items() if (name, value) != ("pieces", 1)]

    def registry(self, algorithm: str, ranks: int, fabric: AnyFabric | None) -> dict[str, Any]:
        """Return the keyword arguments with which `collectives.registry.build` builds the algorithm.

        Without ``--grid`` ranks form the grid of the fabric, such as its nodes and the GPUs of each.
        """
        if self.grid is None:
            grid = algorithm_grid(algorithm, ranks, fabric)
        else:
            grid = parse_shape(self.grid, "--grid", "numbers from 1 with x between, such as 4x8")
        return {"pieces": self.parts, "radix": self.radix, "root": self.root, "grid": grid}


@options(_PANEL)
class RankedAlgorithmOptions(AlgorithmOptions):
    """Options of an algorithm with ``--ranks``."""

    ranks: int | None = option("Number of ranks, one per GPU.", "--ranks", "-n")


def schedule_from(
    words: Sequence[str] | None, options: AlgorithmOptions, fabric: AnyFabric | None = None
) -> Schedule:
    """Read a schedule from a file, or build it by algorithm and collective, and verify it.

    Without ``ranks`` in ``options`` the number of ranks is that of the fabric.
    """
    words = words or ()
    if len(words) == 2:
        return build_by_name(words[0], words[1], options, fabric)
    if len(words) != 1:
        inputs = " ".join(words) or "nothing"
        raise InputError(f"schedule: {inputs} given; allowed: FILE, or ALGORITHM COLLECTIVE --ranks N")
    if words[0] in ALGORITHMS and not Path(words[0]).exists():
        allowed = ", ".join(ALGORITHMS[words[0]].collectives)
        raise InputError(f"COLLECTIVE: none given after {words[0]}; allowed: {allowed}")
    if inputs := options.present():
        raise InputError(f"{inputs[0]}: given with the file {words[0]}; allowed: with ALGORITHM COLLECTIVE")
    return read_proved(Path(words[0]))


def build_by_name(
    algorithm: str,
    collective: str,
    options: AlgorithmOptions,
    fabric: AnyFabric | None = None,
    elements: np.ndarray | None = None,
) -> Schedule:
    """Build a schedule by an algorithm of the registry, and verify it.

    ``elements``: those of ``--matrix``, if they are read already.
    """
    ranks = options.ranks if options.ranks is not None else fabric.ranks if fabric else None
    if ranks is None:
        raise InputError("--ranks: none given; allowed: a whole number from 1")
    check_range("--ranks", ranks, -math.inf, MOST_RANKS, f"1 to {MOST_RANKS}")
    chosen = options.registry(algorithm, ranks, fabric)
    if why := why_refused(algorithm, collective, ranks, **chosen):
        raise InputError(why)
    parts = options.parts * channels_of(algorithm, chosen["grid"])
    size = default_elements(ranks, parts) if options.elements is None else options.elements
    elements = options.message_sizes(collective) if elements is None else elements
    schedule = build(algorithm, collective, ranks, size if elements is None else elements, **chosen)
    verify(schedule)
    return schedule


def read_schedule(path: Path) -> Schedule:
    """Read a schedule, not verified: our JSON, MSCCL's XML or MSCCL++'s JSON, recognised by content."""
    text = read_text(path, "schedule", MOST_SCHEDULE)
    with naming(path):
        if text.lstrip().startswith("<"):
            return from_msccl(text)
        return from_mscclpp(text) if is_mscclpp(text) else from_json(text)


def read_proved(path: Path) -> Schedule:
    """Read a schedule from a file, and verify it."""
    schedule = read_schedule(path)
    with naming(path):
        verify(schedule)
    return schedule


def own_bytes(schedules: Iterable[Schedule]) -> int | None:
    """Return the bytes of the whole array if there is just one schedule, with recorded sizes; else None."""
    only, *others = schedules
    return whole_array(only) * only.element_bytes if only.element_bytes and not others else None


def whole_array(schedule: Schedule) -> int:
    """Return the number of elements of the whole array; `InputError` if it is 0."""
    elements = whole_elements(schedule)
    if not elements:
        raise InputError(f"schedule: {schedule.name} has no elements; allowed: one that holds some")
    return elements
