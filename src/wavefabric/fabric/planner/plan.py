"""Defines the plan of a run: ways to split a simulation over GPUs, predicted times, and the best choice."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from wavefabric.base.errors import InputError, choice
from wavefabric.base.files.validation_errors import checked
from wavefabric.fabric.cost_models.cost import AnyFabric
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.io.tables import make_table
from wavefabric.fabric.planner.exchange_times import CARRIERS, SIGNALS, ExchangeTimes
from wavefabric.fabric.planner.rates import SolverRates
from wavefabric.fabric.planner.step import SolverStep
from wavefabric.fabric.planner.timeline import StepTimes

#: Options of a run that a plan file may contain, with a regular expression of allowed values.
_OPTIONS = {
    "decomposition": "global|local",
    "grid": r"\d+x\d+x\d+",
    "overlap": r"\d+",
    "bell": "[a-z-]+",
    "exchange": "dense|factored",
}
#: Number of the fastest jobs for which the order of GPUs is optimised; each search takes a second or more.
_PLACED = 8


@dataclass(frozen=True)
class Candidate:
    """Describes a way to run a simulation: split of grid or modes, carrier of the data, order of GPUs."""

    #: Keyword arguments of the run: decomposition, grid, overlap, bell; or exchange.
    options: dict[str, Any]
    #: One of `CARRIERS`; empty for one rank.
    carrier: str
    seconds: StepTimes
    #: Memory in bytes of the GPU that needs the most, and bytes per step sent by the busiest rank.
    bytes: int
    sent: float
    #: Expected error relative to the field, as a power of ten; 0 if results are as with one rank.
    error: float = 0.0
    #: Rank r is GPU ``order[r]``; if empty, GPU r.
    order: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """Return a description such as ``local 1x1x2, overlap 16, p2p``."""
        options = self.options
        how = (str(options[key]) for key in ("decomposition", "grid", "exchange") if key in options)
        overlap = f"overlap {options['overlap']}" if "overlap" in options else ""
        order = f"GPUs {' '.join(map(str, self.order))}" if self.order else ""
        return ", ".join(filter(None, [" ".join(how), overlap, self.carrier, order])) or "one GPU"

    def facts(self) -> dict[str, Any]:
        """Return the candidate as a dictionary for JSON."""
        return {"configuration": self.words, **asdict(self)}


def error_words(error: float) -> str:
    """Return ``round-off`` for an error of 0, else the error as a power of ten."""
    return "round-off" if not error else f"{error:.0e}".replace("e-0", "e-")


@dataclass(frozen=True)
class RunPlan:
    """Holds the candidates for running a simulation, fastest first, and selects one of them."""

    problem: str
    device: str
    fabric: str
    ranks: int
    steps: int
    memory: int
    candidates: Annotated[tuple[Candidate, ...], Field(min_length=1)]
    max_error: float = 0.0
    left_out: tuple[str, ...] = ()
    cpu: bool = False
    #: Index of the candidate that the user selected; None: select the fastest.
    chosen: int | None = None

    @property
    def alone(self) -> Candidate | None:
        """Return the candidate with one GPU, or None if there is no such candidate."""
        return next((c for c in self.candidates if not c.carrier), None)

    @property
    def choice(self) -> Candidate:
        """Return ``chosen``, or the fastest that fits memory and ``max_error``; `InputError` if none does."""
        return self._fastest(self.candidates)

    @property
    def shared(self) -> Candidate:
        """Return the choice among candidates that use all ranks, which ``run --ranks`` runs; see `choice`."""
        several = [c for c in self.candidates if c.carrier or self.ranks == 1]
        if self.chosen is not None and self.candidates[self.chosen] not in several:
            raise InputError(f"chosen: {self.chosen} given, one GPU; allowed: one of {self.ranks} ranks")
        return self._fastest(several)

    def _fastest(self, candidates: Sequence[Candidate]) -> Candidate:
        if self.chosen is not None:
            return self.candidates[self.chosen]
        fitting = [c for c in candidates if self.fits(c)]
        if not fitting:
            least = min(c.bytes for c in candidates)
            needed, there = (f"{nbytes / 2**30:.1f} GiB" for nbytes in (least, self.memory))
            actual = f"{needed} needed at least, {there} on {self.device}"
            raise InputError(f"gpus: {self.ranks} given; {actual}; allowed: more GPUs")
        exact = [c for c in fitting if c.error <= self.max_error]
        if not exact:
            least = min(c.error for c in fitting)
            raise InputError(f"max-error: {self.max_error:g} given; allowed: {least:g} or more")
        return exact[0]

    def fits(self, candidate: Candidate) -> bool:
        """Return whether ``candidate`` fits in each GPU's memory (on CPUs: all ranks in the host's)."""
        return candidate.bytes * (self.ranks if self.cpu and candidate.carrier else 1) <= self.memory

    @property
    def reason(self) -> str:
        """Return one or two sentences that explain `choice`."""
        return self.reason_of(self.choice)

    def reason_of(self, chosen: Candidate) -> str:
        """Return one or two sentences that explain why ``chosen`` was selected."""
        if self.chosen is not None:
            return "chosen by hand"
        which = f"with errors up to {self.max_error:g}" if self.max_error else "that give one rank's answers"
        text = f"the fastest of those {which}"
        if not all(map(self.fits, self.candidates)):
            text += " and fit in memory"
        others = [c for c in self.candidates if c is not chosen and c.error <= self.max_error]
        second = next((c for c in others if c.carrier or not chosen.carrier), None)
        if second is not None and self.fits(second):
            text += f"; the next, {second.words}, takes {_over(second, chosen)} times as long"
        alone = self.alone
        if alone and alone is not chosen and alone.seconds.step <= chosen.seconds.step and self.fits(alone):
            text += f". One GPU alone is faster: it takes {_over(alone, chosen)} of the time"
        faster = [c for c in self.candidates if c.error > self.max_error and self.fits(c)]
        if faster and faster[0].seconds.step < chosen.seconds.step:
            best = faster[0]
            error = error_words(best.error)
            text += f". {best.words} would take {_over(best, chosen)} of the time, with an error of about "
            text += f"{error} (--max-error {error})"
        return text

    def protocol_of(self, chosen: Candidate) -> str:
        """Return the p2p protocol of ``chosen``, signals or copies; empty if not both were compared."""
        transport, _, protocol = chosen.carrier.partition(", ")
        compared = any(candidate.carrier == SIGNALS for candidate in self.candidates)
        return protocol or ("copies" if transport == "p2p" and compared else "")

    def facts(self) -> dict[str, Any]:
        """Return the plan as the dictionary that ``wavefabric plan -o`` writes and `read_plan` reads."""
        summary = {"kind": "wavefabric plan", "choice": self.choice.words, "reason": self.reason}
        return summary | {"plan": asdict(self)}

    def record(self) -> str:
        """Return the candidate `shared` as JSON text, which result files store beside the measured times."""
        common = {key: getattr(self, key) for key in ("device", "fabric", "ranks", "steps", "cpu")}
        reason = {"reason": self.reason_of(self.shared), "protocol": self.protocol_of(self.shared)}
        return json.dumps(self.shared.facts() | common | reason)


#: Part of a plan's file that `read_plan` uses.
_PlanFile = make_table("PlanFile", BaseModel, plan=(RunPlan, ...))


def read_plan(facts: Any) -> RunPlan:
    """Rebuild the plan from `RunPlan.facts`; `InputError` for other input and for impossible candidates."""
    if isinstance(facts, dict) and "chosen" in facts:
        raise InputError("chosen: given beside plan; allowed: in it")
    plan = checked(_PlanFile, facts).plan
    if plan.chosen is not None and not 0 <= plan.chosen < len(plan.candidates):
        allowed = f"an index of {len(plan.candidates)} candidates"
        raise InputError(f"chosen: {plan.chosen} given; allowed: {allowed}")
    for c in plan.candidates:
        choice("carrier", c.carrier, ("", *CARRIERS))
        if c.order and (len(set(c.order)), min(c.order)) < (plan.ranks, 0):
            raise InputError(f"order: {list(c.order)} given; allowed: a GPU for each of {plan.ranks} ranks")
        for key, value in c.options.items():
            form = _OPTIONS.get(key)
            if form is None or not re.fullmatch(form, str(value)):
                raise InputError(f"options: {key} = {value!r} given; allowed: {', '.join(_OPTIONS)}")
    return plan


def _over(a: Candidate, b: Candidate) -> str:
    return f"{a.seconds.step / b.seconds.step:.2f}"


def carriers(fabric: AnyFabric, rates: SolverRates, listed: Sequence[str] | None) -> list[str]:
    """Return which of `CARRIERS` to compare: ``listed`` if given, else all that device and fabric support."""
    if rates.name == "cpu":
        if listed and set(listed) != {"mpi"}:
            raise InputError(f"transport: {', '.join(listed)} given for CPUs; allowed: mpi")
        return ["mpi"]
    if listed:
        return [name for name in CARRIERS if name in listed] + [n for n in listed if n not in CARRIERS]
    if not isinstance(fabric, Fabric):
        return ["p2p"]
    hosts = {link.kind for link in fabric.links} >= {"network"}
    several = ["nccl", "mpi-cuda", "mpi"]
    within = [] if hosts else ["p2p", *[SIGNALS] * (fabric.kernels is not None)]
    return [name for name in CARRIERS if name in [*within, *several]]


class Job(NamedTuple):
    """Describes a way to split a simulation: time step, options of the run, bytes per GPU, expected error."""

    words: str
    step: SolverStep
    options: dict[str, Any]
    #: Returns the bytes per GPU; the argument is whether kernels store in other GPUs' memory.
    needed: Callable[[bool], int]
    error: float = 0.0

    def candidate(self, exchange: ExchangeTimes | None) -> Candidate:
        """Return the candidate that exchanges data by ``exchange``; None stands for one GPU."""
        step = self.step.by(exchange)
        if exchange is None:
            return Candidate({}, "", step.times(), self.needed(False), 0.0)
        how = step.times(), self.needed(exchange.one_sided), step.bytes_sent, self.error
        return Candidate(self.options, exchange.carrier, *how, exchange.order)


def candidates_of(
    jobs: Iterable[Job], fabric: AnyFabric, names: Sequence[str], progress: Callable[[str], object]
) -> list[Candidate]:
    """Return a candidate per job (way to split a simulation) and carrier of its data (``names``).

    If GPUs differ, the fastest jobs are also returned with the best order of GPUs that was found.
    """
    made: list[tuple[Candidate, Job]] = []
    exchanges = [ExchangeTimes(fabric, name) for name in names]
    for job in jobs:
        progress(job.words)
        made += [(job.candidate(exchange), job) for exchange in exchanges]
    made.sort(key=lambda pair: pair[0].seconds.step)
    direct = [each for each in exchanges if each.own.host_bandwidth is None]
    best = {job.words: job for _, job in made} if direct else {}
    for job in list(best.values())[:_PLACED]:
        progress(f"{job.words}: order of the GPUs")
        if order := direct[0].placed(job.step.schedule, job.step.item).order:
            made += [(job.candidate(replace(each, order=order)), job) for each in direct]
    return [candidate for candidate, _ in made]


def check_ranks(ranks: int, fabric: AnyFabric) -> None:
    """Raise `InputError` unless ``ranks`` is between 1 and the number of GPUs of the fabric."""
    if not 1 <= ranks <= fabric.ranks:
        raise InputError(f"gpus: {ranks} given; allowed: 1 to the {fabric.ranks} of {fabric.name}")
