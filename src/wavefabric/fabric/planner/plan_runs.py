"""Plans runs from run files and k-Wave input files, and from problems already in memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
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
from wavefabric.base.errors import InputError, choice
from wavefabric.fabric.cost_models.cost import AnyFabric
from wavefabric.fabric.planner.fibre_step import FibreStep, kerr_coupling
from wavefabric.fabric.planner.overlap_error import overlap_error
from wavefabric.fabric.planner.plan import Job, RunPlan, candidates_of, carriers, check_ranks
from wavefabric.fabric.planner.rates import SolverRates, load_rates
from wavefabric.fabric.planner.ultrasound_step import StepMedium, UltrasoundStep
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.phase_groups import EXCHANGE_FORMS
from wavefabric.optics.propagation.propagate import PropagationOptions, memory_needed
from wavefabric.optics.propagation.rank_modes import RankModes, split_modes
from wavefabric.optics.propagation.step_size import step_count

#: Bytes on a GPU for kernels and unused parts of the memory pool, from runs of 256³ and 512³ points.
_RUNTIME = 128 << 20


@dataclass(frozen=True)
class RunPlanOptions:
    """Holds options of a plan: which overlaps of local Fourier bases and which carriers to compare.

    ``transports``: names of `exchange_times.CARRIERS`, by default all that fit. ``max_error``: largest
    expected error of the choice; 0 accepts only one rank's results. ``precision``: of ultrasound runs.
    """

    overlaps: Sequence[int] = (8, 16)
    bell: str = "nested-sine"
    transports: Sequence[str] | None = None
    max_error: float = 0.0
    precision: str = "single"
    #: Called with the description of each candidate before it is evaluated.
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
    """Compare all decompositions of an ultrasound problem over ``ranks`` GPUs of a fabric; return the plan.

    Raises `InputError` if the grid cannot be decomposed or the device file lacks required times.
    """
    options, recording = options or RunPlanOptions(), recording or Recording(())
    check_ranks(ranks, fabric)
    dtype, runtime = np.dtype(PRECISIONS[options.precision]), 0 if rates.name == "cpu" else _RUNTIME
    materials = find_materials(problem, dtype)
    medium = medium_of(problem, materials)
    fields = sum(each.endswith("_all") for each in recording.quantities)
    recorded = fields, len(recording.quantities) > fields

    def job(cut: Partition) -> Job:
        """Return the job for one decomposition; ``cut`` may also be the undivided grid of one GPU."""
        stages, _ = stages_form(rates, problem, dtype, cut)
        whole = rates.name == "cpu" and problem.dimensions < 3  # timed as whole-array transforms
        plain = issubclass(stages, PlainStages) or whole or problem.axisymmetric
        how = {"precision": options.precision, "rates": rates}
        step = UltrasoundStep(cut, medium, "plain" if plain else "fused", recorded, **how)
        own: dict[str, Any] = {"decomposition": cut.options.kind, "grid": "x".join(map(str, cut.grid))}
        if cut.options.kind == "local":
            own |= {"overlap": cut.options.overlap, "bell": cut.options.bell}

        def needed(one_sided: bool) -> int:
            setting = problem, recording, dtype, rates, cut, one_sided
            return runtime + needed_bytes(*setting, materials=materials)

        return Job(cut.describe(), step, own, needed, overlap_error(cut.options, problem))

    left_out: list[str] = []
    jobs = map(job, _cuts(problem, ranks, options, left_out))
    where, alone = (ranks, fabric, rates, options), job(decompose(problem.shape, 1))
    return _plan(_words(problem, medium, options.precision), problem.steps, where, jobs, alone, left_out)


def _words(problem: Problem, medium: StepMedium, precision: str) -> str:
    return f"{' x '.join(map(str, problem.shape))} points, {medium.form}, {precision} precision"


def _cuts(problem: Problem, ranks: int, options: RunPlanOptions, left_out: list[str]) -> Iterator[Partition]:
    """Yield the possible decompositions of the grid; append to ``left_out`` why others are impossible."""
    kinds = [Decomposition("global", grid) for grid in block_grids(ranks) if grid[0] == 1]
    if not problem.axisymmetric:
        pairs = product(options.overlaps, block_grids(ranks))
        kinds += [Decomposition("local", grid, overlap, options.bell) for overlap, grid in pairs]
    for each in kinds:
        try:
            yield decompose(problem.shape, ranks, each)
        except InputError as error:
            left_out.append(str(error))


def _plan(
    problem: str, steps: int, where: tuple, jobs: Iterable[Job], alone: Job, left_out: Sequence[str] = ()
) -> RunPlan:
    """Evaluate ``jobs`` and return the plan; ``where`` is (ranks, fabric, rates, options)."""
    ranks, fabric, rates, options = where
    names = carriers(fabric, rates, options.transports)
    candidates = candidates_of(jobs, fabric, names, options.progress) if ranks > 1 else []
    if ranks > 1 and not candidates:
        raise InputError(left_out[0])
    ordered = tuple(sorted([alone.candidate(None), *candidates], key=lambda c: c.seconds.step))
    facts = problem, rates.label, fabric.name, ranks, steps, rates.memory_bytes
    return RunPlan(*facts, ordered, options.max_error, tuple(left_out), rates.name == "cpu")


def medium_of(problem: Problem, materials: Materials) -> StepMedium:
    """Return the properties of a problem's medium that determine the time per step."""
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
    """Describes a propagation: fibre, samples per row, options and number of steps (0 if unknown).

    ``boundaries``: mode numbers at which the fibre may be split between ranks; by default any.
    """

    fibre: Fibre
    samples: int
    propagation: PropagationOptions
    steps: int = 0
    boundaries: Any = None

    @property
    def words(self) -> str:
        """Return the description used in plans: rows × samples, integrator and precision."""
        shape = f"{self.fibre.rows} rows x {self.samples} samples"
        return f"{shape}, {self.propagation.integrator}, {self.propagation.precision} precision"


