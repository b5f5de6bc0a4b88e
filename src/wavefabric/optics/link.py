"""A mode- and wavelength-multiplexed link: transmit, spans of fibre and amplifiers, receive."""

from __future__ import annotations

import base64
import math
import signal as signals
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.device import fftw, get_device
from wavefabric.errors import InputError
from wavefabric.machine import cpu_model
from wavefabric.optics.amplifier import Amplifier
from wavefabric.optics.build import build_fibre, build_receiver, build_transmitter
from wavefabric.optics.mode_mixing import ModeMixing, total
from wavefabric.optics.propagation import FieldLost, Propagator, Report
from wavefabric.optics.receiver import ReceiverResult
from wavefabric.optics.runfile import RunFile
from wavefabric.progress import Progress, Silent
from wavefabric.results import Data, ResultWriter, Rows, fingerprint, provenance
from wavefabric.results import checkpoint as checkpoints
from wavefabric.results.provenance import stamp
from wavefabric.units import db

#: Received symbols kept of each polarisation, for the constellation picture.
_POINTS = 1024


@dataclass
class LinkResult:
    """What :func:`run_link` gives back: the payload of the result file, and the file."""

    payload: dict[str, Any]
    path: Path


class _Interrupt:
    """Ctrl-C asks for a stop at the next whole field; a second one stops at once."""

    def __init__(self):
        self.asked = False
        self._main = threading.current_thread() is threading.main_thread()

    def __enter__(self):
        if self._main:
            self._before = signals.signal(signals.SIGINT, self._note)
        return self

    def _note(self, *_):
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_):
        if self._main:
            signals.signal(signals.SIGINT, self._before)


def run_link(
    run: RunFile, output=None, force: bool = False, resume: bool = True, progress: Progress | None = None
) -> LinkResult:
    """Simulate the link of a run file and write its result.

    Parameters
    ----------
    run : RunFile
    output : path, optional
        Result file; the run file says by default.
    force : bool
        Replace a result that is there.
    resume : bool
        Go on from a checkpoint of the same run, if there is one.
    progress : Progress, optional

    Raises
    ------
    InputError
        For input that cannot be simulated, before anything large is allocated or written.
    FieldLost
        If the field does not stay finite.
    KeyboardInterrupt
        After Ctrl-C, once a checkpoint is written.
    """
    return _Link(run, output, force, progress or Silent()).run(resume)


