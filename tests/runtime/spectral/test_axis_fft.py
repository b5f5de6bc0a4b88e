"""The GPU's transforms of one axis, complex and real, against NumPy: emulated on the CPU, and on a GPU."""

import functools
import math
from importlib.resources import files

import numpy as np
import pytest
from emulated_cuda import Module

from wavefabric.runtime.spectral.axis_fft import axis_table, row_space

SOURCE = "".join(
    files("wavefabric.runtime.spectral").joinpath(name).read_text(encoding="utf-8")
    for name in ("butterflies.cu", "axis_fft.cu", "real_rows.cu")
)
#: Largest error, as a share of the largest value.
TOLERANCE = {"float": 1e-6, "double": 2e-15}
DTYPE = {"float": np.complex64, "double": np.complex128}
PART = {"float": np.float32, "double": np.float64}

# One block. Complex: forth from the near end to the far end, and back from there without leaving registers.
# Real rows: forth from values to half spectra; back from half spectra that lie where values are exchanged, as
# in the passes.
KERNELS = """
extern __shared__ char memory[];

template <class A>
__device__ void complex_both(const Complex *in, Complex *there, Complex *again, const Complex *twiddle) {
    typedef typename A::Layout L;
    Complex v[A::values];
    const int first = L::transform() * A::points;
    A::near(v, [&](Complex &value, int n) { value = in[first + n]; });
    A::forth(v, (Complex *)memory, twiddle);
    A::far(v, [&](Complex &value, int n) {
        there[first + n] = value;
        value = swapped(value);
    });
    A::back(v, (Complex *)memory, twiddle);
    A::near(v, [&](Complex &value, int n) { again[first + n] = swapped(value); });
}

template <class R>
__device__ void real_forth(const Complex *rows, Complex *spectra, const Complex *twiddle) {
    typedef typename R::L L;
    Complex v[R::A::values];
    const int row = L::transform();
    R::A::near(v, [&](Complex &value, int j) { value = rows[row * R::A::points + j]; });
    R::forth(v, (Complex *)memory, twiddle, [&](int k, Complex entry) {
        spectra[row * (R::half + 1) + k] = entry;
    });
}

template <class R>
__device__ void real_back(const Complex *spectra, Complex *rows, const Complex *twiddle) {
    typedef typename R::L L;
    Complex v[R::A::values];
    const int row = L::transform();
    Complex *mine = (Complex *)memory + row * L::space;
    for (int k = L::lane(); k <= R::half; k += L::threads) mine[k] = spectra[row * (R::half + 1) + k];
    L::sync();
    R::back(v, (Complex *)memory, twiddle, [&](int k) { return mine[k]; });
    R::A::near(v, [&](Complex &value, int j) { rows[row * R::A::points + j] = swapped(value); });
}
"""
COMPLEX = """
extern "C" __global__ void {name}(const Complex *in, Complex *there, Complex *again, const Complex *turns) {{
    complex_both<{axis}>(in, there, again, turns);
}}
"""
REAL = """
extern "C" __global__ void {name}_forth(const Complex *rows, Complex *spectra, const Complex *twiddle) {{
    real_forth<{axis}>(rows, spectra, twiddle);
}}
extern "C" __global__ void {name}_back(const Complex *spectra, Complex *rows, const Complex *twiddle) {{
    real_back<{axis}>(spectra, rows, twiddle);
}}
"""


