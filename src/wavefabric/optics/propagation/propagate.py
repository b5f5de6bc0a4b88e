"""Propagate a field through one fibre: step control, watch over energy and NaN, what it cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from wavefabric.device import Device, get_device
from wavefabric.errors import InputError
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.propagation.integrators import INTEGRATORS, Integrator
from wavefabric.optics.propagation.kerr_exchange import exchange_form, rank_phase_group_coupling
from wavefabric.optics.propagation.operators import MOST_TABLES, FibreOperators, operators_nbytes
from wavefabric.optics.propagation.operators_ranks import RankOperators, chunks_for
from wavefabric.optics.propagation.phase_groups import find_phase_groups
from wavefabric.optics.propagation.rank_modes import (
    RankModes,
    check_split,
    gather_field,
    needed_on_node,
    split_modes,
)
from wavefabric.optics.propagation.step_size import FixedStep, make_control
from wavefabric.results.agree import together
from wavefabric.units import quantity


class FieldLost(InputError):
    """The field holds NaN or infinity: the step was far too long, or the input was not finite."""


@dataclass
class Report:
    """What a propagation cost and how well it went.

    ``local_error`` is ‖error of one step‖/‖A‖ at the start of the fibre, where the power is highest,
    by comparison with two half steps (NaN if there was no memory for it); for step control by
    tolerance it is the largest accepted. ``energy_drift`` is the largest |E/E₀e^{−αz} − 1| of a row.

    ``exchange`` is the form of what ranks exchange (``"none"`` with one), ``bytes_per_step`` what all ranks
    together receive of it in a step, step control included.
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


