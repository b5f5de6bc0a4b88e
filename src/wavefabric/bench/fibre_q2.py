"""Benchmark ``fibre-q2``: figures 4 and 5 of Brehler et al., and how far the step size has converged."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wavefabric.bench.q2_compare import compare
from wavefabric.bench.q2_report import plot, table
from wavefabric.device import get_device
from wavefabric.errors import InputError
from wavefabric.execution import measure
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.run_file.run_file import RunFile, load
from wavefabric.results import Result, read_result
from wavefabric.results.plots import received
from wavefabric.units import SPEED_OF_LIGHT, quantity

__all__ = ["parse_steps", "plot", "run", "table"]

#: Hz, baud, roll-off, and the middle of the paper's 191.95 to 194.9 THz.
SPACING, SYMBOL_RATE, ROLLOFF, CENTRE = 50e9, 32e9, 0.1, 193.425e12


def run(
    groups: int = 15,
    channels: int = 60,
    symbols: int = 64,
    samples_per_symbol: int | None = None,
    steps: Sequence[str] = ("100 m", "50 m"),
    integrator: str = "strang",
    precision: str = "double",
    spans: int = 2,
    span_length: str = "80 km",
    source: Sequence[str | Path] = (),
    output: str | Path = ".",
    force: bool = False,
    device: str = "auto",
    threads: int | None = None,
    progress: Any = None,
) -> dict[str, Any]:
    """Run the link of section 6 once for each step, or read results of it, and compare.

    Parameters
    ----------
    groups : int
        Mode groups 1 to so many of the 62.5 µm fibre, 1 to 15.
    channels : int
        DP-QPSK channels of 32 GBaud at −1 dBm on a 50 GHz grid around 193.425 THz.
    symbols : int
        Symbols a channel.
    samples_per_symbol : int, optional
        Default: the power of two that leaves a quarter more band than the channels fill.
    steps : sequence of str
        Fixed steps with a unit, each with an integrator before it if wanted: ``"50 m"``, ``"rk4ip:200 m"``.
    integrator : str
        For steps that name none.
    precision : {"double", "single"}
    spans : int
        Amplified spans; the signal is received after each.
    span_length : str
        With a unit.
    source : sequence of path
        Result files of `wavefabric run` to read; nothing is simulated then.
    output : path
        Folder for the run file and the result of each step, ``fibre-q2-strang-100m.toml`` and ``.h5``.
        A result of the same run that lies there is read; a run that was killed goes on from its checkpoint.
    force : bool
        Simulate anew and replace what lies there.
    device : str
    threads : int, optional
        CPU threads.
    progress : object, optional
        With ``start(total, label)``, ``update(done, message)``, ``finish()``.

    Returns
    -------
    dict
        JSON-serialisable: ``runs``, in descending step, each with solver, cost, ``penalties`` of the
        fundamental mode and of the mean over modes in dB by place, ``resonance_step_m``, and ``change``
        (``max_db``, ``rms_db`` of Q² over modes and channels, ``fundamental_db``) against the finest run;
        ``finest`` (its name), ``groups`` and ``modes`` of the
        finest run; ``extrapolated``, what is left of the penalties at step zero (of the fundamental mode, of
        each mode, their mean, in dB by place) with the order that was assumed, None from a single step;
        ``paper``; ``machine``.

    Raises
    ------
    InputError
        If an option is not allowed, or a result does not fit the others.
    """
    if source:
        results = [read_result(path) for path in source]
        for result in results:
            if len(received(result)) < 2 or received(result)[0] != "back_to_back":
                raise InputError(
                    f"{result.path}: holds no signal received back to back and after a span; "
                    "run it with receiver.back_to_back = true"
                )
    else:
        wanted = parse_steps(steps, integrator)
        if not 1 <= groups <= 15:
            raise InputError(f"groups: {groups} given; allowed: 1 to 15")
        if channels < 1:
            raise InputError(f"channels: {channels} given; allowed: 1 or more")
        samples = samples_per_symbol or _samples(channels)
        text = _template(groups, channels, symbols, samples, spans, span_length, precision)
        folder = _folder(output)
        prepared = [_prepare(text, name, h, folder, force, device, threads) for name, h in wanted]
        results = [_simulate(settings, path, force, progress) for settings, path in prepared]
    found = compare(results)
    if not source:
        found["machine"] = measure.machine(get_device(device, threads))
    return found


# --- running -----------------------------------------------------------------------------------------


def parse_steps(steps: Sequence[str], integrator: str) -> list[tuple[str, float]]:
    """(integrator, step in m) of texts such as ``"50 m"`` and ``"rk4ip:200 m"``; each pair once."""
    found: list[tuple[str, float]] = []
    for text in steps:
        name, colon, length = text.strip().rpartition(":")
        name = name.strip() if colon else integrator
        if name not in INTEGRATORS:
            raise InputError(f"steps: integrator {name!r} is unknown; allowed: {', '.join(INTEGRATORS)}")
        h = quantity(length, "m", "steps")
        if not h > 0:
            raise InputError(f"steps: {length.strip()!r} given; allowed: a positive length")
        if (name, h) not in found:
            found.append((name, h))
    if not found:
        raise InputError("steps: none given; allowed: at least one length such as 100m")
    return found


def _samples(channels: int) -> int:
    band = (channels - 1) * SPACING + SYMBOL_RATE * (1 + ROLLOFF)
    return max(4, 2 ** math.ceil(math.log2(1.25 * band / SYMBOL_RATE)))


def _folder(output: str | Path) -> Path:
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output: {folder} cannot be used as a folder ({error.strerror})") from None
    return folder


def _template(groups, channels, symbols, samples, spans, span_length, precision) -> str:
    return f"""\
