"""Transforms of one axis in place inside a thread block, against NumPy: emulated on the CPU, and on a GPU."""

import functools
import math
from importlib.resources import files

import numpy as np
import pytest
from emulated_cuda import Module
from hypothesis import given, settings
from hypothesis import strategies as st

SOURCE = "".join(
    files("wavefabric.runtime.spectral").joinpath(name).read_text(encoding="utf-8")
    for name in ("butterflies.cu", "inplace_fft.cu")
)
#: Largest error, as a share of the largest value.
TOLERANCE = {"float": 5e-7, "double": 1e-15}
#: The same of radix 32 in double precision: its last leg is turned by the 31st power of a rounded factor.
OF_RADIX_32 = 1.5e-15
DTYPE = {"float": np.complex64, "double": np.complex128}

# One block: forth from the points to the frequencies, and back from there without leaving registers. What
# lies where: values (one, or two with a Twin), transforms, points.
WHOLE = """
__device__ __forceinline__ Complex given(const Complex *at, int, Complex) { return *at; }
__device__ __forceinline__ Twin given(const Complex *at, int apart, Twin) { return {at[0], at[apart]}; }
__device__ __forceinline__ void put(Complex value, Complex *at, int) { *at = value; }
__device__ __forceinline__ void put(Twin value, Complex *at, int apart) {
    at[0] = value.a;
    at[apart] = value.b;
}
__device__ __forceinline__ Twin swapped(Twin v) { return {swapped(v.a), swapped(v.b)}; }

// a[k] <- a[k] w_N^(P m k).
struct Turn {
    const Wide *roots;
    template <int P, int R, int STAGE, class V>
    __device__ __forceinline__ void turn(V *a, int m) const { turn_by_powers<R>(a, roots[P * m]); }
};

template <class V, class T, class L>
__device__ __forceinline__ void whole(int line, int apart, const Complex *in, Complex *there, Complex *again,
                                      const Wide *roots) {
    extern __shared__ char memory[];
    const int start = line * L::points;
    const Turn turn = {roots};
    V v[T::values];
    T::near(v, [&](V &value, int n) { value = given(in + start + n, apart, V()); });
    T::forth(v, (V *)memory, turn);
    T::far(v, [&](V &value, int k) {
        put(value, there + start + k, apart);
        value = swapped(value);
    });
    T::back(v, (V *)memory, turn);
    T::near(v, [&](V &value, int n) { put(swapped(value), again + start + n, apart); });
}
"""
KERNEL = """
extern "C" __global__ void __launch_bounds__({block}) {name}(const Complex *in, Complex *there,
                                                             Complex *again, const Wide *roots)
{{
    typedef {layout} L;
    whole<{value}, InPlace<L, {radices}>, L>(L::{line}(), {apart}, in, there, again, roots);
}}
"""


