"""Benchmark ``fibre-scaling``: a step of a fibre whose modes are split over ranks, over a step on one."""

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.no_exchange import without_transfers
from wavefabric.base.arguments import positive, whole
from wavefabric.base.errors import choices
from wavefabric.base.results.figure_style import BLUE, GREY, ORANGE
from wavefabric.cli.bench.common import result_of, rows, silent
from wavefabric.cli.bench.solver_rates import first_modes
from wavefabric.fabric.execution import report, timing
from wavefabric.fabric.execution.timing import Ranks, times
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.propagation.operators_ranks import ExchangeOptions, RankOperators, rank_operators
from wavefabric.optics.propagation.propagate import PropagationOptions, memory_needed
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.runtime.exchange.communicator import Communicator, solo

EXCHANGES = ("dense", "factored")
#: log2 of the samples a row by kind of device; the paper: 2^14 symbols of 128 samples.
LOG2_N = {"cpu": 12, "cuda": 21}
_SAMPLE_RATE = 4.096e12
_MODES = 120
#: √W; far from where a step of 100 m would fail.
_AMPLITUDE = 0.02


def run(
    ranks: Ranks,
    modes_per_rank: int = 15,
    log2_n: int | None = None,
    steps: int = 150,
    exchanges: Sequence[str] = EXCHANGES,
    step: float = 100.0,
    repeats: int = 3,
    progress: Callable[[str], object] = silent,
) -> dict[str, Any]:
    """Time RK4IP in double precision with a fixed number of modes a rank; collective.

    Each rank has so many of the first modes of the 62.5 µm fibre, and groups may be cut; set-up and gathering
    are not counted, and times are those of the slowest rank. Powers of rows travel (dense), or of the exact
    groups of rows on each rank (factored). ``step`` (m) does not change the time.

    Gives ``forms``, one for each form of exchange, with ``one_rank`` (T₁: the unsplit code on the modes of
    one rank), ``split`` (the split code on the same), ``no_exchange`` (the work of this number of ranks,
    nothing sent); ``cases``, one for each transport and form, with ``ms`` a step, ``only_communication``
    (without the work on what the others sent), ``ratio`` T_K/T₁ and ``exposed_ms`` (ms − no_exchange,
    of the same kernels).
    """
    log2_n = LOG2_N["cuda" if ranks.on_gpu else "cpu"] if log2_n is None else log2_n
    whole("modes-per-rank", modes_per_rank, 1, _MODES // ranks.size)
    whole("log2n", log2_n, 8, 26)
    whole("steps", steps, 1)
    whole("repeats", repeats, 1)
    positive(step, "m", "step")
    choices("exchange", exchanges, EXCHANGES)
    bench = _Bench(ranks, modes_per_rank, 1 << log2_n, steps, step, repeats)
    for form in exchanges:
        options = PropagationOptions("rk4ip", step=step, exchange=form)
        needed = memory_needed(bench.fibre, bench.n, options, ranks.device, bench.local_modes, ranks.on_gpu)
        ranks.check_memory(needed, f"modes-per-rank: {modes_per_rank} of 2^{log2_n} samples")
    forms = []
    for form in exchanges:
        progress(f"{form}: one rank, and split without exchange")
        forms.append(bench.form(form))
    cases = []
    for comm in ranks.each():
        for measured in forms:
            form = measured["exchange"]
            progress(f"{comm.label}, {form}: {steps} steps, {repeats} times")
            cases.append(bench.case(comm, form, measured))
    facts = {"modes_per_rank": modes_per_rank, "samples": bench.n, "steps": steps, "repeats": repeats}
    return result_of(ranks, "fibre-scaling", cases, **facts, forms=forms)


class _Bench:
    def __init__(self, ranks: Ranks, modes: int, n: int, steps: int, h: float, repeats: int):
        self.ranks, self.device = ranks, ranks.device
        self.n, self.steps, self.h, self.repeats = n, steps, h, repeats
        self.fibre, self.own = first_modes(modes * ranks.size), first_modes(modes)
        self.local_modes = RankModes(tuple(range(0, modes * ranks.size + 1, modes)), ranks.rank)
        self.only_own = RankModes((0, modes))

    def form(self, form: str) -> dict[str, Any]:
        kerr = "dense" if form == "dense" else "auto"
        one = self.time(FibreOperators(self.device, self.own, self.n, _SAMPLE_RATE, np.complex128, kerr))
        split = self.time(self.split(solo(self.device), form))
        none = self.time(self.split(without_transfers(self.ranks.base), form))
        return {
            "exchange": form,
            "one_rank": one,
            "split": split | {"ratio": split["ms"] / one["ms"]},
            "no_exchange": none | {"ratio": none["ms"] / one["ms"]},
        }

    def case(self, comm: Communicator, form: str, alone: dict[str, Any]) -> dict[str, Any]:
        one = alone["one_rank"]["ms"]
        operators = self.split(comm, form)
        exchanged = 4 * operators.exchange_bytes / comm.size
        ours = self.time(operators)
        bare = self.time(self.split(comm, form, others=False))
        none = alone["no_exchange"]
        if comm.one_sided:  # other kernels, which do the same work in another order
            none = self.time(self.split(without_transfers(comm, one_sided=True), form))
        return ours | {
            "transport": comm.label,
            "exchange": form,
            "ratio": ours["ms"] / one,
            "only_communication": bare | {"ratio": bare["ms"] / one},
            "exposed_ms": ours["ms"] - none["ms"],
            "bytes_received_a_step": exchanged,
        }

    def split(self, comm: Communicator, form: str, others: bool = True) -> RankOperators:
        """The split code on all ranks, or on one with its own modes alone."""
        fibre, modes = (self.own, self.only_own) if comm.size == 1 else (self.fibre, self.local_modes)
        exchange = ExchangeOptions(form, use_received=others)
        return rank_operators(comm, fibre, self.n, _SAMPLE_RATE, np.complex128, modes, "auto", exchange)

    def time(self, operators: FibreOperators) -> dict[str, Any]:
        """ms per step, as a propagation takes it: on a GPU by a captured graph if no rank waits."""
        self.ranks.control.barrier()  # nobody frees what another still reads
        gc.collect()
        integrator, A = INTEGRATORS["rk4ip"](operators), operators.empty()
        self.fill(A)
        operators.prepare(*integrator.lengths(self.h))
        integrator.begin(A, self.h)
        integrator.step(A, self.h)
        step = operators.graph(lambda: integrator.step(A, self.h))
        step()
        taken = timing.summary(times(self.ranks, step, self.repeats, self.steps))
        integrator.end(A, self.h)
        if isinstance(operators, RankOperators):
            operators.finish_exchanges()
        return taken | {"finite": bool(np.isfinite(float(abs(A[0]).max())))}

    def fill(self, A) -> None:
        """Noise of the whole band, another on each row."""
        numbers = np.random.default_rng(1 + self.ranks.rank)
        noise = numbers.standard_normal((2, self.n)) * _AMPLITUDE
        noise = self.device.asarray(noise[0] + 1j * noise[1])
        for number, row in enumerate(A):
            row[...] = self.device.xp.roll(noise, 977 * number)


def table(result: dict[str, Any]) -> list:
    """A table for each form of exchange."""
    ranks, tables = result["ranks"], []
    own = {
        "one_rank": "one rank, unsplit",
        "split": "one rank, split code",
        "no_exchange": f"{ranks} ranks, nothing sent",
    }
    for form in result["forms"]:
        alone = [{"ratio": 1.0} | form[key] | {"words": words} for key, words in own.items()]
        cases = [case for case in result["cases"] if case["exchange"] == form["exchange"]]
        times = "{ms:.3g}", "{ratio:.2f}"
        bare = "{only_communication[ms]:.3g}", "{only_communication[ratio]:.2f}", "{exposed_ms:.3g}"
        lines = [
            *rows(alone, "{words}", *times, *"---"),
            *rows(cases, f"{ranks} ranks, {{via}}", *times, *bare),
        ]
        what = f"{ranks} x {result['modes_per_rank']} modes x {result['samples']} samples"
        tables.append(
            report.table(
                f"{what}, {form['exchange']}",
                ("<", "ms per step", "T_K/T_1", "only comm. ms", "T_K/T_1", "exposed ms"),
                lines,
                "only communication: powers of the others travel but are not used; exposed: more than "
                "the same work takes with nothing sent",
            )
        )
    return tables + report.unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw T_K/T_1 of each transport and form, and what is left without the work of the others."""
    ranks, bars = result["ranks"], []
    for form in result["forms"]:
        name = form["exchange"]
        bars.append((f"nothing sent, {name}", form["no_exchange"]["ratio"], 0.0))
        bars += [
            (f"{report.transport_name(c['transport'])}, {name}", c["ratio"], c["only_communication"]["ratio"])
            for c in result["cases"]
            if c["exchange"] == name
        ]
    with report.figure(path, (8.4, 1.4 + 0.36 * len(bars)), "x") as figure:
        axes = figure.subplots()
        for y, (_, whole, bare) in enumerate(bars):
            axes.barh(y, whole, color=BLUE, height=0.62)
            axes.barh(y, bare, color=ORANGE, height=0.3)
            axes.text(max(whole, bare), y, f"  {whole:.2f}", va="center", fontsize=9)
        axes.axvline(1, color=GREY, linewidth=0.8)
        report.name_bars(axes, [name for name, *_ in bars])
        axes.set_xlabel(f"time of a step on {ranks} ranks / on one, {result['modes_per_rank']} modes a rank")
        for colour, label in ((BLUE, "all"), (ORANGE, "only communication")):
            axes.barh(0, 0, color=colour, label=label)
        figure.legend(loc="outside lower right", ncols=2, fontsize=9)
