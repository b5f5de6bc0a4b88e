"""Plans of run files and k-Wave input files, and of the problems in them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from wavefabric.acoustics.choose_stages import needed_bytes, stages_form
from wavefabric.acoustics.decomposition.decompose import Decomposition, Partition, block_grids, decompose
from wavefabric.acoustics.materials.find import Materials, find_materials
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.run_settings import PRECISIONS
from wavefabric.acoustics.solver.formulas import disperses
from wavefabric.acoustics.solver.stages import PlainStages
from wavefabric.errors import InputError, choice
from wavefabric.fabric.cost_models.cost import AnyFabric
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.phase_groups import EXCHANGE_FORMS
from wavefabric.optics.propagation.propagate import PropagationOptions, memory_needed
from wavefabric.optics.propagation.rank_modes import RankModes, split_modes
from wavefabric.optics.propagation.step_size import step_count
from wavefabric.planner.exchange_times import ExchangeTimes
from wavefabric.planner.fibre import FibreStep
from wavefabric.planner.overlap_error import overlap_error
from wavefabric.planner.plan import Candidate, Job, RunPlan, candidates_of, carriers, check_ranks
from wavefabric.planner.rates import SolverRates, load_rates
from wavefabric.planner.ultrasound import StepMedium, UltrasoundStep

#: B of a GPU for kernels and unused parts of the memory pool, by what runs of 256³ and 512³ points hold.
_RUNTIME = 128 << 20


@dataclass(frozen=True)
class RunPlanOptions:
    """What is compared: overlaps of local Fourier bases, and carriers (of `exchange_times.CARRIERS`; all).

    ``max_error``: the class of error that a choice may have; 0: the answers of one rank. ``precision``: as of
    `RunSettings`, for ultrasound.
    """

    overlaps: Sequence[int] = (8, 16)
    bell: str = "nested-sine"
    transports: Sequence[str] | None = None
    max_error: float = 0.0
    precision: str = "single"
    #: Told what is being looked at.
    progress: Callable[[str], object] = lambda line: None

    def __post_init__(self):
        choice("precision", self.precision, PRECISIONS)
        if not 0 <= self.max_error < 1:
            raise InputError(f"max-error: {self.max_error} given; allowed: 0, or a number below 1")


# --- Ultrasound --------------------------------------------------------------------------------------------


def plan_ultrasound(
    problem: Problem,
    ranks: int,
    fabric: AnyFabric,
    rates: SolverRates,
    options: RunPlanOptions | None = None,
    recording: Recording | None = None,
) -> RunPlan:
    """All decompositions of a grid among ``ranks`` GPUs of a fabric.

    `InputError` if the grid cannot be shared, or a device file lacks what it takes.
    """
    options = options or RunPlanOptions()
    check_ranks(ranks, fabric)
    job = _Ultrasound(problem, recording or Recording(()), rates, options)
    left_out: list[str] = []
    cuts = job.cuts(ranks, left_out) if ranks > 1 else ()
    names = carriers(fabric, rates, options.transports)
    candidates = candidates_of([job.of(cut) for cut in cuts], fabric, names, options.progress)
    facts = _facts(job.words, rates, fabric, ranks, problem.steps)
    return _plan(facts, candidates, job.alone(), options, left_out)


def _facts(problem: str, rates: SolverRates, fabric: AnyFabric, ranks: int, steps: int) -> dict[str, Any]:
    facts = {"problem": problem, "device": rates.label, "fabric": fabric.name, "memory": rates.memory_bytes}
    return facts | {"ranks": ranks, "steps": steps, "cpu": rates.name == "cpu"}


def _plan(
    facts: dict[str, Any], candidates: list[Candidate], alone: Candidate, options: RunPlanOptions, left_out
) -> RunPlan:
    if facts["ranks"] > 1 and not candidates:
        raise InputError(left_out[0])
    ordered = tuple(sorted([alone, *candidates], key=lambda c: c.seconds.step))
    return RunPlan(candidates=ordered, **facts, max_error=options.max_error, left_out=tuple(left_out))


class _Grid:
    """What of a problem is the same for all ways to share it."""

    def __init__(self, problem: Problem, precision: str):
        self.problem, self.precision = problem, precision
        self.dtype = np.dtype(PRECISIONS[self.precision])
        self.materials = find_materials(problem, self.dtype)
        self.medium = medium_of(problem, self.materials)

    @property
    def words(self) -> str:
        shape = " x ".join(map(str, self.problem.shape))
        return f"{shape} points, {self.medium.form}, {self.precision} precision"


class _Ultrasound(_Grid):
    def __init__(self, problem: Problem, recording: Recording, rates: SolverRates, options: RunPlanOptions):
        super().__init__(problem, options.precision)
        self.recording, self.rates, self.options = recording, rates, options

    def cuts(self, ranks: int, left_out: list[str]) -> Iterator[Partition]:
        kinds = [Decomposition("global", grid) for grid in block_grids(ranks) if grid[0] == 1]
        kinds += [
            Decomposition("local", grid, overlap, self.options.bell)
            for overlap in self.options.overlaps
            for grid in block_grids(ranks)
        ]
        for each in kinds:
            if self.problem.axisymmetric and each.kind == "local":
                continue
            try:
                yield decompose(self.problem.shape, ranks, each)
            except InputError as error:
                left_out.append(str(error))

    def of(self, cut: Partition) -> Job:
        step = self._step(cut)
        return Job(cut.describe(), partial(self.candidate, step), step.schedule, step.item)

    def _step(self, cut: Partition) -> UltrasoundStep:
        stages, _ = stages_form(self.rates, self.problem, self.dtype, cut)
        name = "plain" if issubclass(stages, PlainStages) else "fused"
        if self.problem.dimensions < 3 or self.problem.axisymmetric:
            name = "plain"
        quantities = self.recording.quantities
        fields = sum(each.endswith("_all") for each in quantities)
        recorded = fields, len(quantities) > fields
        how = self.precision, name, self.rates, None, recorded
        return UltrasoundStep(cut, self.medium, *how)

    def alone(self) -> Candidate:
        return self.candidate(self._step(decompose(self.problem.shape, 1)), None)

    def candidate(self, base: UltrasoundStep, exchange: ExchangeTimes | None) -> Candidate:
        step, cut = base.by(exchange), base.partition
        one_sided = exchange is not None and exchange.one_sided
        setting = self.problem, self.recording, self.dtype, self.rates, cut, one_sided, True, self.materials
        options: dict[str, Any] = {}
        if exchange is not None:
            options = {"decomposition": cut.options.kind, "grid": "x".join(map(str, cut.grid))}
            if cut.options.kind == "local":
                options |= {"overlap": cut.options.overlap, "bell": cut.options.bell}
        return Candidate(
            options,
            exchange.carrier if exchange else "",
            step.times(),
            needed_bytes(*setting) + (0 if self.rates.name == "cpu" else _RUNTIME),
            step.bytes_sent if exchange else 0.0,
            overlap_error(cut.options, self.problem) if exchange else 0.0,
            exchange.order if exchange else (),
        )


def medium_of(problem: Problem, materials: Materials) -> StepMedium:
    """What of a problem's medium sets the time of a step."""
    laplacians = 1 + disperses(problem) if problem.absorption == "power_law" else 0
    arrays = [problem.sound_speed, problem.density, problem.nonlinearity, problem.alpha_coeff]
    if not any(np.size(each) > 1 for each in arrays if each is not None):
        form = "tissues" if laplacians or problem.nonlinearity is not None else "homogeneous"
    else:
        form = "tissues" if materials.note() else "heterogeneous"
    return StepMedium(form, laplacians)