class Configuration:
    """Radices, threads a transform, transforms a block, layout; complex, or rows of reals.

    Rows have twice as many reals as ``points``, or ``odd`` ones.
    """

    def __init__(self, radices, threads, tile, layout="Rows", late=False, real=False, points=None, odd=None):
        self.radices, self.threads, self.tile, self.layout = radices, threads, tile, layout
        #: Points of the transforms inside, and of those outside: fewer, of any number.
        self.late, self.real, self.inner = late, real, math.prod(radices)
        self.odd, self.points = odd, (odd + 1) // 2 if odd else points or self.inner
        #: Points of the table of factors.
        self.length = odd or (2 * self.points if real else self.points)
        digits = "_".join(map(str, radices)) + f"_for_{odd or points}" * bool(odd or points)
        self.name = f"{'real_' * real}{layout}_{digits}_by_{threads}_times_{tile}{'_late' * late}"

    def kernel(self):
        """Text of the kernels."""
        forth, back = (", ".join(map(str, radices)) for radices in (self.radices, self.radices[::-1]))
        layout = f"{self.layout}<{self.inner}, {self.threads}, {self.tile}, {str(self.late).lower()}>"
        axis = f"Axis<{layout}, Radices<{forth}>, Radices<{back}>>"
        if self.odd:
            direct = f"OddRows<{axis}, {self.odd}>"
            axis = direct if self.odd == self.inner else f"ConvolvedOddRows<EverySecond<{axis}, {self.odd}>>"
        else:
            axis = f"OfLength<{axis}, {self.points}>::Type"
            axis = f"RealRows<{axis}>" if self.real else axis
        return (REAL if self.real else COMPLEX).format(name=self.name, axis=axis)

    def shared(self, dtype):
        """Bytes of shared memory, and not one more."""
        words = row_space(self.inner, self.threads) if self.layout == "Rows" else self.inner
        return words * self.tile * np.dtype(dtype).itemsize


#: Every radix first and last of several; threads that divide the butterflies and threads that do not.
CONFIGURATIONS = [
    Configuration((8,), 1, 2, "Columns"),
    Configuration((8, 8), 8, 2, "Columns"),
    Configuration((7, 5), 3, 2, "Columns", late=True),
    Configuration((2, 4, 7), 7, 3, "Columns"),
    Configuration((16, 3), 5, 4, "Columns", late=True),
    Configuration((5, 16), 16, 2, "Columns"),
    Configuration((32, 3), 3, 2, "Columns"),
    Configuration((2, 32), 2, 1),
    Configuration((2,), 1, 2),
    Configuration((3, 7, 4), 11, 1),
    Configuration((16, 5), 7, 3),
    Configuration((8, 5, 4), 32, 2),
    Configuration((13, 4), 7, 2, "Columns"),
    Configuration((11, 3), 3, 2, "Columns", late=True),
    Configuration((8, 13), 16, 2),
    Configuration((5, 11), 5, 1),
    # Convolutions: as many points as there may be, and fewer
    Configuration((7, 3), 4, 2, "Columns", points=11),
    Configuration((8, 4), 4, 4, "Columns", late=True, points=13),
    Configuration((5, 5), 5, 2, points=13),
    Configuration((8, 8, 4), 32, 1, "Columns", points=103),
]
#: Threads of a row that divide a warp, that do not, and whole warps; one row a block and several. Some rows
#: share a warp with others, or begin in one and end in the next.
ROWS = [
    Configuration(radices, threads, tile, late=late, real=True, points=points[0] if points else None)
    for radices, threads, tile, late, *points in [
        ((2,), 1, 1, False),
        ((4,), 2, 3, False),
        ((8,), 1, 33, True),
        ((3, 2), 1, 3, True),
        ((5, 5), 5, 7, False),
        ((7, 2), 3, 3, True),
        ((5, 3), 8, 3, False),
        ((4, 3, 3), 8, 4, True),
        ((16, 3), 6, 6, True),
        ((2, 16), 4, 2, False),
        ((5, 7, 2), 12, 4, True),
        ((8, 8, 2), 16, 2, True),
        ((7, 5, 5), 32, 2, True),
        ((8, 8, 5), 64, 1, True),
        ((7, 3), 4, 4, True, 11),
        ((5, 5), 8, 4, False, 13),
        ((8, 7, 4), 32, 2, True, 101),
    ]
]
#: Of odd numbers of points. Convolutions: as many of their points as there must be, and more.
ROWS += [
    Configuration(radices, threads, tile, late=late, real=True, odd=odd)
    for radices, threads, tile, late, odd in [
        ((4,), 1, 2, False, 3),
        ((7,), 2, 3, True, 5),
        ((5, 4), 4, 4, False, 13),
        ((8, 3), 8, 3, True, 15),
        ((8, 8, 3), 32, 1, True, 127),
        ((8, 7, 5), 48, 1, False, 181),
        ((3,), 1, 3, False, 3),
        ((5, 3), 2, 4, True, 15),
        ((7, 3, 3), 8, 3, False, 63),
        ((5, 5, 5), 32, 2, True, 125),
        ((13, 5, 3), 64, 1, False, 195),
    ]
]
#: On a GPU too, but not by default on the CPU.
MORE = [
    Configuration((8, 8, 8), 64, 1),
    Configuration((8, 8, 3, 2), 24, 8, "Columns"),
    Configuration((8, 5, 5, 5), 125, 1),
    Configuration((16, 16, 2), 32, 8, "Columns", late=True),
    Configuration((32, 32), 32, 8, "Columns", late=True),
    Configuration((8, 8, 4), 32, 4, real=True, late=True),
    Configuration((8, 8, 8, 3), 192, 1, real=True, late=True),
    Configuration((7, 7, 5, 5), 160, 1, real=True),
]


