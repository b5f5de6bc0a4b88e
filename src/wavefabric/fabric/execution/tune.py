"""Finds the fastest algorithm for each size: predicted on a fabric, or measured between ranks."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import wavefabric
from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, choice, ensure
from wavefabric.base.system.progress import Progress
from wavefabric.base.units import counted
from wavefabric.collectives.candidates import Candidates, Choice
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.plans.plan import PROTOCOLS, protocols_for
from wavefabric.collectives.sizes import MOST_RANKS
from wavefabric.collectives.tuning import TunedCollective, TunedSize, Tuning
from wavefabric.fabric import AnyFabric
from wavefabric.fabric.cost_models.cost import model_for
from wavefabric.fabric.execution import timed_schedule
from wavefabric.fabric.execution import tune_candidates as pool
from wavefabric.fabric.execution.report import size_words, transport_name
from wavefabric.fabric.execution.run_schedule import SIZES, fabric_of_ranks, sizes_between
from wavefabric.fabric.execution.timed_schedule import SizedSchedule
from wavefabric.fabric.execution.timing import Ranks, check_options
from wavefabric.runtime.exchange.communicator import Communicator

#: Smallest and largest array in bytes if times are only predicted.
PREDICTED_SIZES = 1 << 12, 1 << 30
#: Candidates whose predicted time exceeds the fastest by more than this factor are not measured.
WITHIN = 3.0
#: Seconds per sample of a measured time: less than in other benchmarks, since there are many.
_SAMPLE = 0.05


@dataclass(frozen=True)
class TuningSearch:
    """Holds the result of a search, and what it left out.

    ``measured``: number of times measured on all transports, and how many there would be without the limit
    ``within``: candidates predicted to take more than ``within`` times as long as the fastest are not
    measured. ``left_out``: algorithms that do not support this number of ranks, and why. ``wrong``: choices
    that gave wrong data and are no longer candidates. ``unavailable``: transports and protocols that could
    not be used, such as ``"p2p, packets"``, and why.
    """

    tuning: Tuning
    measured: tuple[int, int]
    within: float
    left_out: dict[str, str]
    wrong: tuple[str, ...]
    unavailable: dict[str, str]


@dataclass(frozen=True)
class TuningOptions:
    """Holds options of `tune`: how it predicts and how it measures."""

    #: Fabric and cost model of predictions, as in `wavefabric.fabric.cost`; between ranks, rounds are as in
    #: the run. The model ``"kernel"`` predicts each protocol of kernels.
    fabric: AnyFabric | None = None
    model: str = "auto"
    #: Number of ranks if times are only predicted; by default the GPUs of the fabric.
    count: int | None = None
    #: For measurements: element type, samples per time.
    dtype: str = "float32"
    repeats: int = 5
    #: Candidates predicted to exceed the fastest by more than this factor are not measured. Protocols that
    #: the model does not predict are measured if their algorithm is.
    within: float = WITHIN


def tune(
    collectives: Sequence[str] = ("all-reduce", "all-gather"),
    sizes: Sequence[int] = (),
    *,
    ranks: Ranks | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> TuningSearch:
    """Find the fastest algorithm of each collective operation and size, measured between ranks or predicted.

    ``sizes`` are bytes of the whole array. By default each is four times the one before, between the ends of
    `PREDICTED_SIZES` or, with ``ranks``, of `run_schedule.SIZES`. With ``ranks`` promising candidates are
    timed on each transport with each protocol, and their data are checked to the bit; all ranks must call it.
    Without ``ranks`` times are predicted. ``options`` are the fields of `TuningOptions`.

    `InputError` for unknown names, sizes that are no whole number of elements, a fabric with fewer GPUs than
    ranks (with ``ranks``: another number), no transport that works, or no algorithm for this number of ranks.
    """
    chosen = TuningOptions(**options)
    if ranks is not None:
        timed_schedule.values_of(chosen.dtype, ranks.size)  # raises if data cannot be checked
        fabric = fabric_of_ranks(chosen.fabric, ranks.size)
        chosen = replace(chosen, count=ranks.size, fabric=fabric)
    elif chosen.fabric is None:
        raise InputError("fabric: none given; allowed: one, or ranks that measure")
    fabric, model = chosen.fabric, chosen.model
    check_options(chosen.repeats, sizes, 1 if ranks is None else np.dtype(chosen.dtype).itemsize)
    ensure(chosen.within >= 1, "within", f"{chosen.within} given", "from 1")
    if fabric is not None and fabric.ranks < 2:
        raise InputError(f"fabric: {fabric.name} has {fabric.ranks} GPU; allowed: 2 or more")
    most = MOST_RANKS if fabric is None else fabric.ranks
    count = whole("ranks", most if chosen.count is None else chosen.count, 2, most)
    collectives = tuple(dict.fromkeys(collectives))
    for collective in collectives:
        choice("collective", collective, COLLECTIVES)
    if fabric is not None:
        # Between ranks copies, NCCL and MPI are predicted; kernels of p2p are timed all the same.
        model = model_for(fabric, count, model, kernels=ranks is None)
    on_gpu = ranks is not None and ranks.on_gpu
    pools = {each: pool.choices(each, count, fabric, on_gpu) for each in collectives}
    for each in pools.values():
        if not each.choices:
            raise InputError(next(iter(each.left_out.values())))
    ends = PREDICTED_SIZES if ranks is None else SIZES["cuda" if ranks.on_gpu else "cpu"]
    sizes = sorted(set(sizes)) or sizes_between(*ends)
    progress = progress or Progress()
    with _steps(progress, "candidates", sum(len(each.choices) for each in pools.values())) as step:
        how = ranks is not None, step
        schedules = {name: pool.candidates(name, count, each.choices, *how) for name, each in pools.items()}
        rows, failures = pool.predict(schedules, sizes, fabric, model)
    tables, counts, wrong, left_out = _tables(rows), (0, 0), [], {}
    if ranks is not None:
        tables, counts, wrong, left_out = _measure(ranks, rows, chosen, progress)
    unavailable = {} if ranks is None else ranks.unavailable
    reasons = "; ".join([*wrong, *unavailable.values()])
    ensure(tables, "transports", f"none can be used ({reasons})", "others")
    facts = {}
    if ranks is not None:
        machine = ranks.machine()
        threads = counted(machine["threads"], "thread")
        device = machine.get("gpu") or f"{machine['cpu']}, {threads} a rank"
        facts = {"dtype": chosen.dtype, "device": device}
    facts |= {} if fabric is None else {"fabric": fabric.name, "model": model}
    left_out |= _left_out(pools, failures)
    return TuningSearch(
        Tuning(count, tuple(tables), **facts, wavefabric=wavefabric.__version__, left_out=left_out),
        counts,
        chosen.within,
        left_out,
        tuple(wrong),
        unavailable,
    )


def _left_out(pools: dict[str, Candidates], failures: dict[str, dict[Choice, str]]) -> dict[str, str]:
    """Return a dictionary from the name of an algorithm to the reason why it is not compared.

    If it is compared for another collective operation, the key is ``name, collective``.
    """
    known = {collective: each.without(failures[collective]) for collective, each in pools.items()}
    compared = {choice.algorithm for each in known.values() for choice in each.choices}
    return {
        f"{name}, {collective}" if name in compared else name: why
        for collective, each in known.items()
        for name, why in each.left_out.items()
    }


@contextmanager
def _steps(progress: Progress, label: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show progress; yield a function to call, with a line of text, when a step begins."""
    begun = itertools.count()
    progress.start(total, label)
    try:
        yield lambda line: progress.update(next(begun), line)
    finally:
        progress.update(next(begun))
        progress.finish()