# --- Fibre -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FibreRun:
    """A propagation: its fibre, samples a row, options and number of steps (0: not known).

    ``boundaries``: modes at which ranks may share the fibre, by default all.
    """

    fibre: Fibre
    samples: int
    propagation: PropagationOptions
    steps: int = 0
    boundaries: Any = None

    @property
    def words(self) -> str:
        """As plans have them."""
        shape = f"{self.fibre.rows} rows x {self.samples} samples"
        return f"{shape}, {self.propagation.integrator}, {self.propagation.precision} precision"


def plan_fibre(
    run: FibreRun,
    ranks: int,
    fabric: AnyFabric,
    rates: SolverRates,
    options: RunPlanOptions | None = None,
) -> RunPlan:
    """All ways to share the modes of a fibre among ``ranks`` GPUs of a fabric: what travels, and how.

    `InputError` if there are too few modes.
    """
    options = options or RunPlanOptions()
    check_ranks(ranks, fabric)
    job, fibre = _FibreJob(run, rates), run.fibre
    jobs: list[Job] = []
    if ranks > 1:
        modes = RankModes(split_modes(fibre.modes, ranks, run.boundaries))
        jobs = [job.of(modes, form) for form in EXCHANGE_FORMS[1:]]
    candidates = candidates_of(jobs, fabric, carriers(fabric, rates, options.transports), options.progress)
    alone = job.candidate(RankModes((0, fibre.modes)), run.propagation.kerr, None)
    return _plan(_facts(run.words, rates, fabric, ranks, run.steps), candidates, alone, options, [])


