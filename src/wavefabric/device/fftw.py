"""FFTW plans whose choice (*wisdom*) survives the process, so that a resumed run is bit-identical.

Planning by measurement is 1.5 times faster in use than by estimate, but may choose differently each time.
What FFTW learns of one problem it also uses for others, and of two answers it may find either. So each
problem has wisdom of its own, and the planner knows nothing else while it plans that one: the same plans
result in every process, whatever was planned before.
"""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from wavefabric.errors import InputError, UnusableCheckpoint
from wavefabric.files.output import replacing
from wavefabric.system.machine import cpu_model
from wavefabric.system.user_cache import cache_directory

# OpenMP threads of Numba and of FFTW would spin between kernels and steal the cores from each other:
# measured up to 1.9 times slower steps, and 20 ms a transform where other programs run. Each runtime reads
# this when it is loaded, FFTW's with the import below.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# About a millisecond of spinning bridges the gap between two passes of a time step: 4 % of it at 128³.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

pyfftw: Any = None
with contextlib.suppress(ImportError):  # FFTW is GPL: an extra. scipy.fft serves without it.
    import pyfftw

_Plans = TypeVar("_Plans")
#: Wisdom of one problem: FFTW's text for double, single and long double precision.
_Wisdom = tuple[str, str, str]
_NONE: _Wisdom = ("", "", "")
#: Directions of a plan: forward, backward.
SIGNS = ("FFTW_FORWARD", "FFTW_BACKWARD")
_lock = threading.Lock()  # FFTW plans for one thread at a time
_known: dict[str, _Wisdom] = {}  # of the problems that this process has planned or read from a checkpoint


def library() -> str:
    """Name and version of the FFT library in use on the CPU."""
    if pyfftw is None:
        import scipy

        return f"scipy.fft {scipy.__version__}"
    return f"pyfftw {pyfftw.__version__} ({pyfftw.fftw_version})"


def _folder() -> Path:
    machine = hashlib.sha256(f"{cpu_model()}|{library()}".encode()).hexdigest()[:16]
    return cache_directory() / f"fftw-{machine}"


def _file(problem: str) -> Path:
    return _folder() / f"{hashlib.sha256(problem.encode()).hexdigest()[:16]}.json"


def wisdom_state() -> str:
    """One line on the stored wisdom, for ``wavefabric info``."""
    if pyfftw is None:
        return "none (pyfftw is not installed)"
    stored = len(list(_folder().glob("*.json")))
    return f"for {stored} kinds of transforms in {_folder()}" if stored else "none stored yet"


def export_wisdom() -> bytes:
    """The wisdom of what this process has planned, to travel in a checkpoint (empty without pyfftw)."""
    return json.dumps(_known).encode() if pyfftw else b""


def import_wisdom(stored: bytes) -> None:
    """Take wisdom from `export_wisdom`. It wins over what this process and the disk cache hold."""
    if pyfftw and stored:
        try:
            wisdom = {str(problem): _checked(texts) for problem, texts in json.loads(stored).items()}
        except (ValueError, AttributeError):
            fault = "checkpoint: FFTW wisdom cannot be read; remove it to start anew"
            raise UnusableCheckpoint(fault) from None
        with _lock:
            _known.update(wisdom)


def _checked(texts: Any) -> _Wisdom:
    match texts:
        case [str() as double, str() as single, str() as longer]:
            return double, single, longer
    raise ValueError("not FFTW wisdom")


def _read(problem: str) -> _Wisdom:
    """What is stored of a problem; nothing if that cannot be read."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stored = json.loads(_file(problem).read_text("ascii"))
        if stored.get("problem") == problem:
            return _checked(stored.get("wisdom"))
    return _NONE


def _write(problem: str, wisdom: _Wisdom) -> None:
    with contextlib.suppress(OSError, InputError):  # No cache folder: slower next time, not wrong.
        file = _file(problem)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            partial.write_text(json.dumps({"problem": problem, "wisdom": wisdom}), "ascii")


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One process of this machine plans at a time: of ranks that plan at once, all take the same plans."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            path = _folder() / "lock"
            path.parent.mkdir(parents=True, exist_ok=True)
            fcntl.flock(stack.enter_context(open(path, "w")), fcntl.LOCK_EX)
        yield


def planned(problem: str, make: Callable[[], _Plans]) -> _Plans:
    """What ``make()`` plans, with the wisdom of ``problem`` alone.

    ``problem`` names all that the plans depend on. Where it is new, plans are measured and their wisdom
    stored. ``make`` may run more than once; the last of its results is given back.
    """
    with _lock:
        if problem in _known:
            plans, _known[problem] = _with_wisdom(_known[problem], make)
            return plans
        with _alone():
            stored = _read(problem)
            plans, _known[problem] = _with_wisdom(stored, make)
            if _known[problem] != stored:
                _write(problem, _known[problem])
        return plans


def _with_wisdom(wisdom: _Wisdom, make: Callable[[], _Plans], rounds: int = 4) -> tuple[_Plans, _Wisdom]:
    """Plans that wisdom alone determines, and that wisdom: what measuring adds is planned with once more."""
    pyfftw.forget_wisdom()
    if any(wisdom):
        pyfftw.import_wisdom(tuple(text.encode() for text in wisdom))
    plans, learnt = make(), _learnt()
    if learnt == wisdom or not rounds:
        return plans, learnt
    return _with_wisdom(learnt, make, rounds - 1)


def _learnt() -> _Wisdom:
    """The planner's wisdom; FFTW writes lines in any order, here they are sorted."""
    double, single, longer = (_sorted(text.decode("ascii")) for text in pyfftw.export_wisdom())
    return double, single, longer


def _sorted(text: str) -> str:
    if not text.strip():
        return ""
    head, *entries, end = text.strip().splitlines()
    return "\n".join([head, *sorted(entries), end]) + "\n"


def plan(source, target, sign: str, axes: tuple[int, ...], threads: int, *flags: str):
    """A measured plan of such arrays, inside `planned`."""
    measured = ("FFTW_MEASURE", *flags)
    return pyfftw.FFTW(source, target, axes=axes, direction=sign, flags=measured, threads=threads)


def execute(plan, source, target) -> None:
    """Run a plan on arrays like those it was made for."""
    plan.update_arrays(source, target)
    plan.execute()


def aligned(shape, dtype) -> np.ndarray:
    """An array to plan with."""
    return pyfftw.empty_aligned(shape, dtype, n=64)