class _Link:
    def __init__(self, settings: RunFile, output, force: bool, progress):
        self.settings, self.progress = settings, progress
        self.output = Path(output or settings.output_path())
        self.writer = ResultWriter(self.output, force)
        self.checkpoint = checkpoints.checkpoint_path(self.output)
        solver = settings.solver
        self.device = get_device(solver.device, solver.threads)
        self.fibre = build_fibre(settings)
        self.transmitter = build_transmitter(settings)
        self.receiver = build_receiver(settings, self.transmitter)
        self.middle = self.transmitter.grid.channels // 2  # whose constellation is kept
        self.amplifier = Amplifier(self._gain(), settings.link.noise_figure)
        self._check()
        self.fingerprint = fingerprint(
            settings.identity(),
            device=self.device.name.partition(":")[0],
            # Another processor or number of threads means other FFT plans, hence other bits.
            fft=f"{fftw.library()} {cpu_model()}" if self.device.name == "cpu" else "cufft",
            threads=str(self.device.threads),
            segment=str(settings.output.checkpoint_every),
        )
        self.received: dict[str, tuple[float, ReceiverResult]] = {}
        self.facts = provenance(device=self.device.name)
        self.saved_at = time.monotonic()

    def _gain(self) -> float:
        """Power gain of an amplifier: exactly the mean loss of a span, unless it is given."""
        link = self.settings.link
        if link.gain is not None:
            return 10 ** (link.gain / 10)
        loss = float(self.fibre.alpha.mean() * link.length)
        if loss > 46:
            raise InputError(f"link.length: a span loses {db(math.e) * loss:.0f} dB; allowed: up to 200 dB")
        return math.exp(loss)

    def _check(self) -> None:
        """Refuse what the parts cannot see by themselves."""
        fibre, grid = self.fibre, self.transmitter.grid
        linear = np.column_stack([fibre.alpha, fibre.beta])
        inside = np.diff(fibre.groups) == 0
        if self.settings.link.mix_groups and (np.diff(linear, axis=0)[inside] != 0).any():
            raise InputError(
                "link.mix_groups: true given, but modes of one group differ in loss or dispersion, so that "
                'no matrix undoes the mixing; allowed with fibre.coupling = "groups"'
            )
        item = 16 if self.settings.solver.precision == "double" else 8
        # Receiver: two rows and their spectra, one row of noise, a few windows of all channels.
        scratch = (4 * item + 16) * grid.samples + 12 * 16 * 2 * grid.symbols * grid.channels
        needed, free = fibre.rows * grid.samples * item + scratch, self.device.memory()[0]
        if needed > free:
            raise InputError(
                f"memory: field and receiver need {needed / 2**30:.2f} GiB on {self.device.name}, "
                f"{free / 2**30:.2f} GiB are free; allowed: fewer symbols, samples a symbol or modes"
            )

    # --- the run ---------------------------------------------------------------------------------

    def run(self, resume: bool) -> LinkResult:
        found = resume and self.checkpoint.exists()
        state = checkpoints.read_state(self.checkpoint, self.fingerprint) if found else None
        if state:
            # Before any plan is made: the same plans give the same bits.
            fftw.import_wisdom(base64.b64decode(state["wisdom"]))
        solver, grid = self.settings.solver, self.transmitter.grid
        self.propagator = Propagator(
            self.fibre,
            grid.samples,
            grid.sample_rate,
            self.device,
            solver.integrator,
            solver.step,
            solver.max_phase,
            solver.tolerance,
            solver.kerr,
            solver.svd_tolerance,
            solver.precision,
            self.settings.output.checkpoint_every,
        )
        self.A = self.propagator.stages.empty()
        if not resume:
            checkpoints.remove(self.checkpoint)
        with _Interrupt() as self.interrupt:
            try:
                if state:
                    first, inside = self._restore(state)
                else:
                    first, inside = 0, None
                    self._transmit()
                for span in range(first, self.settings.link.spans):
                    self._span(span, inside)
                    inside = None
            except FieldLost:
                # The same steps lead there again: the checkpoint is of no use.
                checkpoints.remove(self.checkpoint)
                raise
        path = self._write()
        checkpoints.remove(self.checkpoint)
        self.progress.finish()
        return LinkResult(self.payload, path)

    def _stoppable(self, done: int, _total: int) -> None:
        """Progress of a part that starts anew when it is resumed: nothing of it needs saving."""
        self.progress.update(done)
        if self.interrupt.asked:
            raise KeyboardInterrupt

    def _transmit(self) -> None:
        rows = self.fibre.rows
        self.progress.start(rows, "transmitter, rows")
        self.transmitter.fill(self.device, self.A, modes=self.fibre.modes, progress=self._stoppable)
        self.propagator.finite_energy(self.A, 0.0)
        if self.settings.receiver.back_to_back:
            self._receive("back_to_back", 0)

    def _span(self, span: int, inside: dict | None) -> None:
        link = self.settings.link
        steps = self.propagator.steps(link.length)
        spans = f"{span + 1}/{link.spans}"
        # Without a fixed step nobody knows how many there will be: show metres instead.
        self.progress.start(steps or link.length, f"span {spans}, {'steps' if steps else 'm'}")

        def on_step(z: float, done: int) -> None:
            self.progress.update(done if steps else z, f"z = {(span * link.length + z) / 1e3:.1f} km")

        self.propagator.run(self.A, link.length, inside, on_step, lambda state: self._checkpoint(span, state))
        self.amplifier.apply(self.device, self.A, self.transmitter.grid, self.settings.seed, span)
        if link.mix_groups:
            self._mixing(span).apply(self.device, self.A)
        if span + 1 in self.settings.receiver.spans(link.spans):
            self._receive(f"span_{span + 1}", span + 1)
        if span + 1 < link.spans:
            self._checkpoint(span + 1, None)

    def _mixing(self, span: int) -> ModeMixing:
        return ModeMixing.random(self.fibre.group_sizes.tolist(), self.settings.seed, span)

    def _receive(self, name: str, spans: int) -> None:
        link, modes = self.settings.link, self.fibre.modes
        mixings = [self._mixing(span) for span in range(spans)] if link.mix_groups else []
        # The noise of an OSNR refers to the nominal power that arrives.
        net = 1.0
        if link.gain is not None:
            net = (self.amplifier.gain * math.exp(-self.fibre.alpha.mean() * link.length)) ** spans
        self.progress.start(2 * modes, f"receiver, {name.replace('_', ' ')}, rows")
        result = self.receiver.receive(
            self.device,
            self.A,
            spans * link.length,
            self.fibre.beta,
            total(mixings).inverse if mixings else None,
            power_gain=net,
            keep=[(mode, self.middle) for mode in range(modes)],
            progress=self._stoppable,
        )
        self.received[name] = (spans * link.length, result)

    # --- checkpoints -----------------------------------------------------------------------------

    def _checkpoint(self, span: int, inside: dict | None) -> None:
        due = time.monotonic() - self.saved_at >= self.settings.output.checkpoint_interval
        if not (due or self.interrupt.asked):
            return
        report = {k: v for k, v in asdict(self.propagator.report).items() if k != "dropped"}
        state = {
            "span": span,
            "inside": inside,
            "report": report,
            "counts": dict(vars(self.propagator.stages.counts)),
            "received": {name: length for name, (length, _) in self.received.items()},
            "wisdom": base64.b64encode(fftw.export_wisdom()).decode(),
        }
        arrays: dict[str, Any] = {
            "field": Rows(self.A.shape, self.A.dtype, lambda row: self.device.to_host(self.A[row]))
        }
        for name, (_, result) in self.received.items():
            for key, value in _arrays(result).items():
                arrays[f"{name}/{key}"] = value
        checkpoints.save(self.checkpoint, arrays, state, self.fingerprint)
        self.saved_at = time.monotonic()
        if self.interrupt.asked:
            raise KeyboardInterrupt

    def _restore(self, state: dict) -> tuple[int, dict | None]:
        def into(name, shape, dtype):
            if name != "field":
                return None
            return lambda row, data: self.A.__setitem__(row, self.device.asarray(data))

        arrays, _ = checkpoints.load(self.checkpoint, self.fingerprint, into)
        for name, length in state["received"].items():
            prefix = name + "/"
            mine = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            points = mine.pop("points")
            kept = {(mode, self.middle): points[mode] for mode in range(len(points))}
            self.received[name] = (length, ReceiverResult(**mine, points=kept))
        for key, value in state["report"].items():
            setattr(self.propagator.report, key, value)
        vars(self.propagator.stages.counts).update(state["counts"])
        return state["span"], state["inside"]

    # --- the result ------------------------------------------------------------------------------

    def _write(self) -> Path:
        self.payload = self._payload()
        return self.writer.write(self.payload, self.settings.text, self.facts | {"written_utc": stamp()})

    def _payload(self) -> dict[str, Any]:
        fibre, grid, report = self.fibre, self.transmitter.grid, self.propagator.report
        payload: dict[str, Any] = {
            "fibre": {
                "attrs": {"name": fibre.name, "wavelength_m": fibre.wavelength, "gamma_per_W_m": fibre.gamma},
                "labels": Data(list(fibre.labels), "", "spatial modes"),
                "groups": Data(fibre.groups, "", "mode group of each spatial mode"),
                "beta": Data(fibre.beta, "s^n/m", "beta1 (relative to the fundamental mode) to beta4"),
                "a_eff": Data(fibre.a_eff, "m^2", "effective area"),
                "kappa": Data(fibre.kappa, "", f"Kerr coupling per {fibre.kappa_of}"),
                "alpha": Data(fibre.alpha, "1/m", "power attenuation"),
            },
            "signal": {
                "attrs": {
                    "modulation": self.transmitter.format.name,
                    "rolloff": self.transmitter.rolloff,
                    "symbol_rate_Hz": grid.symbol_rate,
                    "sample_rate_Hz": grid.sample_rate,
                    "symbols": grid.symbols,
                    "samples_per_symbol": grid.samples_per_symbol,
                    "largest_frequency_shift_Hz": grid.largest_shift,
                },
                "frequencies": Data(np.asarray(grid.frequencies), "Hz", "optical frequency of each channel"),
                "launch_power": Data(
                    self.transmitter.powers(fibre.modes), "W", "per mode and channel, both polarisations"
                ),
            },
            "received": {name: _group(length, result) for name, (length, result) in self.received.items()},
            "solver": {"attrs": _attributes(report, self.propagator.stages.mixing)},
        }
        if self.settings.output.save_field:
            payload["field"] = Data(
                Rows(self.A.shape, self.A.dtype, lambda row: self.device.to_host(self.A[row])),
                "W^0.5",
                "complex envelopes after the last amplifier, two polarisations a mode",
            )
        return payload


