"""CUDA kernels on the CPU: what they compute is tested where there is no GPU.

A source is compiled as C++ behind ``emulated_cuda.h``; kernels are launched as CuPy's RawKernel. Inline PTX
must be guarded by ``#ifdef __CUDA_ARCH__``; ``EMULATED_CUDA`` is defined instead.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from wavefabric.base.system.user_cache import cache_directory

HEADER = Path(__file__).with_name("emulated_cuda.h")
_PARTS = (HEADER, HEADER.with_name("emulated_cuda_math.h"), Path(__file__))
# Most are launched once on small fields: to optimise them would take longer than it saves.
_FLAGS = ("-std=c++17", "-O0", "-w", "-fPIC", "-fvisibility=hidden", "-fno-exceptions")
_FLAGS += ("-fno-strict-aliasing", "-fno-threadsafe-statics")
_BEGIN = "int emulated_source_begins;"
_GUARD = 4096

# Of a preprocessed source: brackets nest at most three deep.
_NESTED = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_BOUNDS = rf"__launch_bounds__\s*({_NESTED})"
_KERNEL = re.compile(rf'extern\s*"C"\s*(?:__global__|void|\s|{_BOUNDS})+\b(?!__)(\w+)\s*\(')
_ALIGNED = rf"(?:(?:alignas|__attribute__)\s*{_NESTED}\s*)?"
_DYNAMIC = re.compile(rf"extern\s+{_ALIGNED}__shared__\s+{_ALIGNED}([\w\s:]*?)(\w+)\s*\[\s*\]\s*;")


class CompileError(Exception):
    """The compiler's messages."""


def find_compiler() -> str:
    """Path of g++; skips the test where there is none."""
    return shutil.which("g++") or pytest.skip("no g++ here")


class Module:
    """Kernels of a CUDA source, compiled with definitions (``-DNAME=VALUE``; other options are ignored).

    Threads and blocks run in an order that follows from ``seed``. Raises `CompileError`.
    """

    def __init__(self, source: str, definitions: tuple[str, ...] = (), seed: int = 0):
        self.seed = seed
        # It holds the interpreter's lock: one launch at a time.
        self.library = ctypes.PyDLL(_compiled(source, tuple(definitions)))

    def kernel(self, name: str) -> Kernel:
        """The kernel exported as ``extern "C" __global__ void name``; raises AttributeError."""
        return Kernel(self, self.library, name)

    get_function = kernel