class Propagator:
    """Buffers, plans and tables for one fibre and field shape, allocated once.

    Parameters
    ----------
    fibre : Fibre
    n : int
        Samples a row.
    sample_rate : float
        Hz.
    device : Device
    integrator : str
        A key of :data:`wavefabric.optics.propagation.integrators.INTEGRATORS`.
    step, max_phase, tolerance : float, optional
        Exactly one: fixed step in m, largest nonlinear phase a step in rad, or relative local error
        (``erk43ip`` only).
    kerr, svd_tolerance
        See :func:`wavefabric.optics.propagation.phase_groups.phase_group_coupling`.
    precision : {"double", "single"}
        complex128 or complex64 fields.
    segment : int
        Steps between looks at the field (energy, NaN, checkpoint, end of merged half steps).
    comm : Communicator, optional
        Ranks among which the modes are split; every rank makes a propagator and calls the same methods.
    exchange : {"auto", "dense", "factored"}
        What several ranks exchange: powers of rows, or of the exact groups of rows; ``"auto"`` takes
        what is less.
    split : sequence of int, optional
        Modes of each rank; even to within one by default.
    chunks : int, optional
        Chunks of time in which ranks overlap exchange and work.

    Raises
    ------
    InputError
        For an unknown integrator, a bad control, a split that is not possible, or a field that does not
        fit into memory; nothing large is allocated before, and all ranks raise it.
    """

    def __init__(
        self,
        fibre: Fibre,
        n: int,
        sample_rate: float,
        device: Device,
        integrator: str = "rk4ip",
        step: float | None = None,
        max_phase: float | None = None,
        tolerance: float | None = None,
        kerr: str = "auto",
        svd_tolerance: float = 1e-12,
        precision: str = "double",
        segment: int = 100,
        comm=None,
        exchange: str = "auto",
        split: Sequence[int] | None = None,
        chunks: int | None = None,
    ):
        if integrator not in INTEGRATORS:
            raise InputError(f"integrator: {integrator!r} is unknown; allowed: {', '.join(INTEGRATORS)}")
        if precision not in ("double", "single"):
            raise InputError(f"precision: {precision!r} is unknown; allowed: double, single")
        if segment < 1:
            raise InputError(f"segment: {segment} steps given; allowed: 1 or more")
        dtype = np.complex128 if precision == "double" else np.complex64
        kind = INTEGRATORS[integrator]
        tables = None if step is not None else MOST_TABLES  # a varying step fills the store of tables
        self.fibre, self.device, self.segment = fibre, device, segment
        self.comm = comm if comm is not None and comm.size > 1 else None
        self.share = RankModes((0, fibre.modes))
        form = exchange_form(exchange, kerr) if self.comm or kerr != "svd" else "auto"
        if self.comm is None:
            if split is not None:
                check_split(split, fibre.modes, 1)
            check_memory(fibre, n, dtype, kind, device, tables)
            self.operators = FibreOperators(device, fibre, n, sample_rate, dtype, kerr, svd_tolerance)
        else:
            comm, ranks = self.comm, self.comm.size
            ends = check_split(split, fibre.modes, ranks) if split else split_modes(fibre.modes, ranks)
            self.share = RankModes(ends, comm.rank)
            check_memory(fibre, n, dtype, kind, device, tables, comm, self.share, form, chunks)
            self.operators = RankOperators(
                device, fibre, n, sample_rate, dtype, comm, self.share, kerr, exchange, chunks
            )
        self.integrator = kind(self.operators)
        self.control = make_control(self.integrator, step=step, max_phase=max_phase, tolerance=tolerance)
        coupling = self.operators.coupling
        self.report = Report(integrator, coupling.form, device.name, dropped=coupling.dropped)
        if self.comm is not None:
            self.report.ranks, self.report.transport = self.comm.size, self.comm.transport
            self.report.exchange = coupling.form

    def steps(self, length: float) -> int | None:
        """Steps over ``length`` m, None if they are not known beforehand."""
        return self.control.total(length) if isinstance(self.control, FixedStep) else None

    def run(
        self,
        A,
        length: float,
        state: dict | None = None,
        on_step: Callable[[float, int], None] | None = None,
        on_segment: Callable[[dict], None] | None = None,
    ) -> dict:
        """Propagate ``A``, shape (own rows, N) from ``operators.empty()``, in place over ``length`` m.

        ``state`` continues an earlier call (from ``on_segment``); ``on_step(z, steps)`` is called
        after each step is enqueued, ``on_segment(state)`` whenever the field is whole and finite.

        Raises
        ------
        FieldLost
            If the field is no longer finite.
        """
        begun, counts = time.perf_counter(), self.operators.counts
        if state is None:
            state = {"z": 0.0, "done": 0, "energy": self.finite_energy(A, 0.0).tolist(), "drift": 0.0}
            if isinstance(self.control, FixedStep):
                self._measure_local_error(A, self.control.h(length))
        fibre_loss = np.repeat(self.fibre.alpha, 2)
        while state["z"] < length:
            for done in self.control.advance(A, length, state, self.segment):
                if on_step:
                    on_step(state["z"], done)
            energy, first = self.finite_energy(A, state["z"]), np.array(state["energy"])
            lit = first > 0
            drift = np.abs(energy[lit] / first[lit] * np.exp(fibre_loss[lit] * state["z"]) - 1)
            state["drift"] = max(state["drift"], float(drift.max(initial=0.0)))
            now = time.perf_counter()
            self.report.seconds += now - begun
            begun = now
            if on_segment:
                on_segment(state)
        report = self.report
        report.energy_drift = max(report.energy_drift, state["drift"])
        if "worst_error" in state:
            report.local_error = float(np.fmax(report.local_error, state["worst_error"]))
        report.step = state.get("h", math.nan)
        for name, value in vars(counts).items():
            setattr(report, name, value)
        if report.steps:
            report.bytes_per_step = self.operators.exchange_bytes * report.exchanges / report.steps
        return state

    def finite_energy(self, A, z: float) -> np.ndarray:
        """Σ_t |A|² of each row of all ranks, W × samples.

        Raises
        ------
        FieldLost
            If one is not finite; it names mode and ``z`` (m). All ranks raise it.
        """
        energy = self.operators.energy(A)
        bad = np.flatnonzero(~np.isfinite(energy))
        if bad.size:
            label = self.fibre.labels[bad[0] // 2]
            raise FieldLost(
                f"field: mode {label} is not finite at z = {z / 1e3:g} km; "
                "allowed: finite input, and a step and power that keep it so"
            )
        return energy

    def _measure_local_error(self, A, h: float) -> None:
        """Compare one step with two half steps. Costs three steps; they do not count."""
        operators = self.operators
        short = self.device.memory()[0] < 2 * A.nbytes + MOST_TABLES * operators.table_bytes
        if self.comm.control.max(int(short)) if self.comm else short:
            return
        counts = operators.counts.copy()
        one, two = operators.empty(), operators.empty()
        one[...] = A
        two[...] = A
        self.integrator.advance(one, h)
        self.integrator.advance(two, h / 2, 2)
        scale = operators.energy(two).sum()
        if scale > 0:
            gain = 2**self.integrator.order
            error = math.sqrt(operators.distance(one, two) / scale) * gain / (gain - 1)
            self.report.local_error = float(np.fmax(self.report.local_error, error))
        operators.prepare(*self.integrator.lengths(h))
        operators.counts.set(counts)


def memory_needed(
    fibre: Fibre,
    n: int,
    dtype,
    integrator: type[Integrator],
    device: Device,
    tables: int | None = None,
    share: RankModes | None = None,
    form: str = "auto",
    chunks: int | None = None,
) -> int:
    """Bytes on the device: fields, cuFFT's work area, transfer tables, exchanged powers, scratch."""
    share = share or RankModes((0, fibre.modes))
    item = np.dtype(dtype).itemsize
    field = share.rows * n * item
    if tables is None:
        tables = len(set(integrator.lengths(1.0)))
    if share.ranks == 1:
        own_groups, powers = int(find_phase_groups(fibre.kappa_rows())[-1]) + 1, 0
    else:
        coupling = rank_phase_group_coupling(fibre.kappa_rows(), fibre.gamma, share, form)
        own_groups, powers = (
            coupling.own_groups,
            coupling.exchange_nbytes(n, item // 2, chunks or chunks_for(n)),
        )
    beside = integrator.nbytes(field, own_groups * n * item // 2)
    return field + beside + operators_nbytes(device, fibre, n, dtype, tables, share) + powers + (64 << 20)


def check_memory(
    fibre: Fibre,
    n: int,
    dtype,
    integrator: type[Integrator],
    device: Device,
    tables: int | None = None,
    comm=None,
    share: RankModes | None = None,
    form: str = "auto",
    chunks: int | None = None,
) -> None:
    """Raise InputError if the propagation would not fit, before anything is allocated."""
    mine = memory_needed(fibre, n, dtype, integrator, device, tables, share, form, chunks)
    needed, rows, whose = needed_on_node(comm, device, mine), share.rows if share else fibre.rows, ""
    if comm is not None:
        whose = f" on rank {comm.rank}" + (" and those beside it" if needed > mine else "")

    def refuse() -> None:
        free, total = device.memory()
        if needed > free:
            gib = 1 / (1 << 30)
            raise InputError(
                f"memory: {rows} rows x {n} samples{whose} need {needed * gib:.2f} GiB on {device.name}; "
                f"{free * gib:.2f} of {total * gib:.2f} GiB are free. Fewer modes, symbols or samples a "
                "symbol, or single precision, need less"
            )

    together(comm, refuse) if comm is not None else refuse()


def propagate(
    field,
    fibre: Fibre,
    length,
    *,
    sample_rate,
    step=None,
    device="auto",
    progress=None,
    comm=None,
    **options,
):
    """Light through one fibre, in two lines.

    >>> fibre = graded_index_62_5(groups=5)
    >>> out, report = propagate(field, fibre, "80 km", sample_rate="512 GHz", step="100 m")

    Parameters
    ----------
    field : array_like, (2M, N)
        Complex envelopes, √W, the two polarisations of a mode adjacent. It is not changed.
    fibre : Fibre
    length : float or str
        Metres, or text with a unit.
    sample_rate : float or str
        Hz, or text with a unit.
    step : float or str, optional
        Fixed step in metres; or give ``max_phase`` (rad) or ``tolerance`` (relative local error).
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:K"``.
    progress : callable, optional
        Called with (z in m, steps done).
    comm : Communicator, optional
        Ranks that share the work, from :func:`wavefabric.exchange.world`; ``device`` is then theirs. Every
        rank gives the whole field and gets it whole: for fields that are too large for that, use
        :class:`Propagator`.
    **options
        ``integrator``, ``max_phase``, ``tolerance``, ``kerr``, ``svd_tolerance``, ``precision``,
        ``segment``, ``exchange``, ``split``, ``chunks``: see :class:`Propagator`.

    Returns
    -------
    field : ndarray, (2M, N)
        The field at the end, on the host.
    report : Report

    Raises
    ------
    InputError
        For a field of another shape than the fibre's rows, a field with NaN, and bad options.
    FieldLost
        If the field does not stay finite.
    """
    field = np.asarray(field)
    if field.ndim != 2 or field.shape[0] != fibre.rows:
        raise InputError(f"field: shape {field.shape} given; allowed: ({fibre.rows}, N), two rows a mode")
    if not np.isfinite(field).all():
        raise InputError("field: it holds NaN or infinity; allowed: finite numbers")
    length = quantity(length, "m", "length")
    if not length > 0:
        raise InputError(f"length: {length} m given; allowed: a positive length")
    rate = quantity(sample_rate, "Hz", "sample_rate")
    if not rate > 0:
        raise InputError(f"sample_rate: {rate} Hz given; allowed: a positive rate")
    if step is not None:
        step = quantity(step, "m", "step")
    if comm is not None and comm.size > 1:
        place = comm.device
    else:
        place = get_device(device) if isinstance(device, str) else device
    propagator = Propagator(fibre, field.shape[1], rate, place, step=step, comm=comm, **options)
    A = propagator.operators.empty()
    A[...] = place.asarray(field[propagator.share.slice])
    propagator.run(A, length, on_step=progress)
    return gather_field(propagator.comm, propagator.share, place.to_host(A)), propagator.report
