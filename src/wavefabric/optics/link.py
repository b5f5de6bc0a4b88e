"""A mode- and wavelength-multiplexed link: transmit, spans of fibre and amplifiers, receive."""

from __future__ import annotations

import base64
import signal as signals
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.device import fftw, get_device
from wavefabric.optics.amplifier import Amplifier
from wavefabric.optics.build import build_fibre, build_receiver, build_transmitter
from wavefabric.optics.mode_mixing import ModeMixing, total
from wavefabric.optics.propagate import Propagator, Report
from wavefabric.optics.receiver import ReceiverResult
from wavefabric.optics.runfile import RunFile
from wavefabric.results import Data, ResultWriter, Rows, fingerprint, provenance
from wavefabric.results import checkpoint as checkpoints

#: Received symbols kept of each polarisation, for the constellation picture.
_POINTS = 1024


@dataclass
class LinkResult:
    """What :func:`run_link` gives back: the payload of the result file, and the file."""

    payload: dict[str, Any]
    path: Path


class _Quiet:
    def start(self, total_steps, label):
        pass

    def update(self, done, message=""):
        pass

    def finish(self):
        pass


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
    run: RunFile, output=None, force: bool = False, resume: bool = True, progress: Any = None
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
    progress : object, optional
        With ``start(total, label)``, ``update(done, message)``, ``finish()``.

    Raises
    ------
    InputError
        For input that cannot be simulated, before anything large is allocated or written.
    FieldLost
        If the field does not stay finite.
    KeyboardInterrupt
        After Ctrl-C, once a checkpoint is written.
    """
    return _Link(run, output, force, progress or _Quiet()).run(resume)


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
        self.fingerprint = fingerprint(
            settings.identity(),
            device=self.device.name.partition(":")[0],
            fft=fftw.library() if self.device.name == "cpu" else "cufft",
            segment=str(settings.output.checkpoint_every),
        )
        self.received: dict[str, tuple[float, ReceiverResult]] = {}
        self.saved_at = time.monotonic()

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
        with _Interrupt() as self.interrupt:
            if state:
                first, inside = self._restore(state)
            else:
                first, inside = 0, None
                self._transmit()
            for span in range(first, self.settings.link.spans):
                self._span(span, inside)
                inside = None
        path = self._write()
        checkpoints.remove(self.checkpoint)
        self.progress.finish()
        return LinkResult(self.payload, path)

    def _transmit(self) -> None:
        rows = self.fibre.rows
        self.progress.start(rows, "transmitter, rows")
        self.transmitter.fill(
            self.device, self.A, modes=self.fibre.modes, progress=lambda done, _: self.progress.update(done)
        )
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
        loss = float(np.exp(self.fibre.alpha.mean() * link.length))
        gain = loss if link.gain is None else 10 ** (link.gain / 10)
        Amplifier(gain, link.noise_figure).apply(
            self.device, self.A, self.transmitter.grid, self.settings.seed, span
        )
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
        middle = self.transmitter.grid.channels // 2
        net = 1.0
        if link.gain is not None:
            # Noise refers to the nominal power that arrives.
            net = 10 ** (spans * link.gain / 10) * float(
                np.exp(-self.fibre.alpha.mean() * link.length * spans)
            )
        self.progress.start(2 * modes, f"receiver, {name.replace('_', ' ')}, rows")
        result = self.receiver.receive(
            self.device,
            self.A,
            spans * link.length,
            self.fibre.beta,
            total(mixings).inverse if mixings else None,
            power_gain=net,
            keep=[(mode, middle) for mode in range(modes)],
            progress=lambda done, _: self.progress.update(done),
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
            middle = self.transmitter.grid.channels // 2
            kept = {(mode, middle): points[mode] for mode in range(len(points))}
            self.received[name] = (length, ReceiverResult(**mine, points=kept))
        for key, value in state["report"].items():
            setattr(self.propagator.report, key, value)
        vars(self.propagator.stages.counts).update(state["counts"])
        return state["span"], state["inside"]

    # --- the result ------------------------------------------------------------------------------

    def _write(self) -> Path:
        self.payload = self._payload()
        return self.writer.write(self.payload, self.settings.text, provenance(device=self.device.name))

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