class Kernel:
    """A kernel, launched as CuPy's ``RawKernel``."""

    def __init__(self, module: Module, library: ctypes.CDLL, name: str):
        self.name, self._module = name, module
        self._launch, describe = library[f"launch_{name}"], library[f"parameters_{name}"]
        self._together = library[f"together_{name}"]
        self._launch.restype = self._together.restype = describe.restype = ctypes.c_char_p
        self._stacks = _stacks(library)
        self._parameters = [(word[0], int(word[1:])) for word in describe().decode().split()]
        self._most_threads = ctypes.c_uint.in_dll(library, f"bounds_{name}").value
        #: More shared memory must be asked for by setting this, as on a GPU.
        self.max_dynamic_shared_size_bytes = 48 * 1024

    def __call__(self, grid, block, arguments, shared_mem: int = 0) -> None:
        """Run it. Arrays are copied between guards and back; those made by `empty` are used as they are.

        Raises TypeError or ValueError for what a GPU would not launch or misread, and AssertionError if the
        kernel wrote outside an array or to a read-only one, or threads waited for one another in vain.
        """
        launch = self._prepared(grid, block, arguments, shared_mem)
        words, seed = (ctypes.c_uint * 6)(*launch.sizes), ctypes.c_uint64(self._module.seed)
        fault = self._launch(self._stacks, words, ctypes.c_size_t(shared_mem), seed, launch.addresses)
        self._check(fault, [launch])

    def together(self, launches, shared_mem: int = 0, seed: int | None = None) -> None:
        """Several launches (grid, block, arguments) whose blocks take turns and may wait for one another.

        What they share must be made by `empty`, or ValueError is raised: each has copies of other arrays.
        """
        _refuse_shared([arguments for _, _, arguments in launches])
        made = [self._prepared(*each, shared_mem) for each in launches]
        words = (ctypes.c_uint * (6 * len(made)))(*(size for launch in made for size in launch.sizes))
        rows = (ctypes.c_void_p * len(made))(*(ctypes.addressof(launch.addresses) for launch in made))
        number = ctypes.c_uint64(self._module.seed if seed is None else seed)
        fault = self._together(self._stacks, len(made), words, ctypes.c_size_t(shared_mem), number, rows)
        self._check(fault, made)

    def _prepared(self, grid, block, arguments, shared_mem: int) -> _Launch:
        sizes = [*grid, 1, 1][:3] + [*block, 1, 1][:3]
        threads = sizes[3] * sizes[4] * sizes[5]
        if not all(sizes) or threads > self._most_threads:
            raise ValueError(f"{self.name}: grid {grid}, block {block}; at most {self._most_threads} threads")
        if shared_mem > self.max_dynamic_shared_size_bytes or shared_mem > 227 * 1024:
            raise ValueError(f"{self.name}: {shared_mem} bytes of shared memory")
        if len(arguments) != len(self._parameters):
            raise TypeError(f"{self.name}: {len(arguments)} arguments, not {len(self._parameters)}")
        arrays = {
            i: a
            for i, a in enumerate(arguments)
            if isinstance(a, np.ndarray) and self._parameters[i][0] == "p"
        }
        regions = _regions(arrays)
        pointers = {i: a.ctypes.data for i, a in arrays.items()}
        pointers |= {i: address for region in regions for i, address in region.addresses().items()}
        held, addresses = [], (ctypes.c_void_p * max(len(arguments), 1))()
        for i, argument in enumerate(arguments):
            value = np.uint64(pointers[i]) if i in pointers else argument
            held.append(_bytes_of(f"{self.name}, argument {i}", value, *self._parameters[i]))
            addresses[i] = held[-1].ctypes.data
        return _Launch(list(map(int, sizes)), addresses, held, regions)

    def _check(self, fault: bytes | None, launches: list[_Launch]) -> None:
        assert fault is None, f"{self.name}: {fault.decode()}"
        for launch in launches:
            for region in launch.regions:
                region.check(self.name)
        for raw, start, nbytes in _allocated():
            assert _intact(raw, start, nbytes), (
                f"{self.name}: kernel wrote outside an array of {nbytes} bytes"
            )


class _Launch(NamedTuple):
    """Sizes of grid and block, addresses of arguments, what these point to, and arrays between guards."""

    sizes: list[int]
    addresses: ctypes.Array
    held: list[np.ndarray]
    regions: list[_Region]


_STACKS: list[ctypes.c_void_p] = []


def _stacks(library: ctypes.CDLL) -> ctypes.c_void_p:
    """Stacks of threads, the same for all libraries: a process can have only so many mappings."""
    if not _STACKS:
        library.make_stacks.restype = ctypes.c_void_p
        _STACKS.append(ctypes.c_void_p(library.make_stacks()))
        assert _STACKS[0], "no memory for stacks"
    return _STACKS[0]


def _bytes_of(device: str, value, kind: str, size: int) -> np.ndarray:
    """A scalar or structure as a kernel reads it; CuPy would pass one of another type unchecked."""
    value = np.asarray(value)[()]
    allowed = {"p": "ui", "i": "uib", "f": "f", "s": "Vc"}[kind]
    if value.dtype.kind not in allowed or value.nbytes != size:
        raise TypeError(f"{device}: {value.dtype} given for {kind}{size}")
    raw, start = _between_guards(size)
    raw[start : start + size] = np.frombuffer(value.tobytes(), np.uint8)
    return raw[start:]


# --- Arrays between guards ----------------------------------------------------------------------------------


class DeviceArray(np.ndarray):
    """An array that tells its address as CuPy's do."""

    #: ``recorded``: where this thread's assignments go while a graph is captured.
    capture = threading.local()

    def __setitem__(self, key, value):
        recorded = getattr(self.capture, "recorded", None)
        if recorded is None:
            super().__setitem__(key, value)
        else:
            recorded.append(functools.partial(np.ndarray.__setitem__, self, key, value))

    @property
    def data(self):  # pyright: ignore
        return SimpleNamespace(ptr=self.ctypes.data)