def _tables(rows: pool.Rows, transport: str | None = None) -> list[TunedCollective]:
    """Return a table per collective operation: candidates for each size by time, measured ones first."""
    tables: dict[str, list[TunedSize]] = {}
    for (collective, size), row in rows.items():
        if row:
            # Times equal up to round-off keep the order of candidates.
            order = sorted(row, key=lambda each: (each.measured_us is None, pool.rounded(each)))
            tables.setdefault(collective, []).append(TunedSize(size, tuple(order)))
    return [TunedCollective(collective, tuple(sizes), transport) for collective, sizes in tables.items()]


def _measure(
    ranks: Ranks, rows: pool.Rows, chosen: TuningOptions, progress: Progress
) -> tuple[list[TunedCollective], tuple[int, int], list[str], dict[str, str]]:
    """Measure promising candidates on all transports.

    Returns tables; the numbers of times measured and possible; choices that gave wrong data; and algorithms
    that were left out, with the reasons.
    """
    fast = ranks.control.bcast(pool.promising(rows, chosen.within))  # round-off may differ between machines
    width, tables, timed, possible, wrong = np.dtype(chosen.dtype).itemsize, [], 0, 0, []
    left_out: dict[str, str] = {}
    sized = {
        (collective, size, choice): SizedSchedule.of(
            pool.build_choice(choice, collective, ranks.size, size // width), width
        )
        for (collective, size), row in fast.items()
        for choice in set(map(pool.plain, row))
    }
    every = list(sized.values())
    timed_schedule.check_memory(ranks, every, width)
    largest, ranks.sample = timed_schedule.largest_buffers(every), _SAMPLE
    switched = {c.choice.algorithm for row in rows.values() for c in row} & pool.SWITCHED
    for comm in ranks.each():
        protocols = _serving(ranks, comm, every, width)
        why = comm.why_no_switch() if switched else None
        barred = set() if why is None else switched
        left_out |= dict.fromkeys(barred, f"{transport_name(comm.transport)}: {why}")
        offered = {
            key: [each for each in pool.of_protocols(row, protocols) if each.choice.algorithm not in barred]
            for key, row in rows.items()
        }
        wanted = [
            (*key, each.choice)
            for key, row in offered.items()
            for each in row
            if pool.is_promising(each.choice, rows[key], fast[key])
        ]
        buffers = {name: comm.allocate((size,), chosen.dtype) for name, size in largest.items()}
        times, bad = {}, set()
        with _steps(progress, transport_name(comm.transport), len(wanted)) as step:
            for key in wanted:
                collective, size, choice = key
                step(f"{collective}, {size_words(size)}: {choice}")
                each = sized[collective, size, pool.plain(choice)]
                own = {name: buffers[name] for name in each.schedule.buffers}
                try:
                    exchange = comm.bind(each.schedule, own, choice.protocol)
                except InputError as error:  # raised alike on all ranks
                    if choice.algorithm not in switched:
                        raise
                    left_out[f"{choice} of {size_words(size)}"] = str(error)
                    bad.add(key)
                    continue
                row = timed_schedule.check_and_time(ranks, comm, each, exchange.run, own, chosen.repeats)
                exchange.check()
                del exchange  # frees its memory before the next is bound
                times[key] = row["us"]
                if row["wrong"]:
                    bad.add(key)
                    where = f"{transport_name(comm.transport)}, {size_words(size)}"
                    wrong.append(f"{collective} by {choice} ({where}): {row['wrong']} elements wrong")
        measured = {
            key: [
                replace(each, measured_us=times.get((*key, each.choice)))
                for each in row
                if (*key, each.choice) not in bad
            ]
            for key, row in offered.items()
        }
        tables += _tables(measured, comm.transport)
        timed, possible = timed + len(wanted), possible + sum(map(len, offered.values()))
        del buffers
    measured = {each.choice.algorithm for table in tables for size in table.sizes for each in size.candidates}
    left_out = {name: why for name, why in left_out.items() if name not in measured}
    return tables, (timed, possible), wrong, left_out


def _serving(ranks: Ranks, comm: Communicator, sizes: list[SizedSchedule], width: int) -> list[str]:
    """Return the protocols of a transport to time (``auto`` if none); note in ``ranks`` why others fail."""
    serving = []
    for protocol in comm.protocols[1:]:
        why = comm.why_refused(protocol)
        try:
            if why is None and protocol in PROTOCOLS:
                usable = [each for each in sizes if protocol in protocols_for(each.schedule)]
                timed_schedule.check_memory(ranks, usable, width, [protocol])
        except InputError as error:
            why = str(error)
        if why is None:
            serving.append(protocol)
        else:
            ranks.unavailable[f"{comm.transport}, {protocol}"] = why
    return serving or ["auto"]
