"""What theory expects of a run file, before or beside its run."""

import math
from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.link.build import build_fibre, build_transmitter
from wavefabric.optics.link.checks import resonance
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.theory.expected import Expectation, expected_quality
from wavefabric.optics.theory.gaussian_noise import Options, Spans
from wavefabric.optics.theory.response import QUADRATURES, Steps

#: Parts of the noise, as in `Expectation`.
PARTS = ("nli", "ase", "loaded", "numerical")


def expected_of(run: RunFile, fibre: Fibre | None = None) -> dict[str, Expectation]:
    """Expected powers and Q² of a run at its receiver positions, by the names of ``/received`` in its result.

    ``fibre`` is the run's own, if it is at hand. A fixed step above the resonance limit of an integrator of
    `QUADRATURES` adds spurious interference, which ``numerical`` estimates; it is 0 otherwise. InputError as
    a run would raise it.
    """
    fibre = fibre or build_fibre(run, lambda _: None)
    transmitter, link = build_transmitter(run, fibre.modes), run.link
    window = run.receiver.phase_window or None
    receiver = Receiver(transmitter, run.receiver.osnr, run.receiver.noise_seed, phase_window=window)
    gain = None if link.gain is None else 10 ** (link.gain / 10)
    if gain is None and (loss := float(fibre.alpha.mean() * link.length)) > 46:
        raise InputError(
            f"link.length: a span loses {10 * math.log10(math.e) * loss:.0f} dB; allowed: up to 200 dB"
        )
    grid, solver = transmitter.grid, run.solver
    options = Options(symbols=grid.symbols)
    if solver.step is not None and solver.integrator in QUADRATURES:
        steps = Steps(solver.step, solver.integrator)
        if steps.taken(link.length) > resonance(fibre, transmitter).step:
            options = Options(symbols=grid.symbols, steps=steps, sample_rate=grid.sample_rate)
    spans = Spans(link.length, link.spans, gain)
    at = run.receiver.spans(link.spans)
    expected = expected_quality(fibre, receiver, spans, link.noise_figure, at, options)
    if not run.receiver.back_to_back:
        del expected["back_to_back"]
    return expected


def group_expectations(expected: dict[str, Expectation], fibre: Fibre) -> list[dict[str, Any]]:
    """Per mode group and position, in dB: mean and least Q², and the signal over each part of the noise
    alone.

    Means over modes and channels are those of powers; None where there is no such noise.
    """
    rows = []
    for number in np.unique(fibre.groups):
        inside = fibre.groups == number
        received = {}
        for name, one in expected.items():
            lit = one.signal[inside] > 0
            ratio = {key: _mean_ratio(one.signal[inside], getattr(one, key)[inside], lit) for key in PARTS}
            q = one.q_squared_db[inside][lit]
            received[name] = {
                "distance_m": one.distance,
                "q_squared_mean_db": _db(float((10 ** (q / 10)).mean())) if q.size else None,
                "q_squared_min_db": float(q.min()) if q.size else None,
                **{f"snr_{key}_db": value for key, value in ratio.items()},
            }
        rows.append({"group": int(number), "modes": int(inside.sum()), "received": received})
    return rows


def _mean_ratio(signal: np.ndarray, noise: np.ndarray, lit: np.ndarray) -> float | None:
    if not lit.any() or (noise[lit] == 0).all():
        return None
    mean = float((noise[lit] / signal[lit]).mean())
    return -_db(mean) if mean > 0 else None


def _db(ratio: float) -> float:
    return 10 * math.log10(ratio) if ratio > 0 else -math.inf
