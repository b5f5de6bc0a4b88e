"""Propagate a field through one fibre: step control, checks of energy and NaN, report of the cost."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from wavefabric.base.arguments import field_array, instance, numbers, positive, whole, within
from wavefabric.base.errors import FieldLost, InputError, choice
from wavefabric.base.system.compilation_clock import working_time
from wavefabric.base.units import show
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.kernels.kerr_one_sided_cuda import most_nbytes
from wavefabric.optics.propagation.linear_propagation import MOST_LENGTHS
from wavefabric.optics.propagation.operators import (
    FibreOperators,
    OperationCounts,
    linear_coefficients,
    linear_nbytes,
)
from wavefabric.optics.propagation.operators_ranks import ExchangeOptions, chunks_for, rank_operators
from wavefabric.optics.propagation.phase_groups import KERR_FORMS, exchange_form, rank_phase_group_coupling
from wavefabric.optics.propagation.rank_modes import RankModes, check_split, gather_field, split_modes
from wavefabric.optics.propagation.step_size import FixedStep, Sections, make_control, section_end
from wavefabric.runtime.device import Device, get_device, host_array
from wavefabric.runtime.exchange.communicator import Communicator, solo
from wavefabric.runtime.exchange.step_recorder import StepRecorder
from wavefabric.runtime.lifecycle.collective_checks import check_memory


@dataclass
class PropagationReport:
    """Reports the cost and accuracy of a propagation.

    ``local_error`` is ‖error of one step‖/‖A‖ at the start of the fibre, where the power is highest, from a
    comparison with two half steps (NaN if memory is too small); with step control by tolerance it is the
    largest accepted error. ``energy_drift`` is the largest |E/(E₀e^{−αz}) − 1| of a row. ``seconds`` is the
    wall time without compilation. ``exchange`` is the form of the exchanged powers (``"none"`` on one rank),
    ``bytes_per_step`` the exchanged bytes that all ranks receive per step.
    """

    integrator: str
    kerr_form: str
    device: str
    steps: int = 0
    rejected: int = 0
    ffts: int = 0
    exchanges: int = 0
    step: float = math.nan
    local_error: float = math.nan
    energy_drift: float = 0.0
    seconds: float = 0.0
    ranks: int = 1
    transport: str = "none"
    exchange: str = "none"
    bytes_per_step: float = 0.0
    dropped: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class PropagationOptions:
    """Specifies how a field is propagated.

    `InputError` for an unknown integrator or precision, conflicting forms, or a check interval of no steps.

    - ``integrator``: a key of `wavefabric.optics.propagation.integrators.INTEGRATORS`.
    - ``step`` (fixed, in m), ``max_phase`` (largest nonlinear phase per step, rad), each a number or text
      with a unit, or ``tolerance`` (relative local error, ``erk43ip`` only): exactly one.
    - ``kerr``, ``svd_tolerance``: see `wavefabric.optics.propagation.phase_groups.phase_group_coupling`.
    - ``precision``: ``"double"`` or ``"single"``, complex128 or complex64 fields.
    - ``check_interval``: steps between checks of the field (energy, NaN, checkpoint). There the field is
      complete: half steps that are otherwise merged are taken separately.
    - ``exchange``: what several ranks exchange: powers of rows (``"dense"``) or of exact groups of rows
      (``"factored"``); ``"auto"`` uses the smaller.
    - ``split``: number of modes on each rank; by default equal to within one.
    - ``chunks``: number of chunks of time, with which ranks overlap exchange and work.
    - ``backward``: propagate from the end of the fibre to its beginning, as digital back-propagation does:
      the same equation with h < 0, so that loss is gain.
    - ``measure_error``: measure the local error of fixed steps, at the cost of three steps.
    """

    integrator: str = "rk4ip"
    step: float | None = None
    max_phase: float | None = None
    tolerance: float | None = None
    kerr: str = "auto"
    svd_tolerance: float = 1e-12
    precision: str = "double"
    check_interval: int = 100
    exchange: str = "auto"
    split: Sequence[int] | None = None
    chunks: int | None = None
    backward: bool = False
    measure_error: bool = True

    def __post_init__(self):
        choice("integrator", self.integrator, tuple(INTEGRATORS))
        choice("precision", self.precision, ("double", "single"))
        for key, unit in {"step": "m", "max_phase": "rad", "tolerance": ""}.items():
            if (value := getattr(self, key)) is not None:
                object.__setattr__(self, key, positive(value, unit, key))
        within(self.svd_tolerance, "", "svd_tolerance", 0, 1)
        whole("check_interval", self.check_interval, 1)
        choice("kerr", self.kerr, KERR_FORMS)
        if self.kerr != "svd":
            exchange_form(self.exchange, self.kerr)

    @property
    def dtype(self) -> type:
        return np.complex128 if self.precision == "double" else np.complex64


class Propagator:
    """Propagates fields of one shape through one fibre, with buffers, plans and tables allocated once.

    Rows have ``samples`` samples at ``sample_rate`` Hz. Modes are split among the ranks of ``comm``; every
    rank makes a propagator and calls the same methods. `InputError` on all ranks, before anything large is
    allocated, for a bad step control, an impossible split, or a field that does not fit into memory.
    """

    def __init__(
        self,
        fibre: Fibre,
        samples: int,
        sample_rate: float,
        device: Device,
        options: PropagationOptions,
        comm: Communicator | None = None,
    ):
        self.fibre, self.device = fibre, device
        self.comm = comm = comm or solo(device)
        split, modes = options.split, fibre.modes
        ends = split_modes(modes, comm.size) if split is None else check_split(split, modes, comm.size)
        self.local_modes = RankModes(ends, comm.rank)
        needed = memory_needed(fibre, samples, options, device, self.local_modes, comm.one_sided)
        what = f"{self.local_modes.rows} rows x {samples} samples"
        advice = "fewer modes, symbols or samples per symbol, or single precision, need less"
        check_memory(comm, device, needed, what, advice)
        shape = (fibre, samples, sample_rate, options.dtype)
        if comm.size == 1:
            self.operators = FibreOperators(device, *shape, options.kerr, options.svd_tolerance)
        else:
            exchange = ExchangeOptions(options.exchange, options.chunks)
            self.operators = rank_operators(comm, *shape, self.local_modes, options.kerr, exchange)
        self.integrator = INTEGRATORS[options.integrator](self.operators)
        #: Distance (m) already travelled when `run` starts, for messages.
        self.start = 0.0
        #: Recorder of a step of `run`; only a run's main propagator gets the communicator's recorder.
        self.recorder: StepRecorder | None = None
        self.renew(options)

    def renew(self, options: PropagationOptions) -> None:
        """Reset the counts and the report; set step control, direction and check interval of ``options``.

        All other options must be those given to the constructor.
        """
        self.check_interval, self._sign = options.check_interval, -1 if options.backward else 1
        self._measures = options.measure_error
        controls = {key: getattr(options, key) for key in ("step", "max_phase", "tolerance")}
        self.control = make_control(self.integrator, options.backward, **controls)
        self.operators.counts = OperationCounts()
        form, dropped = self.operators.coupling.form, self.operators.coupling.dropped
        self.report = PropagationReport(options.integrator, form, self.device.name, dropped=dropped)
        if self.comm.size > 1:
            self.report.ranks, self.report.transport = self.comm.size, self.comm.label
            self.report.exchange = form

    def steps(self, length: float, sections: int = 1) -> int | None:
        """Return the number of steps over ``length`` m in ``sections`` sections; None for variable steps."""
        return self.control.total(length, sections) if isinstance(self.control, FixedStep) else None

    def run(
        self,
        A,
        length: float,
        state: dict | None = None,
        on_step: Callable[[float, int], None] | None = None,
        on_check: Callable[[dict], None] | None = None,
        sections: Sections | None = None,
        on_energy: Callable[[float, np.ndarray], None] | None = None,
    ) -> dict:
        """Propagate ``A``, shape (local rows, N) from ``operators.empty()``, in place over ``length`` m.

        ``on_step(z, steps)`` is called after each step is enqueued, ``on_energy(z, Σ_t |A|² of each row)`` at
        the start and at each check, and then ``on_check(state)``, with a complete and finite field. ``state``
        from ``on_check`` resumes an earlier call. ``sections`` divide ``length`` equally and act at their
        boundaries. FieldLost if the field is no longer finite.
        """
        start_time, report, sections = working_time(), self.report, sections or Sections()
        count = sections.count
        if state is None:
            sections.cross(A, count if self._sign < 0 else 0)
            energy = self.finite_energy(A, 0.0)
            state = {"z": 0.0, "done": 0, "section": 0, "energy": energy.tolist(), "drift": 0.0}
            if on_energy:
                on_energy(0.0, energy)
            if isinstance(self.control, FixedStep) and self._measures:
                self._measure_local_error(A, self.control.h(length, count))
        if self.recorder:
            self.recorder.watch(self.integrator, "step", "last")
        unchecked = 0
        while state["z"] < length:
            before = state["done"]
            for done in self.control.advance(A, length, state, self.check_interval - unchecked, count):
                if self.recorder:
                    self.recorder.build_schedule()
                if on_step:
                    on_step(state["z"], done)
            unchecked += state["done"] - before
            if state["z"] == section_end(length, count, state["section"]):
                state["section"] += 1
                self._cross(A, sections, state)
            if unchecked < self.check_interval and state["z"] < length:
                continue
            unchecked = 0
            energy = self._watch_energy(A, state, sections)
            if on_energy:
                on_energy(state["z"], energy)
            now = working_time()
            report.seconds, start_time = report.seconds + now - start_time, now
            if on_check:
                on_check(state)
        report.energy_drift = max(report.energy_drift, state["drift"])
        report.local_error = float(np.fmax(report.local_error, state.get("worst_error", math.nan)))
        report.step = state.get("h", math.nan)
        vars(report).update(vars(self.operators.counts))
        if report.steps:
            report.bytes_per_step = self.operators.exchange_bytes * report.exchanges / report.steps
        return state

    def run_along(
        self, A, stops: Sequence[float], on_step: Callable[[float, int], None] | None = None
    ) -> Iterator[float]:
        """Propagate ``A`` in place to each of the ascending ``stops`` (m from the start); yield each there.

        Steps end at the stops, where ``A`` is complete. Fixed steps between two stops are equal. The report
        is that of the whole way; ``on_step`` is as in `run`.
        """
        state, steps = None, 0
        loss = np.repeat(self.fibre.alpha, 2) * self._sign
        for start, stop in pairwise((0.0, *stops)):
            if stop > start:
                self.start = start

                def report_step(z: float, done: int, start: float = start, steps: int = steps) -> None:
                    if on_step:
                        on_step(start + z, steps + done)

                state = self.run(A, stop - start, state, report_step)
                steps += state["done"]
                # The launched energy, without the loss up to here, stays the reference for the drift.
                energy = np.array(state["energy"]) * np.exp(-loss * (stop - start))
                state |= {"z": 0.0, "done": 0, "section": 0, "energy": energy.tolist()}
            yield stop
        self.start = 0.0

    def _cross(self, A, sections: Sections, state: dict) -> None:
        """Apply the coupling or filter at the end of a section to ``A``.

        If this changes the energy of the field, the reference for the drift of energy is set anew.
        """
        at = state["section"] if self._sign > 0 else sections.count - state["section"]
        changes = sections.changes_energy(at)
        if changes:
            self._watch_energy(A, state, sections)
        sections.cross(A, at)
        if changes:
            loss = np.repeat(self.fibre.alpha, 2) * self._sign
            # Reference energies hold at z = 0: store the new energy without the loss up to here.
            state["energy"] = (self.finite_energy(A, state["z"]) * np.exp(loss * state["z"])).tolist()

    def _watch_energy(self, A, state: dict, sections: Sections) -> np.ndarray:
        """Return each row's energy; update in ``state`` the largest deviation from the energy after loss.

        Rows that exchange energy count as a whole.
        """
        loss = np.repeat(self.fibre.alpha, 2) * self._sign
        first, now = np.array(state["energy"]), self.finite_energy(A, state["z"])
        energy = now * np.exp(loss * state["z"])
        is_conserved = np.ones(len(first), bool)
        if sections.blocks is not None:
            starts = [start for start, _ in sections.blocks]
            # If loss differs between rows that exchange energy, the expected energy is unknown.
            is_conserved = np.maximum.reduceat(loss, starts) == np.minimum.reduceat(loss, starts)
            first, energy = np.add.reduceat(first, starts), np.add.reduceat(energy, starts)
        lit = is_conserved & (first > 0)
        drift = np.abs(energy[lit] / first[lit] - 1)
        state["drift"] = max(state["drift"], float(drift.max(initial=0.0)))
        return now

    def finite_energy(self, A, z: float) -> np.ndarray:
        """Return the energy Σ_t |A|² of each row in W times samples.

        Raises `FieldLost`, which names the mode and the position ``z`` (m), if an energy is not finite.
        """
        energy = self.operators.energy(A)
        bad = np.flatnonzero(~np.isfinite(energy))
        if bad.size:
            z += self.start
            fault = f"mode {self.fibre.labels[bad[0] // 2]} is not finite at z = {z / 1e3:g} km"
            allowed = "finite input, and a step and power that keep it so"
            raise FieldLost(f"field: {fault}; allowed: {allowed}")
        return energy

    def _measure_local_error(self, A, h: float) -> None:
        """Estimate the local error of one step by two half steps; the report counts none of these steps."""
        operators = self.operators
        short = self.device.memory()[0] < 2 * A.nbytes + MOST_LENGTHS * operators.propagation.table_bytes
        if self.comm.control.max(int(short)):
            return
        counts = replace(operators.counts)
        whole_step, half_steps = operators.empty(), operators.empty()
        whole_step[...] = A
        half_steps[...] = A
        self.integrator.advance(whole_step, h)
        self.integrator.advance(half_steps, h / 2, 2)
        scale = operators.energy(half_steps).sum()
        if scale > 0:
            gain = 2**self.integrator.order
            error = math.sqrt(operators.distance(whole_step, half_steps) / scale) * gain / (gain - 1)
            self.report.local_error = float(np.fmax(self.report.local_error, error))
        operators.prepare(*self.integrator.lengths(h))
        vars(operators.counts).update(vars(counts))


def memory_needed(
    fibre: Fibre,
    samples: int,
    options: PropagationOptions,
    device: Device,
    local_modes: RankModes | None = None,
    one_sided: bool = False,
) -> int:
    """Return the bytes that a propagation needs on the device: fields, tables, exchanged powers, scratch.

    ``one_sided``: whether kernels write to the memory of other ranks (`Communicator.one_sided`).
    """
    local_modes = local_modes or RankModes((0, fibre.modes))
    integrator = INTEGRATORS[options.integrator]
    item = np.dtype(options.dtype).itemsize
    field_bytes = local_modes.rows * samples * item
    # A varying step fills the cache of transfer functions.
    lengths = len(set(integrator.lengths(1.0))) if options.step is not None else MOST_LENGTHS
    table_rows = len(linear_coefficients(fibre, local_modes)[0])
    linear = linear_nbytes(device, local_modes.rows, samples, options.dtype, table_rows, lengths)
    several = local_modes.ranks > 1
    forms = (options.exchange, options.kerr) if several else ("factored", "factored")
    coupling = rank_phase_group_coupling(fibre, local_modes, *forms)
    chunks = options.chunks or chunks_for(samples)
    # Two rounds of all powers and up to six numbers per local group, for up to five chunks of time at once.
    powers = (2 * sum(coupling.parts) + 6 * coupling.own_groups) * several
    powers = powers * samples * (item // 2) * min(5, chunks) // chunks
    if one_sided:
        powers += most_nbytes(coupling, samples, options.dtype)
    rates = integrator.rate_arrays * (coupling.own_groups * samples * item // 2)
    return (1 + integrator.extra_fields) * field_bytes + rates + linear + powers + (64 << 20)


def checked_launch(field, fibre: Fibre, length, sample_rate) -> tuple[np.ndarray, float, float]:
    """Check arguments of `propagate`; return field, length (m) and sample rate (Hz) as numbers."""
    instance("fibre", fibre, Fibre)
    field = np.asarray(field_array(host_array(field)))
    if field.ndim != 2 or field.shape[0] != fibre.rows:
        raise InputError(f"field: shape {field.shape} given; allowed: ({fibre.rows}, N), two rows per mode")
    if not np.isfinite(field).all():
        raise InputError("field: it holds NaN or infinity; allowed: finite numbers")
    return field, positive(length, "m", "length"), positive(sample_rate, "Hz", "sample_rate")


def checked_distances(at, length: float) -> list[float]:
    """Return distances ``at`` (m, or text) as numbers; `InputError` unless they increase from 0 to length."""
    distances = np.atleast_1d(numbers(at, "m", "at"))
    right = distances.ndim == 1 and distances.size and (np.diff(distances) > 0).all()
    if not right or not (distances[0] >= 0 and distances[-1] <= length * (1 + 1e-12)):
        allowed = f"increasing distances from 0 to {length:g} m, the length"
        raise InputError(f"at: {show(distances.tolist())} m given; allowed: {allowed}")
    return np.minimum(distances, length).tolist()


def propagate(
    field, fibre: Fibre, length, *, sample_rate, device="auto", progress=None, comm=None, **options
):
    """Propagate light through one fibre.

    >>> fibre = graded_index_62_5(groups=5)
    >>> out, report = propagate(field, fibre, "80 km", sample_rate="512 GHz", step="100 m")

    ``field`` (2M, N), on the host, contains complex envelopes, √W, the two polarisations of a mode adjacent;
    it is not changed. ``length`` (m) and ``sample_rate`` (Hz) may be text with a unit. ``device`` is a
    `Device`, ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:K"``; ``progress`` is called with (z in m, steps
    done). The other options are those of `PropagationOptions`. Returns the field at the end, (2M, N) on the
    host, and a `PropagationReport`.

    Ranks share the work with ``comm``, a `Communicator` such as `runtime.exchange.world` returns; its
    device then replaces ``device``. Every rank passes the whole field and receives the whole result: for
    fields too large for that, use `Propagator`.

    With ``at``, increasing distances from the start (m, or text), the fields there are returned too: ``out,
    report, fields = propagate(…, at=["0 km", "40 km"])``, (distances, 2M, N). Steps end at these distances,
    so that no field is interpolated; fixed steps are then equal between two of them, and at most ``step``.

    `InputError` for a field of another shape than the fibre's rows, a field with NaN, and bad options;
    `FieldLost` if the field does not stay finite.
    """
    at = options.pop("at", None)
    field, length, rate = checked_launch(field, fibre, length, sample_rate)
    if comm is not None and comm.size > 1:
        device = comm.device
    device = get_device(device)
    propagator = Propagator(fibre, field.shape[1], rate, device, PropagationOptions(**options), comm)
    distances = [] if at is None else checked_distances(at, length)
    needed = len(distances) * fibre.rows * field.shape[1] * propagator.operators.dtype.itemsize
    what = f"{len(distances)} fields along the fibre"
    check_memory(comm, get_device("cpu", 1), needed, what, "fewer distances (at) need less")
    stops = distances if length in distances else [*distances, length]
    if comm is not None and comm.step_recorder is not None:
        comm.step_recorder.check_steps(propagator.steps(length))
        propagator.recorder = comm.step_recorder
    A = propagator.operators.empty()
    A[...] = device.asarray(field[propagator.local_modes.slice])
    out, fields = A, np.empty((len(distances), *field.shape), A.dtype)
    for number, _ in enumerate(propagator.run_along(A, stops, progress)):
        out = gather_field(propagator.comm, propagator.local_modes, device.to_host(A))
        if number < len(distances):
            fields[number] = out
    return (out, propagator.report) if at is None else (out, propagator.report, fields)
