"""Simulate a mode- and wavelength-multiplexed link: transmit, spans of fibre and amplifiers, receive."""

import bisect
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import FieldLost
from wavefabric.base.results import ResultWriter, Rows, fingerprint, provenance
from wavefabric.base.results.provenance import stamp
from wavefabric.base.system.compilation_clock import CLOCK, working_time
from wavefabric.base.system.deferred_interrupt import DeferredInterrupt
from wavefabric.base.system.machine import peak_memory
from wavefabric.base.system.progress import Progress, warn
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.link import build
from wavefabric.optics.link import expected as theory
from wavefabric.optics.link.build import SharedParts
from wavefabric.optics.link.elements import FibrePiece
from wavefabric.optics.link.field_files import Snapshots, check_waveform, read_waveform, with_whole_field
from wavefabric.optics.link.line import received_levels
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.link.propagators import LinkPropagator
from wavefabric.optics.link.reception import LinkReceiver, for_signals, signal_device
from wavefabric.optics.link.result import BINS, POINTS, arrays_of, payload, power_spectrum, solver_attributes
from wavefabric.optics.link.step_choice import choose_step
from wavefabric.optics.link.transfer import stored_figures
from wavefabric.optics.propagation.phase_groups import rank_phase_group_coupling
from wavefabric.optics.run_file.load import RunFile, run_file
from wavefabric.optics.signal.amplifier import REFERENCE_BANDWIDTH
from wavefabric.optics.signal.equaliser import Equaliser, scratch_bytes
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange.communicator import Communicator, solo
from wavefabric.runtime.exchange.control import check_agreement
from wavefabric.runtime.lifecycle.checkpoint.file import checkpoint_path
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints, RunCheckpoint
from wavefabric.runtime.lifecycle.collective_checks import (
    Status,
    check_memory,
    combine,
    locked_by_first_rank,
    on_all_ranks,
    on_first_rank,
)


@dataclass
class LinkResult:
    """Holds the results of `run_link`."""

    #: Contents of the result file on rank 0, else empty. A field of several ranks is only in the file.
    payload: dict[str, Any]
    path: Path
    #: Reasons why the result may be inaccurate; in the result file too, as ``/solver/warnings``.
    warnings: tuple[str, ...] = ()


def run_link(
    run: RunFile | str | Path,
    output: str | Path | None = None,
    force: bool = False,
    resume: bool = True,
    progress: Progress | None = None,
    comm: Communicator | None = None,
    warn: Callable[[str], None] = warn,
    shared: SharedParts | None = None,
) -> LinkResult:
    """Simulate the link of a run file and write its result, to ``output`` or where the run file says.

    ``run`` is the path of a run file, or a `RunFile` object. ``force`` replaces an existing result;
    ``resume`` continues from a checkpoint of the same run. With ``comm`` (`Communicator`), whose ranks all
    call this function, the modes are split among the ranks, on their devices; rank 0 shows ``progress`` and
    writes the result. Rank 0 calls ``warn`` with each line of ``LinkResult.warnings`` when it arises, mostly
    before the run; by default it prints on stderr. ``shared`` caches parts of earlier runs on the same
    ``comm`` for later runs.

    `InputError` for input that cannot be simulated, before anything large is allocated or written;
    `FieldLost` if the field does not stay finite; `KeyboardInterrupt` after Ctrl-C or SIGTERM on any rank,
    once a checkpoint is written.
    """
    settings = run_file(run)
    comm = comm or solo(get_device(settings.solver.device, settings.solver.threads))
    check_agreement(comm.control, settings.sections())
    writer = on_first_rank(comm, lambda: build.result_writer(settings, output, force))
    if settings.solver.step_penalty is not None:
        settings = choose_step(settings, comm, progress if comm.rank == 0 else None)
    with locked_by_first_rank(comm, writer.path, "output.file"):
        told = progress or Progress(), warn
        return _Link(settings, writer, comm, told, resume, shared or SharedParts()).run()


