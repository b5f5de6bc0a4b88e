"""What theory expects beside a run: where it holds, what the result keeps of it, what it says of steps."""

from typing import Any

import numpy as np

from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.link.expected import expected_of, left_out
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.theory.expected import Expectation
from wavefabric.results import Data

_PARTS = {
    "q_squared_db": ("dB", "Q squared by mode and channel that theory expects"),
    "nli": ("W", "nonlinear interference behind the matched filter, both polarisations"),
    "ase": ("W", "noise of the amplifiers"),
    "loaded": ("W", "noise of the OSNR"),
    "numerical": ("W", "what steps and sampling add to the interference"),
}


def expected_beside(run: RunFile, fibre: Fibre) -> dict[str, Expectation]:
    """`expected_of` a run, empty unless ``output.theory`` asks for it and theory has all that the run has."""
    return expected_of(run, fibre) if run.output.theory and not left_out(run) else {}


def theory_payload(expected: dict[str, Expectation]) -> dict[str, Any]:
    """Groups of ``/theory`` in a result file, by the names of ``/received``."""
    return {
        name: {part: Data(getattr(one, part), unit, text) for part, (unit, text) in _PARTS.items()}
        for name, one in expected.items()
    }


def numerical_penalty_db(expected: dict[str, Expectation]) -> float | None:
    """Largest loss of Q² by steps and sampling at the farthest receiver position, dB; None without theory."""
    if not expected:
        return None
    last = max(expected.values(), key=lambda one: one.distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = 10 * np.log10(last.noise / (last.noise - last.numerical))
    return float(np.nanmax(loss, initial=0.0))
