"""Options of `collective make optimal` and `greedy`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from wavefabric.cli.collective.algorithm import AlgorithmOptions
from wavefabric.cli.common.options import option, options
from wavefabric.cli.common.parse import check_range
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.fabric import AnyFabric

#: Most shortest routes of a pair, and how many there are by default.
_MOST_ROUTES, _ROUTES = 64, 4


@options("Of optimal and greedy")
class SolverOptions:
    """Options of ``optimal`` and ``greedy``, as given."""

    fabric: str | None = option("optimal: for this fabric.", "--fabric", "-f")
    lasers: int | None = option(
        "Wavelengths a GPU sends at once. \\[default: optimal, the fabric's; greedy 1]"
    )
    waveguides: int | None = option("Between tiles, each way.")
    messages: Path | None = option("greedy: JSON list of \\[src, dst, elements].")
    routes: str | None = option(
        "optimal: of each pair, xy (row first, column first), or shortest:K (K shortest paths). "
        "\\[default: xy]"
    )
    steps: int | None = option(
        "optimal, electrical: exactly so many steps; exit code 1 if proved impossible."
    )
    rounds: int | None = option("optimal: rounds of all steps together. \\[default: --steps]")
    bytes: str | None = option("optimal: of the whole array, for the time that is shown. \\[default: 64M]")
    conditions: Path | None = option(
        "optimal: what is held before and after, a schedule (JSON) without transfers."
    )
    time_limit: float | None = option("optimal: seconds. \\[default: 60]")
    seed: int | None = option("greedy: order of equals. \\[default: 0]")

    @property
    def seconds(self) -> float:
        """The time limit."""
        return 60.0 if self.time_limit is None else self.time_limit

    def check(self, algorithm: AlgorithmOptions) -> None:
        """Refuse what no fabric allows."""
        if self.fabric is None:
            raise InputError("--fabric: none given with optimal; allowed: such as lightpath:2x4, or a file")
        if not (math.isfinite(self.seconds) and 0 < self.seconds <= 1e6):
            raise InputError(f"--time-limit: {self.seconds} given; allowed: seconds above 0")
        for name in ("radix", "grid"):
            if (value := getattr(algorithm, name)) is not None:
                raise InputError(f"--{name}: {value} given with optimal; allowed: without")
        for name in ("steps", "rounds"):
            check_range(f"--{name}", getattr(self, name), 1, 4096, "1 to 4096")
        if self.rounds is not None and (self.steps is None or self.rounds < self.steps):
            given = f"{self.rounds} given with {'no' if self.steps is None else self.steps} --steps"
            raise InputError(f"--rounds: {given}; allowed: with --steps, and as many or more")

    def check_fabric(self, fabric: AnyFabric, photonic: bool) -> None:
        """Refuse what circuits or links have no use for."""
        if photonic and self.steps is not None:
            given = f"{self.steps} given with photonic {fabric.name}"
            raise InputError(f"--steps: {given}; allowed: with electrical ones")
        if not photonic and self.routes is not None:
            given = f"{self.routes} given with electrical {fabric.name}"
            raise InputError(f"--routes: {given}; allowed: with photonic ones")

    def parse_routes(self) -> tuple[str, int]:
        """Method and number of routes: ``xy``, ``shortest``, or ``shortest:K``."""
        text = self.routes or "xy"
        method, colon, number = text.partition(":")
        good = method in ("xy", "shortest") and (not colon or method == "shortest")
        if colon and not (number.isascii() and number.isdigit() and 1 <= int(number[:4]) <= _MOST_ROUTES):
            good = False
        if not good:
            allowed = f"xy, shortest, or shortest:K with K from 1 to {_MOST_ROUTES}"
            raise InputError(f"--routes: {text[:60]} given; allowed: {allowed}")
        return method, int(number[:4]) if colon else _ROUTES