class _Link:
    def __init__(
        self, settings: RunFile, writer: ResultWriter, comm: Communicator, show: tuple, resume: bool, shared
    ):
        """Prepare the run; ``show`` is a pair: progress display, and function called with each warning."""
        self.settings, self.shared = settings, shared
        self.warnings: list[str] = []
        self.writer, self.comm, self.device = writer, comm, comm.device
        self.ranks, self.first = comm.size, comm.rank == 0
        progress, self._warn = show
        self.progress: Progress = progress if self.first else Progress()
        facts = shared.get(
            "facts", None, lambda: provenance(self.device.name, comm.plan) if self.first else {}
        )
        self.attributes: dict[str, str] = facts

        def solve() -> tuple[dict[str, Fibre], list[str]]:
            # Only rank 0 builds the fibres: on other ranks the solver may give different last bits.
            notes: list[str] = []
            return on_first_rank(comm, lambda: build.build_fibres(settings, notes.append)), notes

        self.fibres, self.notes = shared.get("fibre", build.fibre_key(settings), solve)
        fibre = self.fibres["fibre"]
        self.transmitter = build.build_transmitter(settings, fibre.modes)
        self.path = LinkPath.of_rank(comm, settings, self.fibres, self.transmitter)
        self.fibre, self.local_modes = self.path.fibre, self.path.local_modes
        # The key contains the fibre objects themselves, since random coupling makes new fibres for each run.
        media = tuple((key, medium.fibre) for key, medium in self.path.media.items())
        self.propagator_key = (media, self.local_modes.ends, build.propagator_key(settings))
        receiver = build.build_receiver(settings, self.transmitter, fibre)
        self.receiver = LinkReceiver(settings, self.path, receiver, comm)
        #: Channels whose received symbols are stored.
        self.plotted_channels = range(self.transmitter.grid.channels)
        if settings.receiver.constellations == "middle":
            middle = len(self.plotted_channels) // 2
            self.plotted_channels = self.plotted_channels[middle : middle + 1]
        self._check(receiver.equaliser)
        #: Steps between checks of the field, which give its power along the fibre.
        self.check_interval, apart = settings.output.checkpoint_every, settings.output.power_every
        if apart is not None and settings.solver.step is not None:
            self.check_interval = max(1, min(self.check_interval, int(apart / settings.solver.step)))
        digests = (build.fibre_digest(medium.fibre) for medium in self.path.media.values())
        digest, every = " ".join(digests), str(self.check_interval)
        identity = fingerprint(settings.identity(), fibre=digest, check_interval=every)
        policy = Checkpoints(checkpoint_path(writer.path), settings.output.checkpoint_interval, resume=resume)
        self.checkpoint = RunCheckpoint(comm, policy, identity, self._layout())
        self.snapshots = Snapshots(comm, settings, writer, self.checkpoint.fingerprint)
        #: Distance (m) and `arrays_of` the result by receiver position; only rank 0 has the arrays.
        self.received: dict[str, tuple[float, dict[str, np.ndarray]]] = {}
        self.expected: dict[str, theory.Expectation] = {}
        self.limit = theory.resonance(self.fibre, self.transmitter)
        #: Distance (m) and power of each mode (W), along the link.
        self.powers: list[list[float]] = []
        #: Wall time, s, of the run before its checkpoint; receiver time since then is added.
        self.seconds = {"total": 0.0, "receiver": 0.0, "compilation": 0.0}
        self.began, self.compiled_before = time.perf_counter(), CLOCK.seconds()

    def _warn_of(self, text: str) -> None:
        self.warnings.append(text)
        if self.first:
            self.progress.finish()
            self._warn(text)

    def _layout(self) -> str:
        """Return a text on how ranks split modes and exchange powers, which affects results' round-off."""
        if self.ranks == 1:
            return ""
        solver = self.settings.solver
        coupling = rank_phase_group_coupling(self.fibre, self.local_modes, solver.exchange, solver.kerr)
        by = ", powers stored by kernels" if self.comm.one_sided else ""
        return f"{coupling.form}, modes {'+'.join(map(str, np.diff(self.local_modes.ends)))}{by}"

    def _check(self, equaliser: Equaliser | None) -> None:
        """Raise InputError if a waveform file does not fit, or memory does not suffice for run and result."""
        fibre, grid, waveform = self.fibre, self.transmitter.grid, self.settings.signal.waveform
        if waveform is not None:
            on_first_rank(self.comm, lambda: check_waveform(waveform, fibre.rows, grid))
        item = 16 if self.settings.solver.precision == "double" else 8
        # Receiver: two rows and their spectra, one row of noise, a few windows of all channels.
        scratch = (4 * item + 16) * grid.samples + 12 * 16 * 2 * int(grid.channel_symbols.sum())
        # An inverse of more than phases works on a copy of the field.
        field_bytes = self.local_modes.rows * grid.samples * item
        fields = 1 + self.path.inverted - self.shared.release_others("propagator", self.propagator_key)
        # Noise of Raman pumps is computed in double precision, for all rows.
        pumped = any(piece.pumps for piece in self.path.pieces)
        needed = fields * field_bytes + scratch + pumped * self.local_modes.rows * grid.samples * 16
        if equaliser is not None:
            modes = max(self.settings.receiver.sets(fibre.group_sizes))
            needed += scratch_bytes(equaliser, field_bytes, 2 * modes, int(grid.channel_symbols.max()))
        advice = "fewer symbols, samples per symbol or modes need less"
        check_memory(self.comm, self.device, needed, "run (field and receiver)", advice)
        receiver = self.settings.receiver
        positions = len(receiver.spans(self.settings.link.span_count)) + receiver.back_to_back
        points = 2 * 8 * min(grid.symbols, POINTS) * len(self.plotted_channels)
        of_mode = 2 * points + 12 * 8 * grid.channels + 8 * BINS  # symbols and eyes
        kept = positions * fibre.modes * of_mode
        what, advice = f"result of {positions} receiver positions", "fewer (receiver.at) need less"
        check_memory(self.comm, get_device("cpu", 1), kept if self.first else 0, what, advice)

    def run(self) -> LinkResult:
        state = self.checkpoint.find()
        solver, path = self.settings.solver, self.path
        options = build.propagation_options(self.settings, self.path, check_interval=self.check_interval)

        def allocate() -> tuple[LinkPropagator, Any]:
            propagator = LinkPropagator(path, options, self.comm)
            return propagator, propagator.operators.empty()

        self.propagator, self.A = self.shared.get("propagator", self.propagator_key, allocate)
        self.propagator.renew(options)
        steps = {each: self.propagator.steps(each) for each in path.pieces}  # InputError if far too many
        if self.comm.step_recorder is not None:
            total = sum(number or 0 for number in steps.values())
            self.comm.step_recorder.check_steps(total if None not in steps.values() else None)
        self.propagator.main.recorder = self.comm.step_recorder
        if not self.checkpoint.policy.resume:
            self.checkpoint.remove()
        with DeferredInterrupt() as self.interrupt:
            try:
                first, inside = self._restore() if state else self._transmit()
                if self.settings.output.theory:
                    self.progress.start(1, "theory")
                    if not theory.left_out(self.settings):
                        expect = partial(theory.expected_of, self.settings, self.fibres)
                        self.expected = on_first_rank(self.comm, expect)
                warnings = theory.warnings_before(self.settings, path, steps, self.expected)
                for text in self.notes + warnings:
                    self._warn_of(text)
                for number in range(first, len(path.elements)):
                    self._pass(number, inside)
                    inside = None
            except FieldLost:
                # A resumed run would lose its field at the same step: the checkpoint is of no use.
                self.checkpoint.remove()
                raise
        if solver.step is None and (taken := self.propagator.report.step) > self.limit.step:
            self._warn_of(f"solver: the last step of {theory.above_limit(taken, self.limit)}")
        content = self._write()
        self.checkpoint.remove()
        self.progress.finish()
        return LinkResult(content, self.writer.path, tuple(self.warnings))

    def _show_progress(self, done: int, _total: int) -> None:
        """Show progress; a run on one rank stops here if interrupted, and repeats this part when resumed."""
        self.progress.update(done)
        if self.interrupt.requested and self.ranks == 1:
            self.interrupt.stop()

    def _stop_if_requested(self) -> None:
        """Stop all ranks together if any was interrupted; each calls this after its part of the work."""
        if combine(self.comm, Status(self.interrupt.requested)).interrupted:
            self.interrupt.stop()

    def _transmit(self) -> tuple[int, None]:
        """Fill the field with the launched signal; return 0, the first element, and None: at its start."""
        local_modes = self.local_modes
        self.progress.start(local_modes.rows, "transmitter, rows")
        if waveform := self.settings.signal.waveform:
            read = partial(read_waveform, waveform, self.device, self.A, local_modes, self._show_progress)
            on_all_ranks(self.comm, read)
        else:
            self._fill(self.transmitter if self.settings.receiver.back_to_back else self.path.launched)
        self._stop_if_requested()
        self.propagator.main.finite_energy(self.A, 0.0)
        if self.settings.receiver.back_to_back:
            modes = tuple(self.fibre.group_sizes.tolist())
            key = (modes, self.path.plain, self.path.unitary, build.back_to_back_key(self.settings))
            receive = partial(self._receive, "back_to_back", 0)
            self.received["back_to_back"] = self.shared.get("back_to_back", key, receive, most=64)
            if self.path.launched is not self.transmitter:  # channels that enter later are dark at first
                self._fill(self.path.launched)
        return 0, None

    def _fill(self, transmitter: Transmitter) -> None:
        """Fill the field with the signals of a transmitter."""
        device = signal_device(self.comm, self.A.size)
        launched = self.A if device is self.device else device.empty(self.A.shape, self.A.dtype)
        transmitter.fill(device, launched, self.local_modes.first_row, self.fibre.modes, self._show_progress)
        if launched is not self.A:
            self.device.copy(self.A, launched)

    def _pass(self, number: int, inside: dict | None) -> None:
        """Pass element ``number`` of the link, from the state ``inside`` it on; receive where a span ends."""
        element, path = self.path.elements[number], self.path
        if isinstance(element, FibrePiece):
            self._propagate(number, element, inside)
            if element.pumps:
                path.add_raman_noise(self.device, self.A, element)
        else:
            element.apply(path, self.device, self.A)
        span = bisect.bisect_left(path.span_ends, number + 1) + 1
        if path.end(span) != number + 1:
            return
        if span in self.settings.receiver.spans(len(path.span_ends)):
            self.received[f"span_{span}"] = self._receive(f"span_{span}", span)
        if number + 1 < len(path.elements):
            self._checkpoint(number + 1, None)

    def _propagate(self, number: int, piece: FibrePiece, inside: dict | None) -> None:
        steps, start = self.propagator.steps(piece), self.path.distances[number]
        span = bisect.bisect_right(self.path.span_ends, number) + 1
        spans = f"{span}/{len(self.path.span_ends)}"
        # Without a fixed step the number of steps is unknown: show metres instead.
        self.progress.start(steps or piece.length, f"span {spans}, {'steps' if steps else 'm'}")

        def on_step(z: float, done: int) -> None:
            self.progress.update(done if steps else z, f"z = {(start + z) / 1e3:.1f} km")

        def on_check(state: dict) -> None:
            self.snapshots.take(self.A, self.local_modes, start + state["z"], self.attributes)
            self._checkpoint(number, state)

        def on_energy(z: float, energy: np.ndarray) -> None:
            power = energy.reshape(-1, 2).sum(axis=1) / self.transmitter.grid.samples
            self.powers.append([start + z, *power.tolist()])

        watched = {"on_step": on_step, "on_check": on_check, "on_energy": on_energy}
        self.propagator.run(self.A, self.path, piece, inside, **watched)

    def _receive(self, name: str, spans: int) -> tuple[float, dict[str, np.ndarray]]:
        start_time = working_time()
        plotted = [(mode, channel) for mode in self.local_modes.range for channel in self.plotted_channels]
        lost: list[str] = []
        options = {"keep": plotted, "warn": lost.append, "progress": self._show_progress}
        result = self.receiver.receive(self.propagator, self.A, spans, self.progress, **options)
        self._stop_if_requested()
        for text in (text for part in self.comm.control.gather(lost) or [] for text in part):
            self._warn_of(f"{name}, {text}")
        spectrum = power_spectrum(*for_signals(self.comm, self.A), self.transmitter.grid)
        parts = self.comm.control.gather(arrays_of(result) | {"spectrum": spectrum}) or []
        whole = {key: np.concatenate([part[key] for part in parts]) for key in (parts[0] if parts else ())}
        self.seconds["receiver"] += working_time() - start_time
        return self.path.distances[self.path.end(spans)], whole

    def _checkpoint(self, element: int, inside: dict | None) -> None:
        # Ranks agree on checkpoint times and on interrupts; a later Ctrl-C is agreed on at the next check.
        status = combine(self.comm, Status(self.interrupt.requested, self.checkpoint.due()))
        if not (status.save_due or status.interrupted):
            return
        state = {
            "element": element,
            "inside": inside,
            "report": {k: v for k, v in asdict(self.propagator.report).items() if k != "dropped"},
            "counts": dict(vars(self.propagator.operators.counts)),
            "seconds": self._seconds(),
            "received": {name: length for name, (length, _) in self.received.items()},
        }
        arrays: dict[str, Any] = {"field": self.A, "along_z": np.array(self.powers)}
        for name, (_, result) in self.received.items():
            arrays |= {f"{name}/{key}": value for key, value in result.items()}
        self.checkpoint.save(arrays, state, last=status.interrupted)
        if status.interrupted:
            self.interrupt.stop()

    def _restore(self) -> tuple[int, dict | None]:
        """Restore the run from its checkpoint; return the element where it resumes, and the state in it."""
        arrays, state = self.checkpoint.restore({"field": self.A})
        self.powers = arrays["along_z"].tolist()
        for name, length in state["received"].items():
            prefix = f"{name}/"
            mine = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            self.received[name] = (length, mine)
        for key, value in state["report"].items():
            setattr(self.propagator.report, key, value)
        vars(self.propagator.operators.counts).update(state["counts"])
        self.seconds.update(state.get("seconds", {}))  # older checkpoints have no times
        return state["element"], state["inside"]

    def _seconds(self) -> dict[str, float]:
        """Return the wall times so far, s: of the whole run, of all its receivers, and of compilation."""
        total, compilation = time.perf_counter() - self.began, CLOCK.seconds() - self.compiled_before
        leg = {"total": total, "receiver": 0.0, "compilation": compilation}
        return {name: self.seconds[name] + seconds for name, seconds in leg.items()}

    def _add_levels(self) -> None:
        """Add OSNR, GSNR and dispersion to what was received; `received_levels`."""
        receiver, grid = self.receiver.receiver, self.transmitter.grid
        spans = {0 if name == "back_to_back" else int(name.split("_")[1]): name for name in self.received}
        coherent = np.array([np.nan if form.direct else 0.0 for form in self.transmitter.formats])
        for number, levels in received_levels(self.path, receiver, sorted(spans)).items():
            arrays = self.received[spans[number]][1]
            wider = 10 * np.log10(grid.symbol_rates / REFERENCE_BANDWIDTH)
            arrays |= levels | {"gsnr_db": arrays["q_squared_db"] + wider + coherent}

    def _write(self) -> dict[str, Any]:
        """Write the result on rank 0, which receives rows of the field one by one; return its payload."""
        content: dict[str, Any] = {}
        free, total = self.device.memory()
        # Read GPU memory now, while all arrays are allocated.
        used = self.comm.control.max(peak_memory() if self.device.name == "cpu" else total - free)

        def write(field: Rows | None = None) -> None:
            solver = solver_attributes(self.propagator.main, self.limit) | {"memory_bytes": used}
            solver |= {f"{name}_seconds": seconds for name, seconds in self._seconds().items()}
            along = np.array(self.powers)
            self._add_levels()
            parts = self.fibre, self.transmitter, self.received, along, solver, self.warnings
            content.update(payload(*parts, field))
            if figures := stored_figures(self.settings, self.path, self.fibres):
                content["modal"] = figures
            if self.expected:
                content["theory"] = theory.theory_payload(self.expected)
            self.writer.write(content, self.settings.text, self.attributes | {"written_utc": stamp()})

        if self.settings.output.save_field:
            with_whole_field(self.comm, self.local_modes, self.A, write)
        else:
            on_first_rank(self.comm, write)
        if self.ranks > 1:
            content.pop("field", None)  # rows of other ranks can be read only once
        return content
