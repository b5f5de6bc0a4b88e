"""NCCL's algorithms, protocols and channels: measured, and the fastest in a tuner plugin (`nccl_tuner.c`)."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from ctypes import CDLL, c_int
from dataclasses import dataclass
from itertools import count, groupby, product
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wavefabric.base.errors import InputError, not_one_of, show
from wavefabric.base.files.output import check_output, made_folder, replacing
from wavefabric.base.system.deferred_interrupt import DeferredInterrupt
from wavefabric.base.system.progress import Progress
from wavefabric.base.units import time_words
from wavefabric.collectives.registry import build
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.run_schedule import sizes_between
from wavefabric.fabric.execution.timed_schedule import SizedSchedule, check_and_time, check_memory, values_of
from wavefabric.fabric.execution.timing import Ranks, check_options

#: Operations that NCCL has algorithms for. What plugins call them has no hyphen.
OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce")
#: In the order of NCCL's numbers.
NCCL_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
NCCL_PROTOCOLS = ("ll", "ll128", "simple")
#: Numbers of channels tried with the fastest, if it is a ring or a tree; NCCL takes no more than it has.
CHANNELS = (2, 4, 8, 16, 32)
#: The plugin, and its table beside it.
LIBRARY, TABLE = "libnccl-tuner-wavefabric.so", "nccl_tuner.conf"
_COLUMNS = "# operation,min bytes,max bytes,algorithm,protocol,channels,nodes,ranks,numPipeOps,regBuff"
_ROW = "{:13},{:>11},{:>11}, {:14}, {:8},{:>9},{:>6},{:>6},{:>11},{:>8}\n"
_CHOSEN_BY_USER = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_TUNER_PLUGIN", "WAVEFABRIC_NCCL_TUNER_TABLE")


class NCCLChoice(NamedTuple):
    """An algorithm and a protocol of NCCL, and the number of channels (0: as many as NCCL takes)."""

    algorithm: str
    protocol: str
    channels: int = 0

    def __str__(self) -> str:
        return " ".join(self[:2]) + (f", {self.channels} channels" if self.channels else "")


COMBINATIONS = tuple(NCCLChoice(*pair) for pair in product(NCCL_ALGORITHMS, NCCL_PROTOCOLS))
#: Median, least and most µs; of an operation on so many bytes by a choice (None: NCCL's), if it can serve.
Samples = tuple[float, float, float]
Timer = Callable[[str, int, NCCLChoice | None], Samples | None]


class NCCLSize(NamedTuple):
    """Bytes of the whole array; times of NCCL's own choice, and of the fastest (None: its own) in µs."""

    collective: str
    bytes: int
    nccl_us: float
    us: float
    choice: NCCLChoice | None
    left_out: int  # combinations that NCCL refuses, or that move wrong data


@dataclass(frozen=True)
class NCCLTuning:
    """The fastest of NCCL's choices, by operation and rising size, and whether nobody interrupted."""

    ranks: int
    nodes: int
    measured: str  # NCCL's version, element type, GPU
    sizes: list[NCCLSize]
    complete: bool = True

    def to_text(self) -> str:
        """The table (docs/formats.md): each size for those nearest to it, in ratio, unless NCCL chooses."""
        lines = [f"# {self.measured}\n", _ROW.format(*_COLUMNS.split(","))]
        for name, group in groupby(self.sizes, lambda size: size.collective.replace("-", "")):
            sizes = list(group)
            least = sizes[0].bytes
            for size, above in zip(sizes, [*sizes[1:], sizes[-1]], strict=True):
                most = isqrt(size.bytes * above.bytes - (above is not size))
                if size.choice:
                    how = *size.choice[:2], size.choice.channels or -1, self.nodes, self.ranks
                    lines.append(_ROW.format(name, least, most, *how, -1, 0))
                least = most + 1
        return "".join(lines)

    def report(self) -> Any:
        """A table of NCCL's own choice and the fastest."""
        rows = []
        for name, size, own, us, choice, left_out in self.sizes:
            words = *map(time_words, (own / 1e6, us / 1e6)), f"{own / us:.2f} x", str(choice or "NCCL's own")
            rows.append((name, report.size_words(size), *words, str(left_out)))
        columns = ["<operation", "size", "NCCL's own", "fastest", "faster", "<choice", "left out"]
        return report.table(f"{self.ranks} ranks, {self.measured}", columns, rows, plain=True)