def plan_fibre(
    run: FibreRun,
    ranks: int,
    fabric: AnyFabric,
    rates: SolverRates,
    options: RunPlanOptions | None = None,
) -> RunPlan:
    """Compare all ways to split a fibre's modes over ``ranks`` GPUs of a fabric; return the plan.

    Candidates differ in the form of exchanged powers and in carrier. `InputError` if there are too few modes.
    """
    check_ranks(ranks, fabric)
    where, fibre = (ranks, fabric, rates, options or RunPlanOptions()), run.fibre
    alone = _fibre_job(run, rates, RankModes((0, fibre.modes)), run.propagation.kerr)
    jobs: list[Job] = []
    if ranks > 1:
        modes = RankModes(split_modes(fibre.modes, ranks, run.boundaries))
        jobs = [_fibre_job(run, rates, modes, form) for form in EXCHANGE_FORMS[1:]]
    return _plan(run.words, run.steps, where, jobs, alone)


def _fibre_job(run: FibreRun, rates: SolverRates, modes: RankModes, form: str) -> Job:
    """Return the job for one ``form`` of the exchanged powers or, with a single GPU, of the Kerr effect."""
    propagation, fibre = run.propagation, run.fibre
    how = propagation.integrator, modes, propagation.chunks
    coupling = kerr_coupling(fibre, modes, form)
    step = FibreStep(coupling, run.samples, *how, precision=propagation.precision, rates=rates)
    if modes.ranks > 1:
        propagation = replace(propagation, exchange=form)
    needed = partial(memory_needed, fibre, run.samples, propagation, cast(Any, rates), modes)
    return Job(form, step, {"exchange": form}, needed)


# --- Files -------------------------------------------------------------------------------------------------


def plan_file(
    path: str | Path,
    ranks: int,
    fabric: AnyFabric,
    device: str | Path | SolverRates = "h200",
    options: RunPlanOptions | None = None,
) -> RunPlan:
    """Return the plan of a run file (TOML) or a k-Wave input file (HDF5) on ``ranks`` GPUs of a fabric.

    ``device``: rates, or an argument of `load_rates`. `InputError` names key, value given and allowed values.
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
    """Return the description and the number of steps of a file's problem, in single precision."""
    if path.suffix.lower() == ".toml":
        run = _fibre_run(path)
        return run.words, run.steps
    from wavefabric.acoustics.kwave.input import read_input

    problem = read_input(path).problem
    medium = medium_of(problem, find_materials(problem, np.dtype(PRECISIONS["single"])))
    return _words(problem, medium, "single"), problem.steps


def _fibre_run(path: Path) -> FibreRun:
    from wavefabric.optics.link.build import build_fibre, build_transmitter, propagation_options
    from wavefabric.optics.link.path import LinkPath, section_count
    from wavefabric.optics.run_file.load import load

    settings = load(path)
    fibre = build_fibre(settings, lambda _: None)
    grid, step = build_transmitter(settings, fibre.modes).grid, settings.solver.step
    tables = settings.fibre_tables()
    steps = 0
    for piece in settings.link.pieces if step else ():
        assert step is not None
        steps += step_count(piece.length, step, section_count(tables[piece.table], piece.length))
    propagation, cuts = propagation_options(settings), LinkPath.boundaries(settings, fibre)
    return FibreRun(fibre, grid.samples, propagation, steps, cuts)
