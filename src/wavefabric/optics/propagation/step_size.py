"""Control step sizes: fixed, by nonlinear phase, or by local error. All ranks choose the same h.

A control advances a field by a limited number of steps and reports the position. Its state is plain numbers,
so that a run resumed from a checkpoint gives bit-identical results.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from wavefabric.base.arguments import positive
from wavefabric.base.errors import InputError
from wavefabric.optics.propagation.integrators import INTEGRATORS, Integrator

#: Variable steps come from this geometric grid, so that transfer tables are reused.
_GRID = 2 ** (1 / 8)
#: Shortest step, as a fraction of the length: with shorter steps a run would not end.
_SHORTEST = 1e-9


class Sections:
    """Describes equal sections of a fibre. Boundary b, from 0 to ``count``, is the end of the b-th section.

    Backward propagation crosses the boundaries from last to first. This base class does nothing at them.
    """

    count = 1
    #: (first row, row after the last) of each set of rows that exchange energy; None if no rows do.
    blocks: Sequence[tuple[int, int]] | None = None

    def changes_energy(self, boundary: int) -> bool:
        """Return whether the energy of the whole field changes at a boundary."""
        return False

    def cross(self, A, boundary: int) -> None:
        """Apply what lies at a boundary (coupling, filter) to ``A`` (local rows, N), √W, in place."""


def on_grid(h: float) -> float:
    """Round ``h`` (m) down to the geometric grid of variable steps, powers of 2^(1/8)."""
    return _GRID ** math.floor(math.log(h) / math.log(_GRID) + 1e-9)


def step_count(length: float, step: float, sections: int = 1) -> int:
    """Return the number of equal steps of at most ``step`` m over ``length`` m, a multiple of ``sections``.

    `InputError` for a step so short that the run would not end.
    """
    if not step >= _SHORTEST * length:
        raise InputError(f"step: {step:g} m given; allowed: at least {_SHORTEST * length:g} m here")
    return sections * max(1, math.ceil(length / sections / step - 1e-9))


def section_end(length: float, sections: int, index: int) -> float:
    """Return the end, m, of section ``index`` (from 0) if ``length`` m has ``sections`` equal sections."""
    return length if index + 1 == sections else length * (index + 1) / sections


class FixedStep:
    """Takes n equal steps of at most ``step`` metres; on one GPU a step is a replayed CUDA graph.

    ``sign`` is −1 for backward propagation.
    """

    def __init__(self, integrator: Integrator, step: float, sign: int = 1):
        self.integrator, self.step, self.sign = integrator, step, sign
        self._graph = None

    def h(self, length: float, sections: int = 1) -> float:
        """Return the actual step over ``length``, m; negative for backward propagation."""
        return self.sign * length / self.total(length, sections)

    def total(self, length: float, sections: int = 1) -> int:
        """Return the number of steps over ``length``, equal in each of ``sections`` sections."""
        return step_count(length, self.step, sections)

    def advance(self, A, length: float, state: dict, most: int, sections: int = 1) -> Iterator[int]:
        """Take up to ``most`` steps, not beyond the end of a section; yield the number of steps so far.

        ``state`` is a dictionary: ``done``, the number of steps so far, and ``z``, the position (m), are
        updated; ``section`` is the number of the present section.
        """
        total, h = self.total(length, sections), self.h(length, sections)
        last = (state.get("section", 0) + 1) * total // sections
        self.integrator.begin(A, h)
        steps = min(most, last - state["done"])
        for number in range(1, steps + 1):
            if number == steps and sections > 1:  # few steps per check interval: save the half step of `end`
                self.integrator.last(A, h)
                self.integrator.operators.counts.steps += 1
            else:
                self._take_step(A, h)
            state["done"] += 1
            state["z"] = length * state["done"] / total
            if state["done"] == last:  # exactly the end, without round-off
                state["z"] = section_end(length, sections, state.get("section", 0))
            yield state["done"]
        if sections == 1 or steps < 1:
            self.integrator.end(A, h)
        state["h"] = abs(h)

    def _take_step(self, A, h: float) -> None:
        operators, step = self.integrator.operators, partial(self.integrator.step, A, h)
        counts, key = vars(operators.counts), (h, operators.propagation.replaced)
        before = dict(counts, steps=operators.counts.steps + 1)
        if self._graph is None or self._graph[0] != key or self._graph[1] is not A:
            # The first step runs as written (kernels load, plans are made), then is captured.
            step()
            cost = {name: counts[name] - before[name] for name in ("ffts", "exchanges")}
            self._graph = key, A, operators.graph(step, self.integrator.kernels_alone), cost
        else:
            self._graph[2]()
        # Correct the counts: a capture counts operations it does not run, a replay runs them uncounted.
        counts.update(before | {name: before[name] + count for name, count in self._graph[3].items()})


class PhaseStep:
    """Takes steps in which the Kerr phase of any sample turns by at most ``max_phase`` radians."""

    def __init__(self, integrator: Integrator, max_phase: float, sign: int = 1):
        self.integrator, self.max_phase, self.sign = integrator, max_phase, sign

    def advance(self, A, length: float, state: dict, most: int, sections: int = 1) -> Iterator[int]:
        """Take up to ``most`` steps, not beyond the end of a section; arguments as `FixedStep.advance`."""
        integrator, counts, sign = self.integrator, self.integrator.operators.counts, self.sign
        length = section_end(length, sections, state.get("section", 0))
        h = 0.0  # `begin` not yet called
        for _ in range(most):
            remaining, started = length - state["z"], False
            # The phase is that of the field in the integrator's representation: for split steps, half a
            # step ahead, where the rotation is applied. Consecutive equal steps stay merged.
            while (allowed := self._length(A, remaining)) != h and not (started and allowed > h):
                if h:
                    integrator.end(A, sign * h)
                integrator.begin(A, sign * allowed)
                h, started = allowed, True
            integrator.step(A, sign * h)
            counts.steps += 1
            last = h == remaining
            state["z"] = length if last else state["z"] + h
            state["h"] = h
            state["done"] += 1
            yield state["done"]
            if last:
                break
        if h:
            integrator.end(A, sign * h)

    def _length(self, A, remaining: float) -> float:
        rate = self.integrator.operators.max_phase_rate(A)
        h = self.max_phase / rate if 0 < rate < math.inf else remaining
        if h < _SHORTEST * remaining:
            fault = f"{self.max_phase:g} rad needs steps of {h:.1e} m"
            raise InputError(f"max_phase: {fault}; allowed: a larger phase or less power")
        return remaining if h >= remaining * (1 - 1e-12) else min(on_grid(h), remaining)


class ErrorStep:
    """Takes steps whose relative local error stays below ``tolerance`` (Balac & Mahé 2013, section 4)."""

    def __init__(self, integrator: Integrator, tolerance: float, sign: int = 1):
        if not integrator.adaptive:
            adaptive = ", ".join(name for name, kind in INTEGRATORS.items() if kind.adaptive)
            fault = f"integrator {integrator.name!r} gives no local error"
            raise InputError(f"tolerance: {fault}; allowed: {adaptive}")
        self.integrator: Any = integrator
        self.tolerance, self.sign = tolerance, sign

    def advance(self, A, length: float, state: dict, most: int, sections: int = 1) -> Iterator[int]:
        """Take up to ``most`` steps, not beyond the end of a section; arguments as `FixedStep.advance`."""
        integrator, operators = self.integrator, self.integrator.operators
        length = section_end(length, sections, state.get("section", 0))
        integrator.begin(A, 0.0)
        if not state.get("h"):
            # First guess: a phase of a tenth of a radian, at most ``length``.
            rate = operators.max_phase_rate(A)
            state["h"] = on_grid(min(0.1 / rate, length) if 0 < rate < math.inf else length)
        count = 0
        while count < most:
            left = length - state["z"]
            last = state["h"] >= left * (1 - 1e-12)
            h = left if last else state["h"]
            scale = math.sqrt(operators.energy(A).sum()) or 1.0
            error = integrator.trial(A, self.sign * h) / scale
            if error > self.tolerance:
                if h < _SHORTEST * length:
                    fault = f"{self.tolerance:g} needs steps below {h:.1e} m"
                    allowed = "a larger tolerance (round-off sets a limit)"
                    raise InputError(f"tolerance: {fault}; allowed: {allowed}")
                integrator.reject(A)
                operators.counts.rejected += 1
                state["h"] = on_grid(h * max(0.3, 0.9 * (self.tolerance / error) ** 0.25))
                continue
            state["z"] = length if last else state["z"] + h
            state["worst_error"] = max(state.get("worst_error", 0.0), error)
            state["done"] += 1
            operators.counts.steps += 1
            count += 1
            yield state["done"]
            if last:
                return
            grown = h * min(2.0, 0.9 * (self.tolerance / error) ** 0.25 if error > 0 else 2.0)
            state["h"] = on_grid(grown)


_CONTROLS = {"step": FixedStep, "max_phase": PhaseStep, "tolerance": ErrorStep}


def make_control(integrator: Integrator, backward: bool = False, /, **controls: float | None):
    """Create the step control for the one of ``step``, ``max_phase``, ``tolerance`` that is given.

    `InputError` unless exactly one is. With ``backward`` steps lead from the fibre's end to its beginning.
    """
    values = {key: value for key, value in controls.items() if value is not None}
    if len(values) != 1:
        named = ", ".join(values) or "none"
        raise InputError(f"step control: {named} given; allowed: exactly one of {', '.join(_CONTROLS)}")
    ((key, value),) = values.items()
    return _CONTROLS[key](integrator, positive(value, "", key), -1 if backward else 1)
