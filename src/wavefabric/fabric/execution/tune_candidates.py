"""Builds a tuning's candidates, every algorithm of the registry with its options; predicts their times."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives import ALGORITHMS, Schedule, build, verify
from wavefabric.collectives.candidates import PIECES, Candidates, Choice
from wavefabric.collectives.candidates import candidates as every_candidate
from wavefabric.collectives.plans.plan import protocols_for
from wavefabric.collectives.structure import transfer_elements
from wavefabric.collectives.tuning import TimedChoice
from wavefabric.fabric import AnyFabric, PhotonicFabric, cost, plan_circuits
from wavefabric.fabric.candidates import candidates_on
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.execution.run_schedule import as_run

#: Candidates by collective operation and bytes.
Rows: TypeAlias = dict[tuple[str, int], list[TimedChoice]]

#: Algorithms that need switches.
SWITCHED = frozenset(name for name, algorithm in ALGORITHMS.items() if algorithm.switched)


def candidates(
    collective: str,
    ranks: int,
    wanted: Sequence[Choice],
    run: bool = False,
    step: Callable[[str], None] = lambda line: None,
) -> Iterator[tuple[Choice, Schedule]]:
    """Build the schedules of ``wanted`` choices; yield each choice with its schedule.

    A choice is an algorithm with its options. If dividing the data into pieces adds no rounds, they form no
    pipeline, and the choices with pieces are skipped. If schedules have the same traffic between ranks in the
    same rounds, only the one with the fewest options is yielded. With ``run``, rounds are those in which
    `wavefabric.runtime.exchange` runs the schedule (`run_schedule.as_run`). All schedules are verified, and
    are for an array of `elements_of` elements. ``step`` is called with a line of text for each choice.
    """
    rounds: dict[Choice, int] = {}
    seen: set[bytes] = set()
    no_pipeline: set[Choice] = set()
    for choice in wanted:
        step(f"{collective}: {choice}")
        plain = replace(choice, pieces=1)
        if plain in no_pipeline:
            continue
        proved = schedule = None  # frees memory: each may take 0.5 GB
        proved = schedule = build_choice(choice, collective, ranks, elements_of(ranks))
        schedule = as_run(schedule) if run else schedule
        if choice == plain:
            rounds[plain] = schedule.communication_rounds
        elif schedule.communication_rounds == rounds[plain]:
            no_pipeline.add(plain)
            continue
        if (key := _traffic(schedule)) not in seen:
            seen.add(key)
            verify(proved)
            yield choice, schedule


def choices(collective: str, ranks: int, fabric: AnyFabric | None = None, on_gpu: bool = False) -> Candidates:
    """Return the algorithms to compare: all that ``fabric`` can run or, if None, all that ranks can run."""
    if fabric is not None:
        return candidates_on(fabric, collective, range(ranks))
    return every_candidate(
        collective, ranks, switches=None if on_gpu else "CPUs have no switches that add up"
    )


def elements_of(ranks: int) -> int:
    """Return the number of elements of an array that all candidates divide evenly."""
    return 2 * ranks * ranks * max(PIECES)


def build_choice(choice: Choice, collective: str, ranks: int, elements: int) -> Schedule:
    """Build the schedule of a choice, an algorithm with its options, for an array of ``elements``."""
    return build(choice.algorithm, collective, ranks, elements, **choice.options)


def _traffic(schedule: Schedule) -> bytes:
    """Return a digest of the traffic between ranks in each round, independent of the order within a round."""
    t, columns = schedule.transfers, ("round", "src", "dst", "reduce", "switch")
    rows = np.stack([*(t[name].astype(np.int64) for name in columns), transfer_elements(schedule)])
    return sha256(np.take(rows, np.lexsort(rows[::-1]), axis=1).tobytes()).digest()


def predict(
    result: Mapping[str, Iterator[tuple[Choice, Schedule]]],
    sizes: Sequence[int],
    fabric: AnyFabric | None,
    model: str,
) -> tuple[Rows, dict[str, dict[Choice, str]]]:
    """Return all candidates with their predicted times, and the reasons why the fabric cannot run the others.

    Without a fabric the times are None. The model ``"kernel"`` gives one candidate per protocol; the other
    models give one candidate with the protocol ``"auto"``.
    """
    rows: Rows = {(collective, size): [] for collective in result for size in sizes}
    failures: dict[str, dict[Choice, str]] = {collective: {} for collective in result}
    # The model refuses a fabric without data on kernels.
    kernels = fabric.kernels if isinstance(fabric, Fabric) and model == "kernel" else None
    for collective, schedules in result.items():
        for choice, schedule in schedules:
            for protocol in protocols_for(schedule) if kernels else ("auto",):
                times: Sequence[float | None] = [None] * len(sizes)
                if fabric is not None:
                    options = {"protocol": protocol, "graph": True} if kernels else {}
                    try:
                        times = _times(schedule, sizes, fabric, model, options)
                    except InputError as error:
                        failures[collective][choice] = str(error)
                        break
                for size, time in zip(sizes, times, strict=True):
                    rows[collective, size].append(TimedChoice(replace(choice, protocol=protocol), time))
            del schedule  # frees memory before the next is built
    if kernels is not None:
        # A call takes at least the host's launch time; of equal times the fastest on GPUs comes first.
        issue, gap = kernels.issue * 1e6, kernels.gap * 1e6
        for row in rows.values():
            row[:] = [
                replace(each, predicted_us=max(each.us + gap, issue)) for each in sorted(row, key=rounded)
            ]
    for collective, failed in failures.items():
        if failed and not rows[collective, sizes[0]]:
            raise InputError(next(iter(failed.values())))
    return rows, failures


def rounded(each: TimedChoice) -> float:
    """Return the measured or predicted time of a candidate in µs, rounded so that equal times tie."""
    return float(f"{each.us:.9g}")


def _times(
    schedule: Schedule, sizes: Sequence[int], fabric: AnyFabric, model: str, options: dict[str, Any]
) -> list[float]:
    """Return the predicted times in µs of a schedule for sizes in ascending order."""
    costed = list(sizes)
    if isinstance(fabric, PhotonicFabric):
        # Circuits do not depend on bytes, so time is linear in bytes between two sizes.
        options, costed = {"plan": plan_circuits(schedule, fabric)}, [sizes[0], sizes[-1]]
    elements = elements_of(schedule.ranks)
    costs = [cost(schedule, fabric, size / elements, model, **options) for size in costed]
    return np.interp(sizes, costed, [each.seconds * 1e6 for each in costs]).tolist()


def promising(rows: Rows, within: float) -> dict[tuple[str, int], set[Choice]]:
    """Return a dictionary from (collective operation, size) to the choices worth measuring.

    These are predicted to take at most ``within`` times as long as the fastest, or have no prediction. The
    fastest here is one without switches, since not every transport can use them.
    """
    least = {key: min(c.us for c in row if c.choice.algorithm not in SWITCHED) for key, row in rows.items()}
    return {
        key: {each.choice for each in row if each.predicted_us is None or each.us <= within * least[key]}
        for key, row in rows.items()
    }


def of_protocols(row: Sequence[TimedChoice], protocols: Sequence[str]) -> list[TimedChoice]:
    """Return candidates: each algorithm in ``row`` with each of ``protocols``, and its time if predicted.

    A prediction for a protocol holds for it alone. One for the protocol ``"auto"`` holds for copies, and for
    transports without protocols. Algorithms that need switches are returned with signals only.
    """
    known = {each.choice: each.predicted_us for each in row}
    made = []
    for choice in dict.fromkeys(map(plain, known)):
        by_itself = known.get(choice)
        for protocol in protocols:
            if choice.algorithm in SWITCHED and protocol != "signals":
                continue  # no other protocol can use switches
            own = replace(choice, protocol=protocol)
            made.append(TimedChoice(own, known.get(own, by_itself if protocol == "copies" else None)))
    return made


def is_promising(choice: Choice, row: Sequence[TimedChoice], chosen: set[Choice]) -> bool:
    """Return whether ``choice`` is worth measuring: whether it is in ``chosen``.

    If ``row`` lacks its protocol, it suffices that ``chosen`` has its algorithm with another one.
    """
    if any(each.choice == choice for each in row):
        return choice in chosen
    return plain(choice) in map(plain, chosen)


def plain(choice: Choice) -> Choice:
    """Return ``choice`` with the protocol ``"auto"``."""
    return replace(choice, protocol="auto")
