"""Results of the link at several steps, held against the finest."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from papers.fibre.extrapolation import richardson
from wavefabric.base.errors import InputError
from wavefabric.base.results import Result
from wavefabric.optics.link.received_signals import distance, mean_db, mode_groups, received
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.run_file.load import RunFile

#: 0.23 dB/km, 1/m: the preset's own.
_LOSS = 0.23e-4 * math.log(10)
#: Mean penalty of the fundamental mode in dB after so many km (Brehler et al., section 6).
PAPER = {80.0: -0.06, 160.0: -0.13}
#: What these numbers belong to, in words.
PAPER_CASE = (
    "120 modes of graded-index-62.5, 60 channels from 191.95 to 194.9 THz, 32 GBaud DP-QPSK at -1 dBm, "
    "spans of 80 km with 0.23 dB/km, noiseless amplifiers, OSNR 20 dB"
)


def compare(results: list[Result]) -> dict[str, Any]:
    """Hold results of one link, run with several steps, against the finest of them.

    Parameters
    ----------
    results : list of Result
        Each received back to back and after at least one span.

    Returns
    -------
    dict
        As `papers.fibre.q_squared.study`.

    Raises
    ------
    InputError
        If modes, channels or spans differ.
    """
    runs = [_describe(result) for result in results]
    # All are held against the shortest step, of the highest order. Step before order: with a wide band it
    # is the step that decides which spurious resonances are left (docs/benchmarks.md).
    best = min(range(len(runs)), key=lambda k: (runs[k]["step_m"], -_order(runs[k]["integrator"])))
    finest, last = results[best], received(results[best])[-1]
    truth = np.atleast_2d(finest[f"received/{last}/q_squared_db"])
    for entry, result in zip(runs, results, strict=True):
        entry["change"] = None
        if result is not finest:
            entry["change"] = _change(result, last, truth, runs[best], entry)
    extrapolated = _extrapolate(results, runs, best)
    runs.sort(key=lambda entry: -entry["step_m"])
    return {
        "benchmark": "q_squared",
        "finest": results[best].path.name,
        "file": str(results[best].path),
        "place": {"name": last, "distance_m": distance(finest, last)},
        "runs": runs,
        "extrapolated": extrapolated,
        "paper": [
            {"distance_m": km * 1e3, "fundamental_penalty_db": db}
            for km, db in PAPER.items()
            if is_the_papers_case(finest)
        ],
        "groups": _by_group(finest),
        "modes": _by_mode(finest),
        "machine": {key: _plain(value) for key, value in finest.attrs().items()},
    }


def _extrapolate(results: list[Result], runs: list[dict], best: int) -> dict[str, Any] | None:
    """Penalties at step zero from at most three steps of the finest run's integrator, None from one step.

    The error falls with the integrator's order below the resonance limit of the step: two or three steps
    there are used if there are. Above it spurious four-wave mixing is what errs, in proportion to the step
    (docs/transmission.md).
    """
    alike = [k for k, r in enumerate(runs) if all(r[x] == runs[best][x] for x in ("integrator", "precision"))]
    alike = sorted({runs[k]["step_m"]: k for k in alike}.items())
    if len(alike) < 2:
        return None
    below = [(h, k) for h, k in alike if h <= runs[best]["resonance_step_m"]]
    resonant = len(below) < 2
    alike = (alike if resonant else below)[:3]
    steps, chosen = [h for h, _ in alike], [results[k] for _, k in alike]
    order = 1 if resonant else _order(runs[best]["integrator"])
    received_at = []
    for name in received(chosen[0])[1:]:
        modes = richardson(steps, [_penalties(result, name) for result in chosen], order)
        received_at.append(
            {
                "name": name,
                "distance_m": distance(chosen[0], name),
                "fundamental_db": float(modes[0]),
                "mean_db": float(modes.mean()),
                "modes_db": modes.tolist(),
            }
        )
    return {
        "integrator": runs[best]["integrator"],
        "steps_m": steps,
        "order": order,
        "above_resonance": resonant,
        "places": received_at,
    }


def _penalties(result: Result, name: str) -> np.ndarray:
    """Mean Q² over the channels minus back to back, dB, by mode."""
    there, reference = (
        mean_db(np.atleast_2d(result[f"received/{distance_name}/q_squared_db"]))
        for distance_name in (name, "back_to_back")
    )
    return there - reference


def is_the_papers_case(result: Result) -> bool:
    """Whether a result is of the link of Brehler et al., section 6, with any number of symbols."""
    try:
        data = tomllib.loads(result["run_file"]) if "run_file" in result else {}
        run = RunFile.model_validate(data, context={"text": True, "folder": Path()})
    except ValidationError:
        return False  # tables that are elsewhere are not the paper's either
    fibre, link, signal, receiver = run.fibre, run.link, run.signal, run.receiver
    return bool(
        (fibre.preset, fibre.coupling, fibre.dispersion) == ("graded-index-62.5", "groups", "paper")
        and fibre.groups in (None, 15, list(range(1, 16)))
        and (fibre.n2 or 2.6e-20) == 2.6e-20
        # 1550 nm, or the middle of the channels, where the run needs the numbers.
        and abs((fibre.wavelength or 1550e-9) - 1550e-9) < 0.1e-9
        and math.isclose(1e4 / math.log(10) * (fibre.attenuation or _LOSS), 0.23, rel_tol=1e-6)
        and link.length == 80e3
        and (link.gain, link.noise_figure, link.mix_groups) == (None, None, False)
        and len(signal.grid) == 60
        and np.allclose(signal.grid, 191.95e12 + 50e9 * np.arange(60), rtol=0, atol=1e8)
        and (signal.modulation, signal.symbol_rate) == ("qpsk", 32e9)
        and np.allclose(signal.powers, 10**-3.1, rtol=1e-6)
        and receiver.osnr == 20
    )


def _order(integrator: str) -> int:
    return INTEGRATORS[integrator].order if integrator in INTEGRATORS else 0


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _describe(result: Result) -> dict[str, Any]:
    solver = result.attrs("solver") if "solver" in result.groups() else {}
    run_file = tomllib.loads(result["run_file"]) if "run_file" in result else {}
    names = received(result)
    labels = result.get("fibre/labels", [])
    entry: dict[str, Any] = {
        "file": result.path.name,
        "integrator": str(solver.get("integrator", "?")),
        "step_m": float(solver.get("step", math.nan)),
        # Results of earlier versions do not hold it: then the lower order is taken.
        "resonance_step_m": float(solver.get("resonance_step_m", math.nan)),
        "precision": run_file.get("solver", {}).get("precision", "double"),
        "fundamental": labels[0] if len(labels) else "mode 1",
        "penalties": [],
    }
    for key in ("steps", "ffts", "exchanges", "seconds", "local_error", "energy_drift", "device"):
        entry[key] = _plain(solver.get(key))
    for name in names[1:]:
        modes = _penalties(result, name)
        entry["penalties"].append(
            {
                "distance_m": distance(result, name),
                "fundamental_db": float(modes[0]),
                "mean_db": float(modes.mean()),
            }
        )
    return entry


def _change(result: Result, distance_name: str, truth, best: dict, entry: dict) -> dict[str, float]:
    key = f"received/{distance_name}/q_squared_db"
    if key not in result or np.atleast_2d(result[key]).shape != truth.shape:
        raise InputError(
            f"{result.path}: its modes, channels or spans differ from those of {best['file']}; "
            "a study of the step wants the same link"
        )
    apart = np.atleast_2d(result[key]) - truth
    return {
        "max_db": float(np.abs(apart).max()),
        "rms_db": float(np.sqrt(np.mean(apart**2))),
        "mean_db": float(apart.mean()),
        "fundamental_db": entry["penalties"][-1]["fundamental_db"] - best["penalties"][-1]["fundamental_db"],
    }


def _by_group(result: Result) -> list[dict[str, Any]]:
    names = received(result)
    q = {name: np.atleast_2d(result[f"received/{name}/q_squared_db"]) for name in names}
    numbers = mode_groups(result, len(q[names[0]]))
    lines = []
    for number in np.unique(numbers):
        inside, received_at = numbers == number, []
        for name in names:
            flat = q[name][inside].reshape(1, -1)
            mean = float(mean_db(flat)[0])
            received_at.append(
                {
                    "name": name,
                    "distance_m": distance(result, name),
                    "mean_db": mean,
                    "min_db": float(flat.min()),
                    "penalty_db": mean - received_at[0]["mean_db"] if received_at else 0.0,
                }
            )
        lines.append({"group": int(number), "modes": int(inside.sum()), "places": received_at})
    return lines


def _by_mode(result: Result) -> dict[str, Any]:
    names = received(result)
    labels = [str(label) for label in result.get("fibre/labels", [])]
    modes: dict[str, Any] = {"labels": labels, "places": {}}
    for name in names:
        q = np.atleast_2d(result[f"received/{name}/q_squared_db"])
        modes["places"][name] = {
            "min_db": q.min(axis=1).tolist(),
            "mean_db": mean_db(q).tolist(),
            "max_db": q.max(axis=1).tolist(),
        }
    return modes
