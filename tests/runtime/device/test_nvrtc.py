"""Every CUDA source of the package compiles, with the options and definitions the GPU device uses."""

import ast
import re
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import numpy as np
import nvrtc_compiler as nvrtc
import pytest

import wavefabric
from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.runtime.device import get_device
from wavefabric.runtime.kernels.cuda_text import cuda_text

pytestmark = pytest.mark.skipif(
    nvrtc.find_library() is None, reason="the nvidia-cuda-nvrtc wheel (extra dev) is not installed"
)

PACKAGE = Path(wavefabric.__file__).parent
SOURCES = sorted(file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.cu"))
TRANSPORTS = "runtime/exchange/transports"
ARCHITECTURES = ("sm_80", "sm_90")
REALS = {"float": np.complex64, "double": np.complex128}


def constant(file: str, name: str):
    """Value of a module's constant, without importing the module (it may need CuPy)."""
    for node in ast.parse((PACKAGE / file).read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return ast.literal_eval(node.value)
    raise AssertionError(f"{file} has no constant {name}")


OPTIONS = constant("runtime/device/nvrtc.py", "COMPILE_OPTIONS")


def read(source: str) -> str:
    return files("wavefabric").joinpath(source).read_text(encoding="utf-8")


def packaged(source: str) -> str:
    """A source below the package as launchers name it."""
    folder, _, name = source.rpartition("/")
    return f"wavefabric.{folder.replace('/', '.')}/{name}"


def behind(before: tuple[str, ...], source: str) -> str:
    """A source behind those that it needs, named as launchers name them."""
    return cuda_text(*before, packaged(source))


OPERATORS = ("derivative", "rotate", "rk4ip_middle", "rk4ip_last", "rotate_rk4")
OF_FIELDS = {"-DFIELDS=1": OPERATORS[:2], "-DFIELDS=2": OPERATORS[2:4]}


def kernels_in(source: str, flags: tuple[str, ...] = ()) -> list[str]:
    """Names of the kernels that a source exports: the word before the list of arguments.

    The kernels of all Kerr operators come from one macro, with ``name`` in theirs; one-sided ones read as
    many fields as the flags say.
    """
    read_fields = [operators for flag, operators in OF_FIELDS.items() if flag in flags] or [OPERATORS]
    heads = read(source).split('extern "C" __global__ void')[1:]
    bounds = re.compile(r"__launch_bounds__\([^()]*\)")
    names = {bounds.sub("", head).split("(")[0].strip(" \\\n") for head in heads}
    return sorted({re.sub("(##)?name$", operator, name) for name in names for operator in read_fields[0]})


#: What the launcher puts before a source.
BEFORE = {
    "acoustics/solver/kernels.cu": ("acoustics/solver/split_density.cu", "acoustics/solver/points.cu"),
    "acoustics/solver/adjoint/kernels.cu": (
        *(f"acoustics/solver/{name}.cu" for name in ("split_density", "points", "adjoint/density")),
    ),
    "runtime/exchange/one_sided_pack.cu": (
        f"{TRANSPORTS}/signals.cu",
        "runtime/exchange/pack.cu",
    ),
    f"{TRANSPORTS}/plan.cu": (
        f"{TRANSPORTS}/signals.cu",
        f"{TRANSPORTS}/multimem.cu",
    ),
    "optics/propagation/kernels/kerr_one_sided.cu": (f"{TRANSPORTS}/signals.cu",),
}
#: Sources that need others before them, and definitions.
BEHIND_OTHERS = {
    "acoustics/materials/medium.cu",
    "acoustics/parallel/scatter.cu",
    "acoustics/fused/fused_columns.cu",
    "acoustics/fused/fused.cu",
    "acoustics/fused/fused_rows.cu",
    "acoustics/fused/adjoint_rows.cu",
    "acoustics/solver/adjoint/density.cu",
    "acoustics/solver/points.cu",
    "acoustics/solver/split_density.cu",
    "optics/propagation/kernels/fused_linear.cu",
    "runtime/spectral/axis_fft.cu",
    "runtime/spectral/inplace_fft.cu",
    "runtime/spectral/real_rows.cu",
}


def definitions(source: str) -> list[tuple[str, tuple[str, ...]]]:
    """Architectures and sets of definitions to compile ``source`` with, as the package does."""
    if source in (
        "runtime/device/philox.cu",
        "runtime/lifecycle/state_copies.cu",
        "optics/fibre/mixing_kernel.cu",
    ):
        return [(arch, (f"-DREAL={real}",)) for arch in ARCHITECTURES for real in REALS]
    if source == "optics/propagation/kernels/linear.cu":
        return [(arch, (f"-DREAL={real}", f"-DREAL2={real}2")) for arch in ARCHITECTURES for real in REALS]
    if source == "optics/propagation/kernels/kerr_chunks.cu":
        return [("sm_90", (f"-DREAL={real}", f"-DREAL2={real}2")) for real in REALS]
    if source in ("runtime/exchange/pack.cu", "runtime/exchange/one_sided_pack.cu"):
        kinds = [("float", "float", 1), ("double2", "double", 0)]
        return [("sm_90", (f"-DTYPE={t}", f"-DWEIGHT={w}", f"-DWEIGHTED={n}")) for t, w, n in kinds]
    if source == f"{TRANSPORTS}/p2p.cu":
        return [(arch, ()) for arch in ARCHITECTURES]
    if source == f"{TRANSPORTS}/plan.cu":
        types = ("float", "double", "float16", "bfloat16", "int", "long long", "unsigned char")
        return [("sm_90", (f"-DELEMENT={each}",)) for each in types] + [("sm_80", ("-DELEMENT=bfloat16",))]
    if source in (f"{TRANSPORTS}/signals.cu", f"{TRANSPORTS}/multimem.cu"):
        return []  # functions for other sources
    if source == "optics/propagation/kernels/kerr_one_sided.cu":
        from wavefabric.optics.propagation.kernels.kerr_cuda import type_options
        from wavefabric.optics.propagation.kernels.kerr_one_sided_cuda import KerrSizes

        result = []
        for dtype, own, fields in [(np.complex64, 30, 1), (np.complex64, 30, 2), (np.complex128, 3, 2)]:
            chosen = KerrSizes(30, own, 2 * own, 227 * 1024).tiling(fields, dtype)
            assert chosen is not None
            result.append(("sm_90", (*type_options(dtype), *chosen.definitions)))
        return result
    sound = "acoustics/solver/kernels.cu", "acoustics/solver/adjoint/kernels.cu"
    if source in (*sound, "runtime/spectral/butterflies.cu", "runtime/spectral/symmetric.cu"):
        return [(arch, (f"-DREAL={real}",)) for arch in ARCHITECTURES for real in REALS]
    if source in BEHIND_OTHERS:
        # Needs definitions and sources before it: `test_passes_compile`, `test_fused_kernels_compile`.
        return []
    assert source == "optics/propagation/kernels/kerr.cu", f"{source}: say here how it is compiled"
    from wavefabric.optics.propagation.kernels.kerr_cuda import GROUPS, tile

    result = []
    # A few rows, and the 240 of 120 modes: both tiles of both types, each architecture with each type.
    for arch, real, rows in [
        ("sm_90", "float", 240),
        ("sm_90", "double", 240),
        ("sm_90", "double", 2),
        ("sm_80", "float", 30),
        ("sm_80", "double", 30),
    ]:
        lanes, warps, per_thread = tile(rows, REALS[real])
        assert lanes * warps <= 1024
        assert warps * per_thread >= rows
        sizes = (f"-DLANES={lanes}", f"-DWARPS={warps}", f"-DROWS={per_thread}")
        groups = (f"-DWITH_{group}=1" for group in GROUPS)
        result.append((arch, (f"-DREAL={real}", f"-DREAL2={real}2", *sizes, *groups)))
    return result


def on(arch: str, *case, quick: bool = True) -> object:
    """A case of the suite that always runs if it is for Hopper and quick, or not much like another."""
    return pytest.param(*case, marks=() if arch == "sm_90" and quick else pytest.mark.slow)


#: Each source once, but for `kerr.cu`, which takes seconds: other types and sizes show nearly as much.
CASES = [
    on(arch, source, arch, flags, quick=not source.endswith("/kerr.cu") and number == 0)
    for source in SOURCES
    for number, (arch, flags) in enumerate(sorted(definitions(source), key=lambda each: each[0] != "sm_90"))
]


def test_the_sources_are_found():
    assert {
        "runtime/device/philox.cu",
        "optics/propagation/kernels/kerr.cu",
        "optics/propagation/kernels/linear.cu",
    } <= set(SOURCES)
    assert {"acoustics/solver/kernels.cu", "runtime/spectral/butterflies.cu", *BEHIND_OTHERS} <= set(SOURCES)
    assert {
        "optics/propagation/kernels/kerr_chunks.cu",
        "runtime/exchange/pack.cu",
        f"{TRANSPORTS}/p2p.cu",
        f"{TRANSPORTS}/plan.cu",
    } <= set(SOURCES)


@pytest.mark.parametrize(
    ("source", "arch", "flags"), CASES, ids=lambda v: v if isinstance(v, str) else " ".join(v)
)
def test_every_source_compiles(source, arch, flags):
    names = kernels_in(source, flags)
    assert names or source == "runtime/spectral/butterflies.cu"  # templates for other sources
    text = behind(tuple(map(packaged, BEFORE.get(source, ()))), source)
    cubin = nvrtc.compile_source(text, (*OPTIONS, *flags), arch, source)
    assert cubin[:4] == b"\x7fELF"
    for name in names:
        assert f".text.{name}\0".encode() in cubin


@pytest.mark.parametrize(
    ("arch", "n", "dtype"),
    [
        ("sm_90", 2**14, np.complex128),
        on("sm_90", "sm_90", 2**14, np.complex64, quick=False),
        on("sm_80", "sm_80", 30, np.complex64),
    ],
)
def test_fused_kernels_compile(arch, n, dtype):
    """fused_linear.cu with what the launcher puts before it."""
    from wavefabric.optics.propagation.kernels.fused_plan import fused_plan
    from wavefabric.runtime.spectral.inplace_fft import SOURCES

    plan = fused_plan(n, dtype)
    text = (
        plan.prelude() + "#define ORDERS 4\n" + behind(SOURCES, "optics/propagation/kernels/fused_linear.cu")
    )
    cubin = nvrtc.compile_source(text, OPTIONS, arch, "fused_linear.cu")
    names = (
        {"rows_transfer"} if plan.columns.points == 1 else {"columns_forth", "rows_transfer", "columns_back"}
    )
    assert {name.decode() for name in re.findall(rb"\.text\.(\w+)\0", cubin)} == names


#: Architecture, grid (Nz, Ny, Nx), type, nonlinear, absorption, axes, largest x² of sin(x)/x, how the
#: medium is held: both types, every kind of medium, odd and even Ny, Nz and Nx/2, one thread a transform and
#: several, a series and none. Small grids: long unrolled loops would compile for seconds.
KERNELS = [
    on("sm_90", "sm_90", (6, 4, 8), np.float32, False, "none", "XYZG", 2.0, "uniform", quick=False),
    on("sm_90", "sm_90", (3, 5, 18), np.float64, True, "power_law", "XYZG", 2.0, "full", quick=False),
    on("sm_90", "sm_90", (3, 5, 18), np.float64, True, "power_law", "XYZG", 2.0, "index16", quick=False),
    ("sm_90", (6, 4, 12), np.float32, True, "stokes", "XYZG", 2.0, "index8"),
    on("sm_80", "sm_80", (2, 7, 6), np.float32, True, "stokes", "XYZG", 20.0, "full"),
    on("sm_90", "sm_90", (35, 63, 70), np.float64, False, "stokes", "XYZG", 2.0, "uniform", quick=False),
    # A convolution along each axis
    on("sm_90", "sm_90", (13, 11, 26), np.float32, True, "power_law", "XYZG", 2.0, "full", quick=False),
    # Slabs of several ranks: 11 planes, or 13 columns, are not transformed there.
    on("sm_90", "sm_90", (11, 4, 40), np.float32, True, "power_law", "XY", 2.0, "full", quick=False),
    on("sm_90", "sm_90", (6, 13, 8), np.float32, True, "power_law", "ZG", 20.0, "index8", quick=False),
]


@pytest.mark.parametrize(
    ("arch", "shape", "real", "nonlinear", "absorption", "kernels", "largest", "form"), KERNELS
)
def test_passes_compile(arch, shape, real, nonlinear, absorption, kernels, largest, form):
    """The passes with what the launcher puts before them: their kernels are those that it launches."""
    from wavefabric.acoustics.fused import axis_kernels_cuda as cuda
    from wavefabric.acoustics.fused.axis_blocks import usable
    from wavefabric.acoustics.solver.split_density import positions, runs_along

    assert usable(*shape[::-1], real)
    assert cuda.SOURCES[-1].endswith("/fused_rows.cu")
    factor = np.ones(shape[2])
    factor[[0, -1]] = 0.9  # layers of one point
    series, runs = cuda.sinc_series(largest, real), runs_along(positions(factor))
    forms = dict.fromkeys(cuda.ALL_FULL, form)
    if form == "uniform":
        forms |= {"staggered": "full", "tau": "full"}
    text = cuda.prelude(shape, real, cuda.MediumKind(nonlinear, absorption, forms), kernels, series, runs)

    def exports(sources):
        file = sources[-1].partition("/")[2]
        cubin = nvrtc.compile_source(
            text + behind(sources[:-1], f"acoustics/fused/{file}"), OPTIONS, arch, file
        )
        return {name.decode() for name in re.findall(rb"\.text\.(\w+)\0", cubin)}

    exported = exports(cuda.SOURCES)
    if "X" in kernels and "index" not in form:
        assert exports(cuda.ADJOINT_SOURCES) == set(cuda.ADJOINT_KERNELS)
    launched = set(cuda.LETTERS) - {"y_scatter", *cuda.ADJOINT_KERNELS}
    assert len(launched) > 8
    assert exported == {name for name in launched if cuda.LETTERS[name] in kernels}
    # No kernel but these is named where they are launched.
    named = re.findall(r'"([xyz]_\w+)"', read("acoustics/fused/axis_kernels_cuda.py"))
    named += re.findall(r'"([xyz]_\w+)"', read("acoustics/fused/fused_cuda.py"))
    assert set(named) == launched | {"y_scatter", *cuda.ADJOINT_KERNELS}


@pytest.mark.parametrize(
    ("shape", "real", "kernels", "firsts"),
    [
        pytest.param((11, 8, 40), np.float32, "XY", (3, 6), marks=pytest.mark.slow),
        ((12, 13, 8), np.float64, "ZG", (7,)),
        pytest.param((512, 4, 8), np.float32, "ZG", (256,), marks=pytest.mark.slow),
    ],
)
def test_passes_that_transpose_compile(shape, real, kernels, firsts):
    from wavefabric.acoustics.fused import axis_kernels_cuda as cuda

    *before, last = cuda.sources(True)
    text = cuda.prelude(shape, real, cuda.MediumKind(True, "power_law"), kernels, firsts=firsts)
    cubin = nvrtc.compile_source(
        text + behind(before, "acoustics/fused/fused_rows.cu"), OPTIONS, "sm_90", last
    )
    exported = {name.decode() for name in re.findall(rb"\.text\.(\w+)\0", cubin)}
    assert "await_ranks" in exported
    assert ("y_scatter" in exported) == ("Y" in kernels)
    assert ("z_gradient" in exported) == ("Z" in kernels)


def test_kernels_have_their_launchers():
    """What kerr.py offers exists in CUDA too."""
    from wavefabric.optics.propagation.kernels import kerr_cuda

    kernels = get_device("cpu", threads=1).kernels("wavefabric.optics.propagation.kernels.kerr")
    offered = {name for name in dir(kernels) if not name.startswith("_")}
    assert {"kerr", "kerr_begin", "transfer_table", "row_energy", "KerrLayout"} <= offered
    assert offered <= set(dir(kerr_cuda.KerrKernels))


@pytest.mark.parametrize("module", ["solver", "solver.adjoint"])
def test_a_table_names_the_kernels_of_its_source(module):
    table = import_module(f"wavefabric.acoustics.{module}.kernels").TABLE
    folder = table.package.removeprefix("wavefabric.").replace(".", "/")
    assert sorted(table.rows) == kernels_in(f"{folder}/{table.source}")


def test_an_error_gives_the_log():
    with pytest.raises(nvrtc.CompileError, match=r"(?s)bad\.cu.*undefined_thing"):
        nvrtc.compile_source(
            'extern "C" __global__ void f(int* a) { a[0] = undefined_thing; }', name="bad.cu"
        )
    with pytest.raises(nvrtc.CompileError, match="no-such-option"):
        nvrtc.compile_source("", ("--no-such-option",))


def test_an_unknown_architecture_is_refused():
    with pytest.raises(InputError, match="arch"):
        nvrtc.compile_source("", arch="compute_90")
    with pytest.raises(nvrtc.CompileError):
        nvrtc.compile_source("", arch="sm_13")


def test_the_wheel_may_be_absent(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert nvrtc.find_library() is None
    nvrtc._library.cache_clear()
    try:
        with pytest.raises(MissingExtra, match="dev"):
            nvrtc.version()
    finally:
        nvrtc._library.cache_clear()


def test_version():
    major, minor = nvrtc.version()
    assert major >= 12
    assert minor >= 0