def build_plugin(path: Path) -> None:
    """Compile the plugin to a shared library; `InputError` if nothing does."""
    compilers = map(shutil.which, (os.environ.get("CC") or "cc", "cc", "gcc", "clang"))
    if not (compiler := next(filter(None, compilers), None)):
        raise InputError("nccl-tuner: no C compiler on PATH; allowed: cc, gcc, clang, or what CC names")
    source, how = Path(__file__).with_name("nccl_tuner.c"), ("-O2", "-fPIC", "-shared", "-fvisibility=hidden")
    done = subprocess.run([compiler, *how, "-o", path, source, "-ldl"], capture_output=True, text=True)
    if done.returncode:
        why = " ".join(done.stderr.split())[:200] or signal.strsignal(-done.returncode)
        raise InputError(f"nccl-tuner: {compiler} failed ({why}); allowed: a C compiler")


def check_folder(folder: Path, force: bool) -> None:
    """Refuse a folder in which the plugin must not be written; nothing on the disk changes."""
    for name in (LIBRARY, TABLE) if os.path.lexists(folder) else ("",):
        check_output(folder / name, force, "nccl-tuner")


def write_plugin(folder: str | Path, tuning: NCCLTuning, force: bool = False) -> list[Path]:
    """Write library and table to a folder, new or not; `InputError` as of `check_folder`, `build_plugin`."""
    check_folder(folder := Path(folder), force)
    with tempfile.TemporaryDirectory(prefix="wavefabric-") as work:
        build_plugin(Path(work, LIBRARY))
        contents = {LIBRARY: Path(work, LIBRARY).read_bytes(), TABLE: tuning.to_text().encode()}
    with made_folder(folder, "nccl-tuner"), contextlib.ExitStack() as stack:
        for name, content in contents.items():
            stack.enter_context(replacing(folder / name, "nccl-tuner")).write_bytes(content)
    return [folder / name for name in contents]


def search(collectives: Sequence[str], sizes: Sequence[int], timer: Timer, bar: Progress) -> list[NCCLSize]:
    """The fastest by operation and rising size, as far as the timer raises no KeyboardInterrupt.

    NCCL's own choice is timed before and after the others. In the order of medians, NCCL's channels first,
    each replaces what is chosen so far if all its samples are smaller than all of that, and its median by 2 %
    or more. `InputError` if NCCL takes none.
    """
    measured: list[NCCLSize] = []

    def timed(*choices: NCCLChoice | None) -> dict[Any, Samples]:
        times = {}
        for choice in choices:
            bar.update(next(done), f"{name}, {report.size_words(size)}: {choice or 'as NCCL chooses'}")
            if samples := timer(name, size, choice):
                times[choice] = samples
        return times

    bar.start(len(collectives) * len(sizes) * (steps := 2 + len(COMBINATIONS) + len(CHANNELS)), "NCCL")
    try:
        for number, (name, size) in enumerate(product(collectives, sizes)):
            done, chosen = count(number * steps), None
            before, times = timed(None)[None], timed(*COMBINATIONS)
            if not times:
                raise InputError("nccl-tuner: NCCL has loaded no plugin; allowed: NCCL 2.24 or later")
            best, left_out = min(times, key=times.__getitem__), len(COMBINATIONS) - len(times)
            if best.algorithm in ("ring", "tree"):
                times |= timed(*(best._replace(channels=channels) for channels in CHANNELS))
            own = us, least, _ = tuple(map(min, before, timed(None)[None]))
            for choice in sorted(times, key=lambda each: (each.channels > 0, times[each])):
                if times[choice][2] < least and times[choice][0] <= 0.98 * us:
                    chosen, (us, least, _) = choice, times[choice]
            measured.append(NCCLSize(name, size, own[0], us, chosen, left_out))
    except KeyboardInterrupt:
        pass  # what is complete counts
    finally:
        bar.finish()
    return measured