class Configuration:
    """Radices, threads a transform, transforms a block, layout and gap, of one value or two."""

    def __init__(self, radices, threads, side, layout, gap=0, value="Complex"):
        self.radices, self.threads, self.side, self.layout = radices, threads, side, layout
        self.gap, self.value, self.n = gap, value, math.prod(radices)
        digits = "_".join(map(str, radices))
        self.name = f"{layout}_{digits}_by_{threads}_times_{side}_gap_{gap}_{value}"

    def kernel(self):
        """Text of the kernel."""
        wide = "" if self.layout == "Row" else f", {self.side}"
        return KERNEL.format(
            block=self.threads * self.side,
            name=self.name,
            layout=f"{self.layout}Tile<{self.n}, {self.threads}{wide}, {self.gap}>",
            line=self.layout.lower(),
            value=self.value,
            apart=self.side * self.n,
            radices=", ".join(map(str, self.radices)),
        )

    def shared(self, dtype):
        """Bytes of shared memory, and not one more."""
        words = self.n + (self.n // self.gap if self.gap else 0)
        return words * self.side * np.dtype(dtype).itemsize * self.values

    @property
    def values(self):
        return 2 if self.value == "Twin" else 1


RADICES = (2, 3, 4, 5, 7, 8, 16, 32)

#: Every radix alone, first and last of several; threads that divide the butterflies, that do not, and more of
#: them than butterflies; both layouts with and without gaps.
CONFIGURATIONS = [
    Configuration((2,), 1, 2, "Row"),
    Configuration((3,), 1, 3, "Column"),
    Configuration((4,), 1, 1, "Row"),
    Configuration((5,), 2, 2, "Column"),
    Configuration((7,), 1, 2, "Row", value="Twin"),
    Configuration((8,), 1, 4, "Column"),
    Configuration((16,), 1, 1, "Column", value="Twin"),
    Configuration((16, 2), 2, 2, "Row", 2),
    Configuration((2, 16), 2, 3, "Column", 16),
    Configuration((3, 5), 4, 2, "Column"),
    Configuration((7, 3), 2, 2, "Row", value="Twin"),
    Configuration((8, 7), 7, 1, "Column", 4),
    Configuration((5, 8), 3, 2, "Row", 8),
    Configuration((2, 3, 4), 5, 2, "Column", 4, "Twin"),
    Configuration((4, 7, 5), 9, 2, "Row"),
    Configuration((16, 3, 2), 6, 2, "Row", 2, "Twin"),
    Configuration((3, 16, 4), 12, 1, "Column", 4),
    Configuration((5, 2, 3, 2), 7, 3, "Row", 2),
    Configuration((2, 2, 2, 2, 2), 3, 2, "Column"),
    Configuration((32,), 1, 2, "Row"),
    Configuration((2, 32), 2, 2, "Column"),
    Configuration((32, 2), 3, 1, "Row", 2),
]
#: Compiled on a GPU too, but not by default on the CPU.
MORE = [
    Configuration((16, 16, 2), 32, 1, "Row", 2),
    Configuration((16, 16, 2), 32, 8, "Column"),
    Configuration((32, 16), 16, 8, "Column"),
    Configuration((16, 16, 16), 256, 1, "Row", 16, "Twin"),
    Configuration((8, 5, 5, 5, 3), 188, 1, "Row"),
    Configuration((7, 7, 7, 2), 43, 4, "Column", 2, "Twin"),
]


def roots(n):
    """exp(−2πi m/n) in extended precision where there is one."""
    angle = -2 * np.longdouble("3.14159265358979323846264338327950288") * np.arange(n) / n
    return np.cos(angle) + 1j * np.sin(angle)


def text_of(configurations):
    return SOURCE + WHOLE + "".join(configuration.kernel() for configuration in configurations)


class OnTheCpu:
    """Emulated kernels of some configurations."""

    asarray = fetch = staticmethod(np.asarray)

    def __init__(self, real, configurations, seed=0):
        self._module = Module(text_of(configurations), (f"-DREAL={real}",), seed)

    def launch(self, configuration, arguments, shared):
        function = self._module.kernel(configuration.name)
        function.max_dynamic_shared_size_bytes = max(shared, 48 * 1024)
        function((1,), (configuration.threads * configuration.side,), arguments, shared)


class OnAGpu:
    """The same on the first GPU."""

    def __init__(self, real, configurations):
        import cupy

        options = ("--std=c++17", f"-DREAL={real}")
        self._module = cupy.RawModule(code=text_of(configurations), options=options)
        self.asarray, self.fetch = cupy.asarray, cupy.asnumpy

    def launch(self, configuration, arguments, shared):
        function = self._module.get_function(configuration.name)
        if shared > 48 * 1024:
            function.max_dynamic_shared_size_bytes = shared
        function((1,), (configuration.threads * configuration.side,), arguments, shared_mem=shared)


@functools.cache
def kernels(device, real, layout):
    """Those of one layout, compiled together."""
    lists = {"emulated": CONFIGURATIONS, "more": MORE, "cuda": CONFIGURATIONS + MORE}
    chosen = [configuration for configuration in lists[device] if configuration.layout == layout]
    return OnAGpu(real, chosen) if device == "cuda" else OnTheCpu(real, chosen)


def check(kernels, configuration, real):
    """Forth is the transform at the frequencies that `far` names, back the input times N."""
    dtype, n = DTYPE[real], configuration.n
    rng = np.random.default_rng(n)
    shape = configuration.values, configuration.side, n
    sent = (rng.standard_normal((*shape, 2)).view(complex)[..., 0]).astype(dtype)
    there, again = (kernels.asarray(np.full(shape, np.nan, dtype)) for _ in range(2))
    shared = configuration.shared(dtype) if len(configuration.radices) > 1 else 0
    turns = kernels.asarray(roots(n).astype(np.complex128).view(float))
    kernels.launch(configuration, (kernels.asarray(sent), there, again, turns), shared)
    wanted = np.fft.fft(sent.astype(complex))
    tolerance = OF_RADIX_32 if real == "double" and 32 in configuration.radices else TOLERANCE[real]
    # NaN where nothing was written is in no tolerance.
    assert abs(kernels.fetch(there) - wanted).max() <= tolerance * abs(wanted).max()
    assert abs(kernels.fetch(again) / n - sent).max() <= 2 * tolerance * abs(sent).max()


POSITIONS = [
    *(("emulated", configuration) for configuration in CONFIGURATIONS),
    *(pytest.param("more", configuration, marks=pytest.mark.slow) for configuration in MORE),
    *(pytest.param("cuda", configuration, marks=pytest.mark.gpu) for configuration in CONFIGURATIONS + MORE),
]


@pytest.mark.parametrize("real", [pytest.param("float", marks=pytest.mark.slow), "double"])
@pytest.mark.parametrize(
    ("device", "configuration"), POSITIONS, ids=lambda value: getattr(value, "name", value)
)
def test_transforms(device, configuration, real):
    check(kernels(device, real, configuration.layout), configuration, real)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_threads_in_any_order(seed):
    """One barrier a stage is enough: values change hands at places that only one thread reads."""
    for layout in ("Row", "Column"):
        chosen = [configuration for configuration in CONFIGURATIONS if configuration.layout == layout]
        kernels = OnTheCpu("double", chosen, seed)
        for configuration in chosen:
            check(kernels, configuration, "double")


def test_the_configurations_meet_everything():
    several = [c for c in CONFIGURATIONS if len(c.radices) > 1]
    every = set(RADICES)
    assert {c.radices[0] for c in CONFIGURATIONS if len(c.radices) == 1} == every
    assert {c.radices[0] for c in several} == every
    assert {c.radices[-1] for c in several} == every
    for layout in ("Row", "Column"):
        assert {bool(c.gap) for c in several if c.layout == layout} == {False, True}
        assert {c.value for c in CONFIGURATIONS if c.layout == layout} == {"Complex", "Twin"}
    fractions = [(c.n // r, c.threads) for c in several for r in c.radices]
    assert any(butterflies % threads == 0 and butterflies > threads for butterflies, threads in fractions)
    assert any(butterflies % threads for butterflies, threads in fractions)
    assert any(butterflies < threads for butterflies, threads in fractions)


# --- Parts ------------------------------------------------------------------------------------------------

PARTS = """
template <int R>
__device__ void powers(Complex *out, const Wide *w) {
    Complex a[R];
    for (int k = 0; k < R; ++k) a[k] = {1, 0};
    turn_by_powers<R>(a, *w);
    for (int k = 0; k < R; ++k) out[k] = a[k];
}
extern "C" __global__ void all_powers(Complex *out, const Wide *w) {
    powers<2>(out, w);
    powers<3>(out + 2, w);
    powers<4>(out + 5, w);
    powers<5>(out + 9, w);
    powers<7>(out + 14, w);
    powers<8>(out + 21, w);
    powers<16>(out + 29, w);
    powers<32>(out + 45, w);
}
extern "C" __global__ void butterflies(Complex *v) {
    butterfly<2>(v);
    butterfly<3>(v + 2);
    butterfly<4>(v + 5);
    butterfly<5>(v + 9);
    butterfly<7>(v + 14);
    butterfly<8>(v + 21);
    butterfly<16>(v + 29);
    butterfly<32>(v + 45);
    butterfly<11>(v + 77);
    butterfly<13>(v + 88);
}
"""


@functools.cache
def parts(real):
    return Module(SOURCE + PARTS, (f"-DREAL={real}",))


#: Radices of butterflies; 11 and 13 are those of transforms of one axis alone.
BUTTERFLIES = (*RADICES, 11, 13)


def each_radix(values):
    at = 0
    for radix in BUTTERFLIES:
        if at == len(values):
            return
        yield radix, values[at : at + radix]
        at += radix


@pytest.mark.slow
@pytest.mark.parametrize(("real", "allowed"), [("float", 6e-8), ("double", 6e-16)])
def test_powers(real, allowed):
    """a[k] <- a[k] w^k, to about one rounding of the field's type."""
    w, out = np.exp(-2j * np.pi * 5 / 173), np.zeros(sum(RADICES), DTYPE[real])
    parts(real).kernel("all_powers")((1,), (1,), (out, np.array([w.real, w.imag])))
    for radix, values in each_radix(out):
        exact = np.clongdouble(w) ** np.arange(radix)
        assert abs(values - exact).max() < allowed


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_butterflies(seed):
    rng = np.random.default_rng(seed)
    for real, tolerance in TOLERANCE.items():
        sent = (rng.standard_normal((sum(BUTTERFLIES), 2)).view(complex)[:, 0]).astype(DTYPE[real])
        result = sent.copy()
        parts(real).kernel("butterflies")((1,), (1,), (result,))
        for (_, before), (_, after) in zip(each_radix(sent), each_radix(result), strict=True):
            wanted = np.fft.fft(before.astype(complex))
            assert abs(after - wanted).max() <= tolerance * abs(wanted).max()


@pytest.mark.parametrize(("real", "allowed"), [("float", 8e-8), ("double", 1.6e-16)])
def test_numbers_in_butterflies(real, allowed):
    """Of one value that is not 0, the transform is a root of unity, to a rounding or two."""
    for position in range(max(BUTTERFLIES)):
        v = np.concatenate([np.arange(radix) == position % radix for radix in BUTTERFLIES]).astype(
            DTYPE[real]
        )
        parts(real).kernel("butterflies")((1,), (1,), (v,))
        for radix, values in each_radix(v):
            wanted = roots(radix)[position * np.arange(radix) % radix]
            assert abs(values - wanted).max() < allowed


ADDRESSES_IN_MEMORY = """
template <class L>
__device__ void note(int *out, int line) {
    for (int n = L::lane(); n < L::points; n += L::threads) out[line * L::points + n] = L::at(n);
}
typedef ColumnTile<12, 2, 3, EMPTY> Columns;
typedef RowTile<12, 2, EMPTY> Rows;
extern "C" __global__ void columns(int *out) { note<Columns>(out, Columns::column()); }
extern "C" __global__ void rows(int *out) { note<Rows>(out, Rows::row()); }
"""


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_places_in_shared_memory(gap):
    """Columns side by side, rows one after another, and an empty place after so many points."""
    module = Module(SOURCE + ADDRESSES_IN_MEMORY, ("-DREAL=float", f"-DEMPTY={gap}"))
    n, line = np.arange(12), np.arange(3)[:, None]
    within, words = (n + n // gap, 15) if gap else (n, 12)
    for name, wanted in (("columns", within * 3 + line), ("rows", words * line + within)):
        out = np.full((3, 12), -1, np.int32)
        module.kernel(name)((1,), (6,), (out,))
        assert (out == wanted).all()