def text_of(configurations):
    return SOURCE + KERNELS + "".join(configuration.kernel() for configuration in configurations)


class OnTheCpu:
    """Emulated kernels of some configurations."""

    asarray = fetch = staticmethod(np.asarray)

    def __init__(self, real, configurations, seed=0):
        self._module = Module(text_of(configurations), (f"-DREAL={real}",), seed)

    def launch(self, name, threads, arguments, shared):
        function = self._module.kernel(name)
        function.max_dynamic_shared_size_bytes = max(shared, 48 * 1024)
        function((1,), (threads,), arguments, shared)


class OnAGpu:
    """The same on the first GPU."""

    def __init__(self, real, configurations):
        import cupy

        options = ("--std=c++17", f"-DREAL={real}")
        self._module = cupy.RawModule(code=text_of(configurations), options=options)
        self.asarray, self.fetch = cupy.asarray, cupy.asnumpy

    def launch(self, name, threads, arguments, shared):
        function = self._module.get_function(name)
        function.max_dynamic_shared_size_bytes = shared
        function((1,), (threads,), arguments, shared_mem=shared)


@functools.cache
def kernels(device, real):
    """All of a place, compiled together."""
    lists = {"emulated": CONFIGURATIONS + ROWS, "more": MORE, "cuda": CONFIGURATIONS + ROWS + MORE}
    return OnAGpu(real, lists[device]) if device == "cuda" else OnTheCpu(real, lists[device])


def launched(kernels, configuration, real, sent, shapes, suffix=""):
    """Arrays of the given shapes, written by a kernel of what is sent."""
    dtype = DTYPE[real]
    of = configuration.length, configuration.radices, PART[real], configuration.real
    turns = axis_table(*of)
    # NaN where nothing was written is in no tolerance.
    out = [kernels.asarray(np.full(shape, np.nan, dtype)) for shape in shapes]
    arguments = (kernels.asarray(sent), *out, kernels.asarray(turns))
    threads = configuration.threads * configuration.tile
    kernels.launch(configuration.name + suffix, threads, arguments, configuration.shared(dtype))
    return [kernels.fetch(array) for array in out]


def noise(shape, dtype):
    return np.random.default_rng(shape[-1]).standard_normal((*shape, 2)).view(complex)[..., 0].astype(dtype)


def near(result, wanted, tolerance):
    assert abs(result - wanted).max() <= tolerance * abs(wanted).max()


def check_complex(kernels, configuration, real):
    """Forth is the transform at the points that `far` names, back the input times N."""
    sent = noise((configuration.tile, configuration.points), DTYPE[real])
    there, again = launched(kernels, configuration, real, sent, [sent.shape] * 2)
    near(there, np.fft.fft(sent.astype(complex)), TOLERANCE[real])
    near(again, configuration.points * sent.astype(complex), 2 * TOLERANCE[real])