_ALLOCATIONS: list[tuple[weakref.ref, int, int]] = []


def empty(shape, dtype) -> DeviceArray:
    """An array filled with 0xff bytes (NaN), between guards that every launch checks as long as it lives."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw, start = _between_guards(nbytes)
    _ALLOCATIONS.append((weakref.ref(raw), start, nbytes))
    return raw[start : start + nbytes].view(dtype).reshape(shape).view(DeviceArray)


def _allocated() -> list[tuple[np.ndarray, int, int]]:
    """Arrays of `empty` that still live; forgets the others."""
    _ALLOCATIONS[:] = [entry for entry in _ALLOCATIONS if entry[0]() is not None]
    held = [(reference(), start, nbytes) for reference, start, nbytes in _ALLOCATIONS]
    return [(raw, start, nbytes) for raw, start, nbytes in held if raw is not None]


def _between_guards(nbytes: int) -> tuple[np.ndarray, int]:
    """Bytes of 0xff, and where the aligned array between the guards begins."""
    raw = np.full(nbytes + 2 * _GUARD + 256, 255, np.uint8)
    return raw, _GUARD + -(raw.ctypes.data + _GUARD) % 256


def _intact(raw: np.ndarray, start: int, nbytes: int) -> bool:
    """Whether nothing was written around an array; said once, as the guards are mended."""
    guards = raw[:start], raw[start + nbytes :]
    if all((guard == 255).all() for guard in guards):
        return True
    for guard in guards:
        guard[:] = 255
    return False


class _Region:
    """A copy between guards of memory that arguments share, parts of one array perhaps."""

    def __init__(self, arrays: dict[int, np.ndarray]):
        self._arrays = arrays
        self._first = min(a.ctypes.data for a in arrays.values())
        self._nbytes = max(a.ctypes.data + a.nbytes for a in arrays.values()) - self._first
        self._raw, self._start = _between_guards(self._nbytes)
        self._copy = self._raw.ctypes.data + self._start
        ctypes.memmove(self._copy, self._first, self._nbytes)

    def addresses(self) -> dict[int, int]:
        return {i: self._copy + a.ctypes.data - self._first for i, a in self._arrays.items()}

    def check(self, name: str) -> None:
        """Bring values back, if nothing was written that should not be."""
        numbers = ", ".join(map(str, self._arrays))
        assert _intact(self._raw, self._start, self._nbytes), (
            f"{name}: kernel wrote outside argument {numbers}"
        )
        for i, array in self._arrays.items():
            part = self._raw[self._start + array.ctypes.data - self._first :][: array.nbytes]
            if array.flags.writeable:
                ctypes.memmove(array.ctypes.data, part.ctypes.data, array.nbytes)
            else:
                assert array.tobytes() == part.tobytes(), f"{name}: kernel wrote to argument {i}, read-only"


def _regions(arrays: dict[int, np.ndarray]) -> list[_Region]:
    """Arrays that overlap, together; those of `empty` need no copies."""
    groups: list[dict[int, np.ndarray]] = []
    end = 0
    for i, array in sorted(arrays.items(), key=lambda item: item[1].ctypes.data):
        if not array.flags.c_contiguous:
            raise ValueError(f"argument {i}: an array of shape {array.shape} that is not contiguous")
        if isinstance(array, DeviceArray):
            continue
        if not groups or array.ctypes.data >= end:
            groups.append({})
        groups[-1][i] = array
        end = max(end, array.ctypes.data + array.nbytes)
    return [_Region(group) for group in groups]


def _refuse_shared(launches) -> None:
    """ValueError if arrays of different launches overlap that are not made by `empty`."""
    plain = [
        (a.ctypes.data, a.ctypes.data + a.nbytes, number)
        for number, arguments in enumerate(launches)
        for a in arguments
        if isinstance(a, np.ndarray) and a.nbytes and not isinstance(a, DeviceArray)
    ]
    end, owner = 0, 0
    for first, last, number in sorted(plain):
        if first < end and number != owner:
            raise ValueError(f"launches {owner} and {number} share an array that is not made by empty()")
        if last > end:
            end, owner = last, number


# --- Compilation --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _compiled(source: str, definitions: tuple[str, ...]) -> str:
    """Shared library, from the user's cache if it was compiled before."""
    compiler = find_compiler()
    macros = [option[2:].partition("=") for option in definitions if option.startswith("-D")]
    lines = [f"#define {name} {value if equals else 1}" for name, equals, value in macros]
    text = "\n".join([f'#include "{HEADER.name}"', "#define EMULATED_CUDA 1", _BEGIN, *lines, "", source])
    parts = (*(part.read_text("utf-8") for part in _PARTS), *_FLAGS, compiler, os.uname().machine, text)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    library = cache_directory("emulated_cuda") / f"{key}.so"
    if not library.exists():
        with open(library.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of workers and ranks that want the same one, one compiles it
            if not library.exists():
                _compile(compiler, text, library)
    return str(library)


def _compile(compiler: str, text: str, library: Path) -> None:
    preprocessed = _run([compiler, *_FLAGS[:1], f"-I{HEADER.parent}", "-E", "-x", "c++", "-"], text)
    with tempfile.TemporaryDirectory(dir=library.parent) as directory:
        made = Path(directory) / "made.so"
        command = [compiler, *_FLAGS, "-shared", "-x", "c++-cpp-output", "-", "-o", str(made)]
        _run(command, _as_cpp(preprocessed))
        os.replace(made, library)


def _run(command: list[str], text: str) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(done.stderr)
    return done.stdout


def _static(declaration: re.Match) -> str:
    """Variables in shared memory as static ones that are registered."""
    plain = re.sub(_ALIGNED, "", declaration[1])
    names = [re.findall(r"\w+", each)[-1] for each in re.sub(r"\[[^\]]*\]|<[^>]*>", "", plain).split(",")]
    registered = ", ".join(f"shared_{name}(&{name}, sizeof {name})" for name in names)
    return f"static {declaration[1]}; static emulated::Shared {registered};"


def _as_cpp(preprocessed: str) -> str:
    """C++ of a preprocessed source: shared memory by its place, and for each kernel what `Kernel` calls.

    All lies in an unnamed namespace: no name meets one of the C library.
    """
    header, _, source = preprocessed.partition(_BEGIN)
    # A kernel may be declared, with its bounds, before it is defined.
    kernels = {match[2]: match[1] for match in reversed([*_KERNEL.finditer(source)])}
    source = re.sub(r'extern\s*"C"(?=[^{;(]*__global__)', "", source)
    source = re.sub(f"__global__|{_BOUNDS}", "", source)
    source = _DYNAMIC.sub(r"static \1* const \2 = (\1*)emulated::dynamic_memory;", source)
    source = re.sub(r"(?:\bstatic\s+)?\b__shared__\b([^;]*);", _static, source)
    out = [header, "namespace emulated_source { namespace {", source]
    out += [f"extern const unsigned bounds_{k} = emulated::first{b or '(1024)'};" for k, b in kernels.items()]
    out += ["}}", 'extern "C" {', "#pragma GCC visibility push(default)"]
    out += ["char *make_stacks() { return emulated::make_stacks(); }"]
    for name in kernels:
        kernel = f"emulated_source::{name}"
        out += [
            f"extern const unsigned bounds_{name} = emulated_source::bounds_{name};",
            f"const char *parameters_{name}() {{ return emulated::parameters(&{kernel}); }}",
            f"const char *launch_{name}(char *s, const unsigned *g, size_t m, uint64_t r, void **a) {{",
            f"    return emulated::launch(emulated::body<&{kernel}>, s, g, m, r, a);",
            "}",
            f"const char *together_{name}(char *s, unsigned n, const unsigned *g, size_t m, uint64_t r,",
            "    void ***a) {",
            f"    return emulated::together(emulated::body<&{kernel}>, s, n, g, m, r, a);",
            "}",
        ]
    return "\n".join([*out, "#pragma GCC visibility pop", "}", ""])
