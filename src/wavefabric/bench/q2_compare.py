"""Results of the link at several steps, held against the finest."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.optics.integrators import INTEGRATORS
from wavefabric.results import Result
from wavefabric.results.plots import distance, mean_db, mode_groups, received

#: Mean penalty of the fundamental mode in dB after so many km (Brehler et al., section 6).
PAPER = {80.0: -0.06, 160.0: -0.13}


def compare(results: list[Result]) -> dict[str, Any]:
    """Hold results of one link, run with several steps, against the finest of them.

    Parameters
    ----------
    results : list of Result
        Each received back to back and after at least one span.

    Returns
    -------
    dict
        As `wavefabric.bench.fibre_q2.run`.

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
    runs.sort(key=lambda entry: -entry["step_m"])
    return {
        "benchmark": "fibre-q2",
        "finest": results[best].path.name,
        "file": str(results[best].path),
        "place": {"name": last, "distance_m": distance(finest, last)},
        "runs": runs,
        "paper": [{"distance_m": km * 1e3, "fundamental_penalty_db": db} for km, db in PAPER.items()],
        "groups": _by_group(finest),
        "modes": _by_mode(finest),
        "machine": {key: _plain(value) for key, value in finest.attrs().items()},
    }


def _order(integrator: str) -> int:
    return INTEGRATORS[integrator].order if integrator in INTEGRATORS else 0


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _describe(result: Result) -> dict[str, Any]:
    solver = result.attrs("solver") if "solver" in result.groups() else {}
    run_file = tomllib.loads(result["run_file"]) if "run_file" in result else {}
    names = received(result)
    reference = mean_db(np.atleast_2d(result["received/back_to_back/q_squared_db"]))
    labels = result.get("fibre/labels", [])
    entry: dict[str, Any] = {
        "file": result.path.name,
        "integrator": str(solver.get("integrator", "?")),
        "step_m": float(solver.get("step", math.nan)),
        "precision": run_file.get("solver", {}).get("precision", "double"),
        "fundamental": labels[0] if len(labels) else "mode 1",
        "penalties": [],
    }
    for key in ("steps", "ffts", "exchanges", "seconds", "local_error", "energy_drift", "device"):
        entry[key] = _plain(solver.get(key))
    for name in names[1:]:
        mean = mean_db(np.atleast_2d(result[f"received/{name}/q_squared_db"]))
        entry["penalties"].append(
            {"distance_m": distance(result, name), "fundamental_db": float(mean[0] - reference[0])}
        )
    return entry


def _change(result: Result, place: str, truth, best: dict, entry: dict) -> dict[str, float]:
    key = f"received/{place}/q_squared_db"
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
        inside, places = numbers == number, []
        for name in names:
            flat = q[name][inside].reshape(1, -1)
            mean = float(mean_db(flat)[0])
            places.append(
                {
                    "name": name,
                    "distance_m": distance(result, name),
                    "mean_db": mean,
                    "min_db": float(flat.min()),
                    "penalty_db": mean - places[0]["mean_db"] if places else 0.0,
                }
            )
        lines.append({"group": int(number), "modes": int(inside.sum()), "places": places})
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
