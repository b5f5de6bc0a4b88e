"""The search for the fastest algorithm of each size: predicted on a fabric, measured between ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

import wavefabric
from wavefabric.collectives import Schedule
from wavefabric.collectives.arguments import MOST_RANKS, whole
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.tuning import Choice, TimedChoice, TunedCollective, TunedSize, Tuning
from wavefabric.errors import InputError, show
from wavefabric.execution.measure import Ranks, check_options
from wavefabric.execution.report import size_words, transport_name
from wavefabric.execution.run_schedule import SIZES, fabric_of_ranks, sizes_between
from wavefabric.execution.timed_schedule import (
    Plan,
    check_and_time,
    check_memory,
    largest_buffers,
    values_of,
)
from wavefabric.execution.tune_candidates import build_choice, candidates, choices, elements_of, left_out
from wavefabric.fabric import AnyFabric
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.planning import plan_circuits
from wavefabric.system.progress import Progress

#: Smallest and largest bytes of predictions alone.
PREDICTED_SIZES = 1 << 12, 1 << 30
#: Candidates predicted to take more than so many times the fastest are not measured.
WITHIN = 3.0
#: Seconds that a sample of a measured time lasts: less than elsewhere, since there are many.
_SAMPLE = 0.05

#: Candidates by collective operation and bytes.
_Rows: TypeAlias = dict[tuple[str, int], list[TimedChoice]]


@dataclass(frozen=True)
class TuningSearch:
    """What a search found, and what it left out.

    ``measured``: times measured on each transport, and how many there would have been without predictions,
    of which those ``within`` so many times the fastest were measured.
    ``left_out``: algorithms that cannot serve so many ranks, and why. ``wrong``: what moved wrong data and is
    no candidate any more. ``unavailable``: transports that could not be used, and why.
    """

    tuning: Tuning
    measured: tuple[int, int]
    within: float
    left_out: dict[str, str]
    wrong: tuple[str, ...]
    unavailable: dict[str, str]


def tune(
    collectives: Sequence[str] = ("all-reduce", "all-gather"),
    sizes: Sequence[int] = (),
    *,
    fabric: AnyFabric | None = None,
    model: str = "auto",
    count: int | None = None,
    ranks: Ranks | None = None,
    dtype: str = "float32",
    repeats: int = 5,
    within: float = WITHIN,
    progress: Progress | None = None,
) -> TuningSearch:
    """The fastest algorithm of each collective operation and size: between ranks measured, else predicted.

    Parameters
    ----------
    collectives : sequence of str
        Of `wavefabric.collectives.conditions.COLLECTIVES`.
    sizes : sequence of int
        Bytes of the whole array; by default `PREDICTED_SIZES`, or between ranks `run_schedule.SIZES`, in
        steps of 4.
    fabric, model
        On which times are predicted, as by `wavefabric.fabric.cost`: of rounds as the schedule has them, or
        between ranks as they are run.
    count : int, optional
        Ranks of predictions alone; by default the GPUs of the fabric.
    ranks : Ranks, optional
        Who measures, on each of its transports; data are checked to the bit. Collective.
    dtype, repeats
        Of what is measured: element type, samples of each time.
    within : float
        Where there are predictions, candidates that are predicted to take more than so many times the fastest
        are not measured.

    Raises
    ------
    InputError
        For unknown words, sizes that are no whole number of elements, a fabric of fewer GPUs (between ranks:
        of another number), no transport that can be used, or if no algorithm serves so many ranks.
    """
    width = 1
    if ranks is not None:
        values_of(dtype, ranks.size)  # refuses what cannot be checked
        width, count = np.dtype(dtype).itemsize, ranks.size
        fabric = fabric_of_ranks(fabric, count)
    elif fabric is None:
        raise InputError("fabric: none given; allowed: one, or ranks that measure")
    check_options(repeats, sizes, width)
    if not within >= 1:
        raise InputError(f"within: {within} given; allowed: from 1")
    count = _check_count(count, fabric)
    collectives = tuple(dict.fromkeys(collectives))
    _check_collectives(collectives, count)
    ends = PREDICTED_SIZES if ranks is None else SIZES["cuda" if ranks.on_gpu else "cpu"]
    sizes = sorted(set(sizes)) or sizes_between(*ends)
    steps = _Steps(progress or Progress())
    try:
        steps.start("candidates", sum(len(choices(each, count)) for each in collectives))
        found = {each: candidates(each, count, ranks is not None, steps) for each in collectives}
        rows, model = _predict(found, sizes, fabric, model)
        chosen, wrong = rows if ranks is None else _promising(rows, within, ranks), []
        tables = (
            _tables(rows) if ranks is None else _measure(ranks, rows, chosen, dtype, repeats, wrong, steps)
        )
    finally:
        steps.finish()
    if not tables:
        reasons = "; ".join([*wrong, *(ranks.unavailable.values() if ranks else ())])
        raise InputError(f"transports: none can be used ({reasons}); allowed: others")
    measured = {} if ranks is None else {"dtype": dtype, "device": _device_words(ranks)}
    predicted = {} if fabric is None else {"fabric": fabric.name, "model": model}
    return TuningSearch(
        Tuning(count, tuple(tables), **measured, **predicted, wavefabric=wavefabric.__version__),
        (0, 0) if ranks is None else (sum(map(len, chosen.values())), sum(map(len, rows.values()))),
        within,
        {name: why for each in collectives for name, why in left_out(each, count).items()},
        tuple(wrong),
        {} if ranks is None else ranks.unavailable,
    )


class _Steps:
    """Progress that counts what it is told to begin."""

    def __init__(self, progress: Progress):
        self._progress, self._begun = progress, 0

    def start(self, label: str, total: int) -> None:
        """Count anew; all before is done."""
        self.finish()
        self._begun = 0
        self._progress.start(total, label)

    def __call__(self, line: str) -> None:
        self._progress.update(self._begun, line)
        self._begun += 1

    def finish(self) -> None:
        """What was begun is done, or will not be."""
        self._progress.update(self._begun)
        self._progress.finish()


def _check_count(count: int | None, fabric: AnyFabric | None) -> int:
    if fabric is not None and fabric.ranks < 2:
        raise InputError(f"fabric: {fabric.name} has {fabric.ranks} GPU; allowed: 2 or more")
    most = MOST_RANKS if fabric is None else fabric.ranks
    return whole("ranks", most if count is None else count, 2, most)


def _check_collectives(collectives: Sequence[str], count: int) -> None:
    for collective in collectives:
        if collective not in COLLECTIVES:
            raise InputError(f"collective: {show(collective)} given; allowed: {', '.join(COLLECTIVES)}")
        if not choices(collective, count):
            raise InputError(next(iter(left_out(collective, count).values())))


def _device_words(ranks: Ranks) -> str:
    """The processor or GPU of the first rank."""
    machine = ranks.machine()
    threads = machine["threads"]
    return machine.get("gpu") or f"{machine['cpu']}, {threads} thread{'s' if threads > 1 else ''} a rank"


# --- predicted ------------------------------------------------------------------------------------------


def _predict(
    found: dict[str, Iterator[tuple[Choice, Schedule]]],
    sizes: Sequence[int],
    fabric: AnyFabric | None,
    model: str,
) -> tuple[_Rows, str]:
    """All candidates, with their times if there is a fabric, and the model that gave these."""
    rows: _Rows = {(collective, size): [] for collective in found for size in sizes}
    for collective, schedules in found.items():
        for choice, schedule in schedules:
            times: Sequence[float | None] = [None] * len(sizes)
            if fabric is not None:
                times, model = _times(schedule, sizes, fabric, model)
            for size, time in zip(sizes, times, strict=True):
                rows[collective, size].append(TimedChoice(choice, time))
    return rows, model


def _times(
    schedule: Schedule, sizes: Sequence[int], fabric: AnyFabric, model: str
) -> tuple[list[float], str]:
    """Predicted times in µs of rising sizes, and the model that gave them."""
    plan, costed = {}, list(sizes)
    if isinstance(fabric, PhotonicFabric):
        # Circuits do not depend on bytes, so that time grows in proportion between two sizes.
        plan, costed = {"plan": plan_circuits(schedule, fabric)}, [sizes[0], sizes[-1]]
    elements = elements_of(schedule.ranks)
    costs = [cost(schedule, fabric, size / elements, model, **plan) for size in costed]
    return np.interp(sizes, costed, [each.seconds * 1e6 for each in costs]).tolist(), costs[0].model


def _promising(rows: _Rows, within: float, ranks: Ranks) -> _Rows:
    """Candidates that are not predicted to take more than so many times the fastest, or not at all."""
    chosen = {
        key: [each for each in row if each.predicted_us is None or each.us <= within * min(e.us for e in row)]
        for key, row in rows.items()
    }
    return ranks.control.bcast(chosen)  # round-off may differ between machines


def _tables(rows: _Rows, transport: str | None = None) -> list[TunedCollective]:
    """Candidates in order: what was measured by its time, then what was not."""
    tables: dict[str, list[TunedSize]] = {}
    for (collective, size), row in rows.items():
        if row:
            # Equal but for round-off: in the order of candidates.
            order = sorted(row, key=lambda each: (each.measured_us is None, float(f"{each.us:.9g}")))
            tables.setdefault(collective, []).append(TunedSize(size, tuple(order)))
    return [TunedCollective(collective, tuple(sizes), transport) for collective, sizes in tables.items()]


# --- measured -------------------------------------------------------------------------------------------


def _measure(
    ranks: Ranks, rows: _Rows, chosen: _Rows, dtype: str, repeats: int, wrong: list[str], steps: _Steps
) -> list[TunedCollective]:
    """Tables of every transport, with the times of those chosen; ``wrong`` is told of wrong data."""
    width, tables = np.dtype(dtype).itemsize, []
    plans = {
        (collective, size, each.choice): Plan.of(
            build_choice(each.choice, collective, ranks.size, size // width), width
        )
        for (collective, size), row in chosen.items()
        for each in row
    }
    check_memory(ranks, list(plans.values()), width)
    largest, ranks.sample = largest_buffers(list(plans.values())), _SAMPLE
    for comm in ranks.each():
        steps.start(f"{transport_name(comm.transport)}", len(plans))
        buffers = {name: comm.allocate((size,), dtype) for name, size in largest.items()}
        times, bad = {}, set()
        for key, plan in plans.items():
            collective, size, choice = key
            steps(f"{collective}, {size_words(size)}: {choice}")
            own = {name: buffers[name] for name in plan.schedule.buffers}
            row = check_and_time(ranks, comm, plan, comm.bind(plan.schedule, own).run, own, repeats)
            times[key] = row["us"]
            if row["wrong"]:
                bad.add(key)
                where = f"{transport_name(comm.transport)}, {size_words(size)}"
                wrong.append(f"{collective} by {choice} ({where}): {row['wrong']} elements wrong")
        timed = {
            key: [
                replace(each, measured_us=times.get((*key, each.choice)))
                for each in row
                if (*key, each.choice) not in bad
            ]
            for key, row in rows.items()
        }
        tables += _tables(timed, comm.transport)
        del buffers
    return tables