@dataclass(frozen=True)
class _FibreJob:
    run: FibreRun
    rates: SolverRates

    @property
    def precision(self) -> str:
        return self.run.propagation.precision

    def step(self, modes: RankModes, form: str, exchange: ExchangeTimes | None) -> FibreStep:
        run, integrator = self.run, self.run.propagation.integrator
        setting = run.fibre, run.samples, integrator, self.precision, self.rates
        return FibreStep(*setting, modes, form, exchange, run.propagation.chunks)

    def of(self, modes: RankModes, form: str) -> Job:
        step = self.step(modes, form, None)
        return Job(form, partial(self.candidate, modes, form), step.schedule, step.item)

    def candidate(self, modes: RankModes, form: str, exchange: ExchangeTimes | None) -> Candidate:
        step, one_sided = self.step(modes, form, exchange), exchange is not None and exchange.one_sided
        run, device = self.run, cast(Any, self.rates)
        propagation = replace(run.propagation, exchange=form) if exchange else run.propagation
        needed = memory_needed(run.fibre, run.samples, propagation, device, modes, one_sided)
        return Candidate(
            {"exchange": form} if exchange else {},
            exchange.carrier if exchange else "",
            step.times(),
            needed,
            step.bytes_sent if exchange else 0.0,
            order=exchange.order if exchange else (),
        )


# --- Files -------------------------------------------------------------------------------------------------


def plan_file(
    path: str | Path,
    ranks: int,
    fabric: AnyFabric,
    device: str | Path | SolverRates = "h200",
    options: RunPlanOptions | None = None,
) -> RunPlan:
    """The plan of a run file (TOML) or a k-Wave input file (HDF5).

    Parameters
    ----------
    path : path
    ranks : int
        GPUs, at most as many as the fabric has.
    fabric : Fabric or PhotonicFabric
        Of `wavefabric.fabric.load`.
    device : str, path or SolverRates
        As `load_rates` takes it.
    options : RunPlanOptions, optional

    Raises
    ------
    InputError
        In one line: the key, what was given, what is allowed.
    """
    path = Path(path)
    rates = device if isinstance(device, SolverRates) else load_rates(device)
    if path.suffix.lower() == ".toml":
        return plan_fibre(_fibre_run(path), ranks, fabric, rates, options)
    from wavefabric.acoustics.kwave.input import read_input

    inputs = read_input(path)
    recording = Recording(("p_raw", "p_max_all"), inputs.sensor, 0)
    return plan_ultrasound(inputs.problem, ranks, fabric, rates, options, recording)


def file_problem(path: Path) -> tuple[str, int]:
    """Words and steps of a file's problem, as its plan has them, in single precision."""
    if path.suffix.lower() == ".toml":
        run = _fibre_run(path)
        return run.words, run.steps
    from wavefabric.acoustics.kwave.input import read_input

    problem = read_input(path).problem
    return _Grid(problem, "single").words, problem.steps


def _fibre_run(path: Path) -> FibreRun:
    from wavefabric.optics.link.build import build_fibre, build_transmitter, propagation_options
    from wavefabric.optics.link.path import LinkPath, section_count
    from wavefabric.optics.run_file.load import load

    settings = load(path)
    fibre = build_fibre(settings, lambda _: None)
    grid, step, link = build_transmitter(settings, fibre.modes).grid, settings.solver.step, settings.link
    steps = link.spans * step_count(link.length, step, section_count(settings)) if step else 0
    propagation, cuts = propagation_options(settings), LinkPath.boundaries(settings, fibre)
    return FibreRun(fibre, grid.samples, propagation, steps, cuts)
