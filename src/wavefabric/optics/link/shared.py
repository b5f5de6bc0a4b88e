"""Parts that runs of one process have in common: fibre, propagator with plans and tables, back to back."""

from collections.abc import Callable, Hashable
from typing import Any

from wavefabric.optics.run_file.load import RunFile


class SharedParts:
    """Parts of earlier runs by kind and a key of what they were made from, for runs where it is equal."""

    def __init__(self):
        self._kept: dict[str, dict[Hashable, Any]] = {}

    def get(self, kind: str, key: Hashable, make: Callable[[], Any], most: int = 1) -> Any:
        """What was made for an equal key, or is made now; of a kind the last so many are kept."""
        kept = self._kept.setdefault(kind, {})
        if key not in kept:
            while len(kept) >= most:  # before the next is made: they may fill the memory
                del kept[next(iter(kept))]
            kept[key] = make()
        return kept[key]

    def release_others(self, kind: str, key: Hashable = None) -> bool:
        """Release all of a kind but what was made for this key; whether that is there."""
        kept = self._kept.pop(kind, {})
        self._kept[kind] = {key: kept[key]} if key in kept else {}
        return key in kept


def fibre_key(run: RunFile) -> Hashable:
    """What the fibre of a run is made from."""
    return run.sections()["run file, fibre"], run.signal.centre


def propagator_key(run: RunFile) -> Hashable:
    """What buffers, plans and tables of a run are made for besides its fibre and ranks; not its steps."""
    solver = run.solver.model_dump_json(exclude={"step", "max_phase", "tolerance"})
    grid, fixed = run.signal.wdm_grid, run.solver.step is not None  # others need memory for more tables
    return grid.samples, grid.sample_rate, solver, fixed


def back_to_back_key(run: RunFile) -> Hashable:
    """What the reception of the transmitted signal depends on, besides the modes of the fibre."""
    sections = run.sections()
    return run.solver.precision, *(sections[f"run file, {name}"] for name in ("seed", "signal", "receiver"))