def tune_nccl(
    ranks: Ranks,
    collectives: Sequence[str] = OPERATIONS,
    sizes: Sequence[int] = (),
    dtype: str = "float32",
    repeats: int = 5,
    progress: Progress | None = None,
) -> NCCLTuning:
    """Measure NCCL's own choice and all others between ranks, as `search` does; collective.

    ``sizes``: bytes of the whole array, multiples of an element for each rank, by default 256 of these times
    powers of 4, to 1 GiB. Times are of the slowest rank, samples last 0.05 s, data are checked to the bit.
    The plugin of one communicator takes each combination in turn. KeyboardInterrupt: nothing is complete.
    `InputError`: unknown words, other sizes, no C compiler, no NCCL here, or variables that choose for it.
    """
    values_of(dtype, ranks.size)  # refuses what cannot be checked
    width = np.dtype(dtype).itemsize
    check_options(repeats, sizes, step := width * ranks.size)
    collectives = list(dict.fromkeys(collectives))
    for name in set(collectives).difference(OPERATIONS):
        raise InputError(f"collective: {not_one_of(name, OPERATIONS)}")
    for name in filter(os.environ.get, _CHOSEN_BY_USER):
        raise InputError(f"{name}: {show(os.environ[name])} given; allowed: not set while NCCL is measured")
    sizes = sorted(set(sizes)) or sizes_between(256 * step, 1 << 30)
    sized = {
        (name, size): SizedSchedule.of(build("ring", name, ranks.size, size // width), width)
        for name, size in product(collectives, sizes)
    }
    ranks.sample = 0.05
    with tempfile.TemporaryDirectory(prefix="wavefabric-") as folder, DeferredInterrupt() as interrupt:
        build_plugin(library := Path(folder, LIBRARY))
        library.with_name(TABLE).write_text("# all as NCCL chooses\n", encoding="utf-8")
        trial = (c_int * 4).in_dll(CDLL(str(library)), "wavefabric_nccl_trial")  # the one that NCCL loads
        os.environ["NCCL_TUNER_PLUGIN"] = str(library)
        comm, why = ranks.open("nccl")
        del os.environ["NCCL_TUNER_PLUGIN"]
        if comm is None:
            raise InputError(f"nccl-tuner: NCCL cannot be used ({why}); allowed: NCCL, a GPU for each rank")
        check_memory(ranks, list(sized.values()), width)
        buffer = comm.allocate((sizes[-1] // width,), dtype)
        buffer[...] = 0  # sums of what was in memory might not be numbers

        def timer(name: str, size: int, choice: NCCLChoice | None) -> Samples | None:
            if ranks.control.max(int(interrupt.requested)):
                raise KeyboardInterrupt
            number = COMBINATIONS.index(choice._replace(channels=0)) if choice else -3
            trial[:] = [*divmod(number, 3), choice.channels if choice else 0, 0]
            part = buffer[: size // width]
            work = comm.own_collective(name, [part], sized[name, size].root or 0)
            work()
            if choice and ranks.control.max(int(not trial[3])):
                return None
            row = check_and_time(ranks, comm, sized[name, size], work, {"data": part}, repeats)
            if row["wrong"] and not choice:
                raise InputError(f"nccl: {row['wrong']} elements of {name} are wrong; allowed: none")
            return None if row["wrong"] else (row["us"], row["us_best"], row["us_worst"])

        measured = search(collectives, sizes, timer, progress or Progress())
        if not measured:
            interrupt.stop()
    machine = ranks.machine()
    hosts = {host for host, _ in machine["placement"]}
    words = f"NCCL {comm.describe().get('nccl')}, {dtype} on {machine.get('gpu') or machine['cpu']}"
    return NCCLTuning(ranks.size, len(hosts), words, measured, len(measured) == len(sized))