def check_real(kernels, configuration, real):
    """Forth is NumPy's rfft, back N times its irfft, whatever imaginary parts no real row has."""
    half, tile, dtype = configuration.points, configuration.tile, DTYPE[real]
    rows, spectra = noise((tile, half), dtype), noise((tile, half + 1), dtype)
    values = rows.view(PART[real]).astype(float)
    (result,) = launched(kernels, configuration, real, rows, [spectra.shape], "_forth")
    near(result, np.fft.rfft(values), TOLERANCE[real])
    assert not result[:, [0, half]].imag.any()
    wanted = 2 * half * np.fft.irfft(spectra.astype(complex), 2 * half)
    (result,) = launched(kernels, configuration, real, spectra, [rows.shape], "_back")
    near(result.view(PART[real]), wanted, 2 * TOLERANCE[real])
    spectra[:, [0, half]] += 1j * np.array([1e3, -7e4])
    (again,) = launched(kernels, configuration, real, spectra, [rows.shape], "_back")
    assert (again == result).all()


def check_odd(kernels, configuration, real):
    """The same for rows of an odd number of points; what lies beside the last one does not count."""
    n, half, tile, dtype = configuration.odd, configuration.points, configuration.tile, DTYPE[real]
    rows, spectra = noise((tile, half), dtype), noise((tile, half), dtype)
    rows.view(PART[real])[:, n] = np.nan
    values = rows.view(PART[real])[:, :n].astype(float)
    (result,) = launched(kernels, configuration, real, rows, [spectra.shape], "_forth")
    near(result, np.fft.rfft(values), 2 * TOLERANCE[real])
    wanted = n * np.fft.irfft(spectra.astype(complex), n)
    (result,) = launched(kernels, configuration, real, spectra, [rows.shape], "_back")
    near(result.view(PART[real])[:, :n], wanted, 4 * TOLERANCE[real])


def check(kernels, configuration, real):
    by_kind = check_odd if configuration.odd else check_real if configuration.real else check_complex
    by_kind(kernels, configuration, real)


POSITIONS = [
    *(("emulated", configuration) for configuration in CONFIGURATIONS + ROWS),
    *(pytest.param("more", configuration, marks=pytest.mark.slow) for configuration in MORE),
    *(
        pytest.param("cuda", configuration, marks=pytest.mark.gpu)
        for configuration in CONFIGURATIONS + ROWS + MORE
    ),
]


@pytest.mark.parametrize("real", [pytest.param("float", marks=pytest.mark.slow), "double"])
@pytest.mark.parametrize(
    ("device", "configuration"), POSITIONS, ids=lambda value: getattr(value, "name", value)
)
def test_transforms(device, configuration, real):
    check(kernels(device, real), configuration, real)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_threads_in_any_order(seed):
    chosen = OnTheCpu("double", CONFIGURATIONS + ROWS, seed)
    for configuration in CONFIGURATIONS + ROWS:
        check(chosen, configuration, "double")


def test_the_configurations_meet_everything():
    every = {2, 3, 4, 5, 7, 8, 11, 13, 16, 32}
    assert {c.radices[0] for c in CONFIGURATIONS + ROWS} == every
    assert {c.radices[-1] for c in CONFIGURATIONS + ROWS if len(c.radices) > 1} == every
    for group in (CONFIGURATIONS, ROWS):
        fractions = [(c.points // r, c.threads) for c in group for r in c.radices]
        assert any(butterflies % threads == 0 and butterflies > threads for butterflies, threads in fractions)
        assert any(butterflies % threads for butterflies, threads in fractions)
        assert any(butterflies < threads for butterflies, threads in fractions)
    assert {32 % c.threads == 0 for c in ROWS if c.tile > 1} == {False, True}