def _arrays(result: ReceiverResult) -> dict[str, np.ndarray]:
    """A receiver's result as plain arrays."""
    points = np.stack([result.points[key][:, :_POINTS] for key in sorted(result.points)])
    names = ("q_squared_db", "evm", "ber_counted", "ber_from_q", "delay")
    return {name: getattr(result, name) for name in names} | {"points": points.astype(np.complex64)}


def _group(length: float, result: ReceiverResult) -> dict[str, Any]:
    described = {
        "q_squared_db": ("dB", "Q squared by mode and channel, both polarisations pooled"),
        "evm": ("", "root-mean-square error vector magnitude"),
        "ber_counted": ("", "bit errors over bits sent"),
        "ber_from_q": ("", "bit error ratio of Gaussian noise of this Q"),
        "delay": ("symbols", "delay found by the clock recovery"),
        "constellation": ("", "received symbols of the middle channel: (modes, 2, symbols)"),
    }
    arrays = _arrays(result)
    arrays["constellation"] = arrays.pop("points")
    group: dict[str, Any] = {name: Data(arrays[name], *described[name]) for name in described}
    return group | {"attrs": {"distance_m": length}}


def _attributes(report: Report, mixing) -> dict[str, Any]:
    kept = {key: value for key, value in asdict(report).items() if key != "dropped"}
    kept["kerr_cells"] = mixing.cells
    kept["kerr_rank"] = mixing.rank
    kept["largest_dropped_singular_value"] = float(report.dropped.max(initial=0.0))
    return kept