# Written by `wavefabric bench fibre-q2`: section 6 of Brehler et al.
title = "{groups} mode groups, {channels} WDM channels, {spans} x {span_length}"
seed = 1

[fibre]
preset = "graded-index-62.5"
groups = {groups}
coupling = "groups"
dispersion = "paper"
wavelength = "{SPEED_OF_LIGHT / CENTRE * 1e9:.9g} nm"
attenuation = "0.23 dB/km"

[link]
length = "{span_length}"
spans = {spans}

[signal]
modulation = "qpsk"
symbol_rate = "{SYMBOL_RATE / 1e9:g} GBaud"
symbols = {symbols}
samples_per_symbol = {samples}
rolloff = {ROLLOFF}
launch_power = "-1 dBm"
channels = {channels}
spacing = "{SPACING / 1e9:g} GHz"
centre_frequency = "{CENTRE / 1e12:.10g} THz"

[receiver]
osnr = "20 dB"
noise_seed = 1

[solver]
integrator = "INTEGRATOR"
step = "STEP m"
precision = "{precision}"

[output]
checkpoint_interval = "60 s"
"""


def _prepare(text, name, h, folder: Path, force, device, threads) -> tuple[RunFile, Path]:
    """The checked run file of one step, and where its result goes."""
    stem = f"fibre-q2-{name}-{h:g}m"
    text = text.replace("INTEGRATOR", name).replace("STEP", f"{h:.17g}")
    target, written = folder / f"{stem}.h5", folder / f"{stem}.toml"
    if target.exists() and not force and read_result(target).get("run_file") != text:
        raise InputError(f"{target}: is the result of other options; choose another --output or give --force")
    partial = written.with_name(written.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        try:
            settings = load(partial).with_solver(device=device, **({"threads": threads} if threads else {}))
            os.replace(partial, written)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"--output: {written} cannot be written ({error.strerror})") from None
    return settings, target


def _simulate(settings: RunFile, target: Path, force: bool, progress) -> Result:
    from wavefabric.optics.link.run import run_link

    if force or not target.exists():
        # Steps above resonance are what is studied here; the result file holds the warning.
        run_link(settings, output=target, force=force, progress=progress, warn=lambda text: None)
    return read_result(target)
